"""A site of a round over an engine: its settings, what it answers, its folder, its watchdog.

The site answers from its own data and keeps every message that leaves it. The
server learns of an error by a fixed code; its text stays in the site's folder.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedwqcp._io import (
    exists,
    is_folder,
    make_folder,
    read,
    read_toml,
    sync_folder,
    to_struct,
    write_atomic,
)
from fedwqcp._validation import nearest
from fedwqcp.errors import (
    BudgetError,
    ClassesError,
    FedwqcpError,
    InputError,
    RecordError,
    SizeError,
    traced,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.approval import is_approved
from fedwqcp.federation.batches import Progress, calibration_in_batches
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.disclosure_limit import USUAL_LIMIT, DisclosureLimit
from fedwqcp.federation.plan import Plan, as_target
from fedwqcp.federation.predict import calibration_of, check_same_round
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.record import parse
from fedwqcp.federation.release import Release
from fedwqcp.federation.signing import SigningKey
from fedwqcp.federation.site_folder import (
    check_open,
    check_outside,
    check_site_folder,
    close_old_rounds,
    default_folder,
    kept_in,
)
from fedwqcp.federation.transport.envelope import CODES, OK, Request, reply_fields
from fedwqcp.methods import Calibration
from fedwqcp.outputs import Outputs
from fedwqcp.readers import load_outputs
from fedwqcp.readers.batches import OutputBatches, batched
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Ask, Round, check_names

SiteOutputs: TypeAlias = Outputs | OutputBatches | Calibration | tuple[npt.ArrayLike, npt.ArrayLike]
"""What a site's own function may return: outputs and labels, in one of four forms."""
OwnOutputs: TypeAlias = Callable[[], SiteOutputs]
"""Gives the model's outputs on the site's calibration data."""
Work: TypeAlias = Callable[[], tuple[str, bytes]]
"""Returns a status and the bytes that go with it."""
_log = logging.getLogger("fedwqcp")
_SECONDS = 5.0
"""Seconds between two lines in the site's log that say how far it is."""
_FILES = ("outputs", "scores", "labels", "folder", "sign-key")
LAST_ERROR = "last-error.txt"
"""Name of the file in a site's folder that says why the site answered nothing since it last did."""
_ROUND_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


_Positive: TypeAlias = Annotated[float, Meta(gt=0, description="a number above 0")]


class SiteSettings(msgspec.Struct, frozen=True, rename="kebab"):
    """What a site may set, in its file of settings or its node's configuration."""

    agent: str | int | None = None
    outputs: str | None = None
    """A file, or a folder or URI of Parquet files, which are read in batches."""
    scores: str | None = None
    """In place of the outputs: Parquet files of scores that were made elsewhere."""
    labels: str | None = None
    folder: str | None = None
    sign_key: str | None = None
    """The site's private key; with it only rounds that require signatures are answered."""
    allow_samples: bool = False
    """Whether scores of single people may leave, as many as a round asks for."""
    secure_only: bool = False
    """Whether answers leave only in secure rounds."""
    max_share: Annotated[float, Meta(gt=0, le=1, description="a number above 0, at most 1")] = (
        USUAL_LIMIT.share
    )
    min_class: Annotated[int, Meta(ge=1, description="an integer of at least 1")] = (
        USUAL_LIMIT.min_class
    )
    max_seconds: _Positive = 600.0
    """Longest computation that the site allows, whatever the server asks for."""
    privacy_budget: _Positive | None = None
    """Epsilon that the calibration data may spend over all rounds, kept in ``privacy/``."""
    data_set: Annotated[
        str, Meta(pattern=_ROUND_ID.pattern, description="a name of letters, digits, '_', '-'")
    ] = "calibration"
    """Whose scores count together, kept in ``ledger/NAME``: of the same people the same name."""
    approve: bool = False
    """Whether each new round waits for `fedwqcp agent approve`."""
    honest_others: Annotated[int, Meta(ge=0, description="an integer of at least 0")] = 0
    """How many other agents of a secure round the site trusts not to help the server."""
    require: str | None = None
    """The one method whose rounds the site answers and whose releases it takes."""
    require_alpha: _Positive | None = None
    """The largest level of such a round."""
    require_target: str | None = None
    """Its target."""


_KEYS = SiteSettings.__struct_encode_fields__
_LIMITS = ("approve", "require", *(key for key in _KEYS if "-" in key))
"""Keys whose misspelling is refused: it would silently switch a limit off."""
_HERE = "the site's settings"


@dataclass(frozen=True)
class Site:
    """Who a site is, what it allows, and where it keeps what it sent."""

    agent: str
    folder: Path | None
    """Keeps ``rounds/ID/round.json``, ``rounds/ID/step-K.json`` and releases; None: nothing."""
    settings: SiteSettings = field(default_factory=SiteSettings)

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Site:
        """Read the site's own settings.

        ``folder`` is by default ``~/.fedwqcp/AGENT``; an empty one keeps nothing. Simulated sites,
        which name no agent, are ``agent-`` and the partition id and keep nothing. Other keys are
        for the site's own function; a misspelt limit is refused.
        """
        for key in config.keys() - set(_KEYS):
            if near := nearest(key, _LIMITS, cutoff=0.8):
                raise InputError(f"{_HERE}: unknown key {key!r}; did you mean {near!r}?")
        known = {key: value for key, value in config.items() if key in _KEYS}
        if "partition-id" in config and "agent" not in known:
            known = {"folder": "", **known, "agent": f"agent-{config['partition-id']}"}
        given = to_struct(known, SiteSettings, _HERE)
        if given.agent is None:
            raise InputError("name this agent in the site's settings: agent='st-mary'")
        agent = str(given.agent)
        check_names((agent,))
        return cls(agent, _folder_of(known), given)

    @property
    def budget(self) -> Budget | None:
        """The privacy budget, where the site has one; it needs a folder to be kept in."""
        if self.settings.privacy_budget is None:
            if self.folder is not None and exists(self.folder / "privacy"):
                raise InputError(
                    f"{self.folder} keeps a privacy budget: say how much: privacy-budget=3"
                )
            return None
        if self.folder is None:
            raise InputError("a privacy budget must be kept: give this agent a folder")
        return Budget(kept_in(self.folder, "privacy"), self.settings.privacy_budget)

    @property
    def ledger(self) -> DisclosureLedger | None:
        """What was told of the site's data set, where it has a folder."""
        if self.folder is None:
            return None
        return DisclosureLedger(kept_in(self.folder, f"ledger/{self.settings.data_set}"))

    def hides(self, round: Round) -> bool:
        """Whether each masked sum surely holds an honest agent's numbers besides the site's own."""
        agents = len(round.agents)
        return round.roster is None and agents - round.quorum < self.settings.honest_others < agents

    def check_required(self, round: Round) -> None:
        """Refuse a round of another method, level or target than the site insists on."""
        settings = self.settings
        target = None if settings.require_target is None else as_target(settings.require_target)
        if (
            settings.require not in {None, round.method.name}
            or (settings.require_alpha is not None and max(round.alphas) > settings.require_alpha)
            or target not in {None, round.target}
        ):
            raise RefusedError("required")

    def check_approved(self, round: Round, terms: bytes) -> None:
        """Refuse a round that no person approved, where the site asks for that."""
        if not self.settings.approve:
            return
        if self.folder is None:
            raise InputError("must be named where rounds wait for approval", field="folder")
        if not is_approved(self.folder, round_folder(self.folder, round.id), round, terms):
            waits = InputError(f"the round waits: fedwqcp agent approve {self.folder} lists it")
            raise RefusedError("approval") from waits

    def previous_answer(self, round: Round, terms: bytes, name: str) -> bytes | None:
        """Return what was answered before (``step-0``, ``step-1``, ..., ``ready``).

        The same bytes leave again: a second answer with fresh noise would reveal more.
        """
        if self.folder is None:
            return None
        folder = round_folder(self.folder, round.id)
        check_open(self.folder, round.id)
        known = folder / "round.json"
        if exists(known) and read(known) != terms:
            raise InputError("another round with this id was answered before")
        path = folder / f"{name}.json"
        return read(path) if exists(path) else None

    def keep_answer(self, round: Round, terms: bytes, name: str, answer: bytes) -> bytes:
        """Write down what is about to leave, and return it.

        Of several processes that are asked at the same time the first decides what leaves.
        """
        if self.folder is None:
            return answer
        folder = round_folder(self.folder, round.id)
        make_folder(folder)
        write_atomic(folder / "round.json", terms, replace=False)
        write_atomic(folder / f"{name}.json", answer, replace=False)
        sync_folder(folder)  # before it leaves: lost, it would be answered again with fresh noise
        close_old_rounds(self.folder)
        return self.previous_answer(round, terms, name) or answer

    def keep_release(self, release: Release, data: bytes) -> None:
        """Write down the release of a round, once; it must be of the terms that were answered."""
        if self.folder is None:
            return
        folder = round_folder(self.folder, release.round.id)
        check_open(self.folder, release.round.id)
        path, terms = folder / "release.json", folder / "round.json"
        if exists(terms):
            check_same_round(release, decode(read(terms), Round, source=terms))
        if exists(path) and read(path) != data:
            raise InputError("this round has another release already")
        if not exists(path):
            make_folder(folder)
            write_atomic(path, data)
            write_atomic(self.folder / "release.json", data)
            close_old_rounds(self.folder)

    def perform(
        self, work: Callable[[], bytes], request: Request, watchdog: bool
    ) -> tuple[str, bytes]:
        """Return ``ok`` and the result of some work, or a code; the text of an error stays here."""

        def _guarded() -> tuple[str, bytes]:
            try:
                if self.folder is not None:
                    with refuse_with("folder", RecordError):
                        check_site_folder(self.folder)
                return OK, work()
            except RefusedError as refused:
                if not refused.kept:
                    keep_error(self.folder, request, refused.code, refused.__cause__)
                return refused.code, refused.body
            except BaseException as error:
                keep_error(self.folder, request, "failed", error)
                return "failed", b""

        seconds = max(0.1, min(request.seconds, self.settings.max_seconds))
        status, body = run_with_timeout(_guarded, seconds) if watchdog else _guarded()
        if status in ("deadline", "died"):  # the child could not say so itself
            keep_error(self.folder, request, status)
        return status, body


def _folder_of(config: Mapping[str, object]) -> Path | None:
    """Return where a site keeps its record, also where its other settings are wrong."""
    folder, agent = config.get("folder"), config.get("agent")
    if folder is None and agent is not None:
        return default_folder(str(agent))
    return Path(str(folder)).absolute() if folder else None


def keep_error(
    folder: Path | None, request: Request | None, code: str, error: BaseException | None = None
) -> None:
    """Write down when, in which round and why nothing left, for the site's own engineer.

    It never leaves. Only errors of this package are quoted: others may quote data. The site's log
    has the code in one line, and the rest too where there is no folder.
    """
    round = "unknown" if request is None else _round_id(request)
    text = "" if error is None else traced(error)
    kept = False
    if folder is not None and is_folder(folder):
        when = datetime.now(UTC).isoformat(timespec="seconds")
        note = f"{when} round {round}: {code}: {CODES[code]}\n{text}"
        with contextlib.suppress(FedwqcpError, OSError):  # the disk may be what failed
            write_atomic(folder / LAST_ERROR, note.encode())
            kept = True
    more = type(error).__name__ if kept else text
    _log.warning(
        "fedwqcp: round %s not answered: %s %s", round, code, "" if error is None else more
    )


def _round_id(request: Request) -> str:
    """Return the id of the round that a request is of."""
    try:
        if request.round:
            return plan_of(request.round).round.id
        return _read_release(request.body)[0].round.id
    except Exception:  # why it cannot be read is said elsewhere
        return "unknown"


def round_folder(folder: Path, round: str) -> Path:
    """Return where a site keeps what it sent in a round."""
    if not _ROUND_ID.fullmatch(round):
        raise InputError("the id of a round has letters, digits, '_' and '-' only")
    return folder / "rounds" / round


class RefusedError(Exception):
    """A request is refused; the server gets the code, and bytes that go with it."""

    def __init__(self, code: str, body: bytes = b"", *, kept: bool = False) -> None:
        super().__init__(code)
        self.code, self.body = code, body
        self.kept = kept  # why is written down already


@contextmanager
def refuse_with(code: str, kind: type[FedwqcpError] = FedwqcpError) -> Iterator[None]:
    """Refuse the request with a code where the block raises an error of this kind."""
    try:
        yield
    except kind as error:
        raise RefusedError(code) from error


def answer(site: Site, request: Request, outputs: OwnOutputs, *, masked: bool = False) -> bytes:
    """Answer one question, or give again what was answered before.

    A masked answer stays at the site and only a masked sum leaves: the same limit applies, unless
    the site trusts so many others that the sum hides it.
    """
    with refuse_with("terms"):
        plan = plan_of(request.round)
        round = plan.round
    settings = site.settings
    if not masked and (settings.secure_only or round.secure is not None):
        raise RefusedError("secure")
    with refuse_with("terms"):
        step = decode(request.body, Ask, plan.kinds, "server").step if request.body else 0
    if not round.expects(site.agent):
        raise RefusedError("roster")
    site.check_required(round)
    with refuse_with("round"):
        before = site.previous_answer(round, request.round, f"step-{step}")
    if before is not None:
        return before
    with refuse_with("approval"):
        site.check_approved(round, request.round)
    if settings.privacy_budget is not None and not plan.traits.private:
        raise RefusedError("budget")  # before the data, whose size another code would tell
    hidden = masked and site.hides(round)
    with ExitStack() as opened:
        with (
            refuse_with("data"),
            refuse_with("classes", ClassesError),
            refuse_with("size", SizeError),
        ):
            agent = Agent(
                site.agent,
                plan,
                opened.enter_context(_calibration(site, round, outputs())),
                allow_samples=settings.allow_samples,
                limit=None if hidden else DisclosureLimit(settings.max_share, settings.min_class),
                budget=site.budget,
                ledger=None if hidden else site.ledger,
                sign_key=None if settings.sign_key is None else SigningKey(Path(settings.sign_key)),
            )
        with refuse_with("answer"), refuse_with("budget", BudgetError):
            reply = agent.answer(request.body or None)
            kept = site.keep_answer(round, request.round, f"step-{step}", reply)
    if site.folder is not None:
        with contextlib.suppress(OSError):  # what it says is over
            (site.folder / LAST_ERROR).unlink(missing_ok=True)
    return kept


def reply_to(
    read_request: Callable[[], Request],
    settings: Callable[[], Mapping[str, object]],
    work: Callable[[Site, Request], bytes],
    watchdog: bool,
) -> dict[str, str | bytes]:
    """Handle a request, and return the fields of the reply: a result, or a fixed code."""
    nonce, agent = "", ""
    asked: Request | None = None
    folder: Path | None = None
    try:
        request = asked = read_request()
        nonce = request.nonce
        config = settings()
        folder = _folder_of(config)
        site = Site.of(config)
        agent = site.agent
        status, body = site.perform(lambda: work(site, request), request, watchdog)
    except Exception as error:
        keep_error(folder, asked, "failed", error)
        status, body = "failed", b""
    return reply_fields(nonce, agent, status, body)


def accept_release(site: Site, request: Request) -> bytes:
    """Store the release of a round, and return its digest as acknowledgement."""
    with refuse_with("terms"):
        release, digest = _read_release(request.body)
    if not release.round.expects(site.agent):
        raise RefusedError("roster")
    site.check_required(release.round)
    with refuse_with("round"):
        site.keep_release(release, request.body)
    return digest


def read_outputs(config: Mapping[str, object]) -> Outputs | OutputBatches:
    """Read what the site's settings name: ``outputs`` or ``scores``, and ``labels`` if needed."""
    path, labels = config.get("scores", config.get("outputs")), config.get("labels")
    if path is None:
        raise InputError("name the file in the site's settings: outputs='cal.npz'")
    beside = None if labels is None else Path(str(labels))
    batches = batched(str(path), beside, scores="scores" in config)
    return load_outputs(Path(str(path)), beside, None) if batches is None else batches


def load_settings(path: Path, home: Path) -> dict[str, object]:
    """Read a site's settings from a TOML file; files are named from `home`, its startup kit."""
    table = read_toml(path)
    to_struct(table, SiteSettings, str(path))
    settings = {"folder": str(default_folder(home.resolve().name)), **table}
    named = {key: str(settings[key]) for key in _FILES if settings.get(key)}
    files = {key: name if "://" in name else str(home / name) for key, name in named.items()}
    if "folder" in files:
        check_outside(Path(files["folder"]), home)
    return {**settings, **files}


@lru_cache(maxsize=4)
def plan_of(terms: bytes) -> Plan:
    """Read the terms of a round, once in a process that stands for many sites."""
    return Plan.of(decode(terms, Round, source="server"))


def run_with_timeout(work: Work, seconds: float) -> tuple[str, bytes]:
    """Run a computation in a child process that is ended at the deadline.

    Returns what the work returned, ``deadline`` if it took too long, ``died`` if its process ended.

    The child is a copy of this process (fork), so that the work may be any function. It has a
    process group of its own, which ends with it, and an alarm of its own, in case this process is
    gone by then. Where processes cannot be copied the work is done here, without a deadline.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return work()
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, theirs, seconds))
    child.start()
    theirs.close()
    try:
        if not mine.poll(seconds):
            return "deadline", b""
        status, _, body = mine.recv_bytes().partition(b"\n")
        return status.decode(), body
    except (EOFError, OSError):
        return "died", b""
    finally:
        assert child.pid is not None
        with contextlib.suppress(OSError):  # it and what it started
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()
        mine.close()


def _child(work: Work, pipe: Connection, seconds: float) -> None:
    """Compute, send the result and exit; nothing of the parent's clean-up runs here."""
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        status, body = work()
        pipe.send_bytes(status.encode() + b"\n" + body)
    finally:
        os._exit(0)


@lru_cache(maxsize=4)
def _read_release(data: bytes) -> tuple[Release, bytes]:
    """Read a release, once in a process that stands for many sites."""
    return parse(data, "server"), sha256(data).hexdigest().encode()


@contextmanager
def _calibration(site: Site, round: Round, data: SiteOutputs) -> Iterator[Calibration]:
    """Score what a site's function returned; what is read in batches is kept beside the answer."""
    if isinstance(data, OutputBatches):
        with TemporaryDirectory() as other:
            folder = Path(other)
            if site.folder is not None:
                close_old_rounds(site.folder)  # a round that was never answered may have left some
                folder = round_folder(site.folder, round.id)
            with calibration_in_batches(round, data, folder / "scores", _progress()) as cal:
                yield cal
    elif isinstance(data, Calibration):
        yield data
    elif isinstance(data, tuple):
        yield calibration_of(round, Outputs(np.asarray(data[0]), np.asarray(data[1])))
    else:
        yield calibration_of(round, data)


def _progress() -> Progress:
    """Say in the site's own log how many rows are scored, every few seconds."""
    said = time.monotonic()

    def _say(rows: int, of: int | None) -> None:
        nonlocal said
        if time.monotonic() - said >= _SECONDS:
            said = time.monotonic()
            whole = "" if of is None else f" of {of:,}"
            _log.info("fedwqcp: %s%s rows scored", f"{rows:,}", whole)

    return _say
