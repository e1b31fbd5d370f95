"""The standing fuzzer: hostile messages to every part that reads one.

``make fuzz`` runs it for ten minutes; ``make fuzz SECONDS=60 SEED=7`` for another time or seed. A
case of a seed is always the same: ``python -m fuzz.fuzzer --seed 7 --case 123`` repeats it.
It fails if

* anything but a refusal is raised, or a refusal says ``internal``;
* an honest agent is refused, or an honest round does not go on;
* the server and the plain model in ``model.py`` differ in what may be used or what is released;
* a refused message changes the release, or a changed record passes its audit.

Each finding is written to ``build/fuzz`` with the bytes that were sent.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import json
import logging
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.errors import (
    FedwqcpError,
    InputError,
    QuorumError,
    RecordError,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.approval import approve, waiting_rounds
from fedwqcp.federation.audit import audit
from fedwqcp.federation.plan import Plan, choose_method, choose_score, part_of
from fedwqcp.federation.predict import predictor_of, thresholds
from fedwqcp.federation.record import Ledger, parse
from fedwqcp.federation.server import Server
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport import folder, local
from fedwqcp.federation.transport.envelope import CODES, OK, Request
from fedwqcp.federation.transport.site import Site
from fedwqcp.federation.transport.site import answer as site_answer
from fedwqcp.scores.custom import Custom
from fedwqcp.serve.predictor import parse as parse_predictor
from fedwqcp.wire.codec import MAX_BYTES, decode, encode
from fedwqcp.wire.messages import Answer, Choice, Round
from fuzz import model
from fuzz.mutations import mutate
from worked import unlike

NAMES = ("north", "south", "east", "west")
SIZES = (40, 25, 60, 33)
LONGEST = 60
"""Seconds after which a case is ended, as a finding."""
MEMORY = 512 * 2**20
"""A message that raises the memory by more bytes is a finding."""
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "auto": ({}, {"small": "inf"}, {"enough": 2.0}),
    "fedwq-cp": ({}, {"overflow": "clip"}, {"overflow": "exclude"}),
    "fedavgq-cp": ({}, {"overflow": "exclude"}),
    "fcp": ({}, {"sketch": "order"}),
    "cphet": ({}, {"scope": "local"}),
    "dp-fedcp": (
        {"rounds": 3}, {"solver": "exact"},
    ),
    "fedls-cp": ({}, {"n0": 9.0}),
    "fed-crc": ({"points": 30}, {"points": 9, "correction": "pooled"}),
    "private-fedwq-cp": (
        {"epsilon": 25.0}, {"epsilon": 25.0, "size_epsilon": 2.0},
    ),
}  # fmt: skip
"""Settings that other code reads; a method that is not named here has its own."""
TARGETED: dict[str, tuple[Any, ...]] = {"auto": ("own", "mixture", (0.2, 0.3, 0.5))}
"""Whom thresholds are for; a method that is not named here has one for each agent's own people."""


class Finding(AssertionError):  # noqa: N818  # not an error of the program that runs
    """Something that should hold does not."""


@dataclass(frozen=True, eq=False)  # each is itself alone, as a key of caches
class Setup:
    """A round of four agents, and whether running it twice gives the same numbers."""

    plan: Plan
    repeats: bool

    @property
    def name(self) -> str:
        """What is computed, in short."""
        round = self.plan.round
        return f"{round.method.name} {round.method.settings} by={round.by}"


@dataclass
class Case:
    """One case: its randomness, what it sent, and what was refused."""

    seed: int
    number: int
    random: Random
    target: str = ""
    setup: str = ""
    done: list[str] = field(default_factory=list)
    sent: list[tuple[int, str, bytes]] = field(default_factory=list)
    messages: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    @contextlib.contextmanager
    def message(self, what: str) -> Iterator[None]:
        """Count a message, and measure the memory that it takes."""
        self.messages += 1
        before = _peak_from_now()
        yield
        grown = _peak() - before
        if grown > MEMORY:
            raise Finding(f"memory grew by {grown / 2**20:.0f} MiB: {what}")

    def refused(self, error: FedwqcpError) -> None:
        """Count a refusal; an unexpected one is a finding."""
        self.refusals[type(error).__name__] += 1
        if "internal" in str(error):
            raise Finding(f"internal: {error}") from error

    def mutated(self, data: bytes, others: list[bytes]) -> bytes:
        """Change a message."""
        if self.random.random() < 0.002:
            self.done.append("too long")
            return data + b" " * MAX_BYTES
        changed, what = mutate(self.random, data, others)
        self.done.append(what)
        return changed


@cache
def calibrations() -> dict[str, fw.Calibration]:
    """Four agents of unequal size."""
    return unlike(**dict(zip(NAMES, SIZES, strict=True)))


@cache
def setups() -> tuple[Setup, ...]:
    """Every method with its settings, by label and group too, with scores of two ranges."""
    found = []
    for method in fw.methods.built_in():
        for settings, target in product(
            SETTINGS.get(method, ({},)), TARGETED.get(method, ("own",))
        ):
            for by, alphas, score in (
                (None, (0.2,), Custom()),
                (None, (0.3, 0.2), fw.scores.get("lac")),
                ("label", (0.2,), fw.scores.get("lac")),
                ("group", (0.2,), Custom()),
            ):
                made = fw.methods.get(method, **settings)
                round = Round(
                    id=f"{len(found):016x}",
                    method=choose_method(made),
                    score=choose_score(score),
                    alphas=alphas,
                    agents=NAMES,
                    quorum=2,
                    max_n=1000,
                    n_classes=3,
                    by=by,
                    groups=("f", "m") if by == "group" else (),
                    target=target,
                    provenance={"created": "2026-11-01T00:00:00Z", "model": "m"} if by else {},
                )
                with contextlib.suppress(InputError):  # not every method goes by group
                    plan = Plan.of(round)
                    noise = made.traits.spends < inf
                    found.append(Setup(plan, not noise))
    return tuple(found)


def _setup(case: Case, steps: int | None = None) -> Setup:
    """Choose a round; where steps are dear, one of few."""
    chosen = case.random.choice(setups())
    while steps is not None and steps_of(chosen) > steps:
        chosen = case.random.choice(setups())
    case.setup = chosen.name
    return chosen


@cache
def steps_of(setup: Setup) -> int:
    """How many steps an honest round takes."""
    return len(honest_dialogue(setup))


@cache
def honest_dialogue(setup: Setup) -> tuple[dict[str, tuple[bytes, bytes]], ...]:
    """The questions and answers of an honest round, by step and agent."""
    server, agents, steps = Server(setup.plan), _agents(setup, Random(0)), []
    while not server.ended:
        asks = server.asks()
        answers = {n: agents[n].answer(a if server.step else None) for n, a in asks.items()}
        steps.append({name: (asks[name], answers[name]) for name in asks})
        for name, answer in answers.items():
            refusal = server.receive(answer, name)
            if refusal is not None:
                raise Finding(f"an honest round of {setup.name} is refused: {refusal}")
        server.close_step()
    return tuple(steps)


def _agents(setup: Setup, random: Random) -> dict[str, Agent]:
    """Fresh agents of a round, their noise of the case's own."""
    return {
        name: Agent(
            name,
            setup.plan,
            cal,
            allow_samples=True,
            rng=np.random.default_rng(random.randrange(2**32)),
        )
        for name, cal in calibrations().items()
    }


# --- the server ------------------------------------------------------------------------------


def fuzz_signed(case: Case) -> None:
    """Change a signed answer on the way; what is taken must be what was signed."""
    random = case.random
    setup = random.choice(signed_setups())
    case.setup = setup.name
    name, keys = random.choice(NAMES), signing_keys()
    side = Agent(
        name, setup.plan, calibrations()[name], allow_samples=True, sign_key=keys[name],
        rng=np.random.default_rng(random.randrange(2**32)),
    )  # fmt: skip
    honest = side.answer()
    data = case.mutated(honest, [honest, setup_answer(setup, random.choice(NAMES))])
    case.sent.append((0, name, data))
    with case.message(f"{setup.name}, signed: {case.done[-1]}"):
        refusal = Server(setup.plan).receive(data, name)
    if refusal is not None:
        case.refused(refusal)
    elif encode(decode(data, Answer, setup.plan.kinds)) not in (honest, setup_answer(setup, name)):
        raise Finding("a changed answer passes as signed")  # its own two may differ by noise


@cache
def signing_keys() -> dict[str, Any]:
    """A key for each agent, made for this run."""
    from fedwqcp.federation.signing import SigningKey, new_key

    with _scratch() as where:
        for name in NAMES:
            new_key(where / f"{name}.pem")
        return {name: SigningKey(where / f"{name}.pem") for name in NAMES}


@cache
def signed_setups() -> tuple[Setup, ...]:
    """The rounds of others, with keys."""
    public = {name: key.public for name, key in signing_keys().items()}
    asked = [setup.plan for setup in setups() if not Server(setup.plan).ended]
    rounds = [replace(plan.round, keys=public) for plan in asked]
    return tuple(Setup(Plan.of(round), True) for round in rounds)


@cache
def setup_answer(setup: Setup, name: str) -> bytes:
    """A signed answer of one agent."""
    key = signing_keys()[name]
    return Agent(name, setup.plan, calibrations()[name], allow_samples=True, sign_key=key).answer()


def fuzz_server(case: Case) -> None:
    """Hold a round in which one or two agents send what they like."""
    setup, random = _setup(case), case.random
    server, agents = Server(setup.plan), _agents(setup, random)
    byzantine = set(random.sample(NAMES, random.choice((1, 1, 2))))
    changed_at = random.randrange(steps_of(setup) or 1)
    bounds, max_n = setup.plan.bounds, setup.plan.round.max_n
    seen: list[bytes] = []
    used: dict[str, list[tuple[float, int]]] = {}
    pristine = True  # whether no byzantine was used
    while not server.ended:
        step, asks = server.step, server.asks()
        honest = {}
        for name, ask in asks.items():
            try:
                honest[name] = agents[name].answer(ask if step else None)
            except FedwqcpError as error:
                if name not in byzantine:
                    raise Finding(f"honest {name} does not answer: {error}") from error
        deliveries = []
        for name, data in honest.items():
            if name in byzantine and (step == changed_at or random.random() < 0.5):
                for _ in range(random.choice((0, 1, 1, 1, 2))):
                    new = case.mutated(data, [*honest.values(), *seen[-3:]])
                    deliveries.append((name, new))
                if random.random() < 0.1:
                    deliveries.append((name, data))
            else:
                deliveries.append((name, data))
        if random.random() < 0.2:
            random.shuffle(deliveries)
        simple = step == 0 and _is_simple(setup)
        for name, data in deliveries:
            case.sent.append((step, name, data))
            what = case.done[-1] if name in byzantine and case.done else "honest"
            with case.message(f"{setup.name}, step {step}: {what}"):
                refusal = server.receive(data, name)
            if refusal is not None:
                case.refused(refusal)
                if name not in byzantine:
                    raise Finding(f"honest {name} is refused: {refusal}")
            elif name in byzantine:
                pristine = False
            if simple and name not in used:
                may = model.quantiles_of(data, honest[name], name, bounds, max_n)
                if (may is None) != (refusal is not None):
                    verdict = "refuses" if may is None else "takes"
                    raise Finding(f"the model {verdict} it, the server says {refusal}")
                if may is not None:
                    used[name] = may
        seen += honest.values()
        counted = len(server.refusals)
        try:
            with case.message(f"{setup.name}, closing step {step}: {'; '.join(case.done[-3:])}"):
                server.close_step()
        except QuorumError as error:
            case.refused(error)
            raise Finding(f"honest agents are enough, and the round ends: {error}") from error
        for refusal in server.refusals[counted:]:
            case.refused(refusal)
            if refusal.agent in set(NAMES) - byzantine:
                raise Finding(f"honest {refusal.agent} is refused: {refusal}")
    release = server.release()
    _check_release(setup, encode(release))
    for name in set(NAMES) - byzantine:
        if release.rounds and name not in release.used:
            raise Finding(f"honest {name} is not used")
    _compare(setup, release, agents, used, byzantine, pristine)


def _is_simple(setup: Setup) -> bool:
    """Tell whether the plain model knows a round."""
    return (
        setup.plan.round.method.name in ("fedwq-cp", "fedavgq-cp") and setup.plan.round.by is None
    )


def _check_release(setup: Setup, data: bytes) -> None:
    """A release must be what agents can read, and hold no NaN."""
    release = parse(data, "release")
    for name in release.used:
        for alpha in release.round.alphas:
            for group in release.round.group_names or (None,):
                try:
                    _check_threshold(release, name, alpha, group)
                except InputError as error:
                    raise Finding(f"{name} cannot use the release: {error}") from error


def _check_threshold(release: fw.Release, name: str, alpha: float, group: str | None) -> None:
    """An agent's threshold must be a number."""
    found = thresholds(release, name, alpha, calibrations()[name], group=group)
    if np.isnan(np.asarray(found, dtype=float)).any():
        raise Finding("a threshold is NaN")
    round = release.round
    if round.method.name == "auto" and round.target == "own":
        at = None if group is None else round.group_names.index(group)
        own = part_of(round, calibrations()[name], at).scores.tolist()
        low, high = model.floor_range(own, alpha)
        if not low <= float(found) <= high:
            raise Finding("a release moves an agent beyond what its own data allow")


def _compare(setup, release, agents, used, byzantine, pristine) -> None:
    """Hold a release against what the model says of it."""
    round, method = setup.plan.round, setup.plan.round.method
    if _is_simple(setup):
        for task, outcome in enumerate(release.outcomes):
            exact = model.released(
                method.name, method.settings, [used[n][task] for n in release.used]
            )
            if not model.agrees(outcome.value, exact):
                raise Finding(f"released {outcome.value}, the model {float(exact)}")
    if not release.rounds:
        return
    counted = method.name == "fcp" and method.settings["sketch"] == "bisection"
    if counted and round.by is None:
        honest = [calibrations()[n].scores for n in release.used if n not in byzantine]
        scores = np.concatenate([[], *honest]).tolist()
        received = [release.received[n] for n in release.used if n in byzantine]
        for task, alpha in enumerate(round.alphas):
            value = release.outcomes[task].value
            claimed = sum(sum(r[task].sizes()) for r in received)
            low, high = model.pooled_range(scores, claimed, len(release.used), alpha)
            if not low <= value <= high:
                raise Finding(f"{claimed} claimed points move {value} beyond {low} to {high}")
    if setup.repeats and pristine and not set(release.used) & byzantine:
        alone = {name: agents[name] for name in NAMES if name not in byzantine}
        if hold(Server(setup.plan), alone).outcomes != release.outcomes:
            raise Finding("a refused message changed the release")


# --- what agents read ------------------------------------------------------------------------


def fuzz_ask(case: Case) -> None:
    """Ask an agent what no honest server asks."""
    setup, random = _setup(case), case.random
    agent = _agents(setup, random)[random.choice(NAMES)]
    steps = honest_dialogue(setup)
    asks = [ask for step in steps[1:] for ask, _ in step.values()]
    first = json.dumps({"round": setup.plan.round.id, "step": 0, "questions": [{"kind": "begin"}]})
    data = case.mutated(
        random.choice(asks) if asks else first.encode(), [first.encode(), *asks[:3]]
    )
    case.sent.append((0, agent.name, data))
    try:
        with case.message(f"question of {setup.name}: {case.done[-1]}"):
            answer = agent.answer(data)
        decode(answer, Answer, setup.plan.kinds)
    except FedwqcpError as error:
        case.refused(error)


def fuzz_round(case: Case) -> None:
    """Send an agent terms that nobody agreed to."""
    setup, random = _setup(case), case.random
    data = case.mutated(encode(setup.plan.round), [encode(random.choice(setups()).plan.round)])
    case.sent.append((0, "server", data))
    name = random.choice(NAMES)
    try:
        with case.message(f"terms of {setup.name}: {case.done[-1]}"):
            round = decode(data, Round, source="server")
            plan = Plan.of(round)
            side = Agent(name, plan, calibrations()[name], allow_samples=random.random() < 0.5)
            answer = side.answer()
            server = Server(plan)
            server.asks()
            refusal = server.receive(answer, name)
        if refusal is not None:
            case.refused(refusal)
            raise Finding(f"an agent answers these terms, and its server refuses it: {refusal}")
    except FedwqcpError as error:
        case.refused(error)


@cache
def honest_release(setup: Setup) -> bytes:
    """The release of an honest round."""
    return encode(local.run(Server(setup.plan), _agents(setup, Random(0))).public())


def fuzz_release(case: Case) -> None:
    """Hand an agent a release that no server made."""
    setup, random = _setup(case), case.random
    data = case.mutated(honest_release(setup), [honest_release(random.choice(setups()))])
    case.sent.append((0, "server", data))
    try:
        with case.message(f"release of {setup.name}: {case.done[-1]}"):
            release = parse(data, "release")
        for name in NAMES:
            with (
                contextlib.suppress(FedwqcpError),
                case.message(f"thresholds of {setup.name}: {case.done[-1]}"),
            ):
                group = next(iter(release.round.group_names), None)
                _check_threshold(release, name, release.round.alphas[0], group)
    except FedwqcpError as error:
        case.refused(error)


@cache
def honest_predictors() -> tuple[tuple[bytes, str | None], ...]:
    """Predictors of labelled rows, and by what they have thresholds of their own."""
    found = []
    for setup in setups():
        if setup.plan.round.score.name == "lac" and not setup.plan.traits.controls_risk:
            release = parse(honest_release(setup), "release")
            made = predictor_of(release, "north", calibrations()["north"], proved={0.2: 0.8})
            found.append((made.encoded(), setup.plan.round.by))
    return tuple(found)


def fuzz_predictor(case: Case) -> None:
    """Hand a site a predictor that nobody made; what is read predicts, and is written again."""
    random = case.random
    data, by = random.choice(honest_predictors())
    changed = case.mutated(data, [random.choice(honest_predictors())[0]])
    case.setup = f"a predictor by={by}"
    case.sent.append((0, "disk", changed))
    probs = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    try:
        with case.message(f"predictor: {case.done[-1]}"):
            read = parse_predictor(changed, "predictor")
        if parse_predictor(read.encoded(), "predictor") != read:
            raise Finding("a predictor that was read is written as another")
        for level in read.levels:
            sets = read.predict_set(probs, alpha=level.alpha, ids=[1, 2, 3])
            if sets.mask.shape != probs.shape or not 0 < level.alpha < 1:
                raise Finding(f"sets of another shape, or of level {level.alpha}")
    except FedwqcpError as error:
        case.refused(error)


# --- a site, over many rounds ----------------------------------------------------------------


def fuzz_site_rounds(case: Case) -> None:
    """Ask a site round after round: what its answers show stays within what it promises of all.

    Read off the answers alone: whose exact scores left, in which rounds, and on whose word.
    """
    random, samples = case.random, _people(case.random)
    sent, allowed = dict[bytes, bytes](), Counter[bytes]()
    with _scratch() as where:
        home, lost, asks = where / "site", False, random.random() < 0.3
        make_site_folder(home)
        budget = {"privacy-budget": 3.0} if random.random() < 0.2 else {}
        site = Site.of({"agent": "north", "folder": str(home), "approve": asks, **budget})
        seen = _Seen(samples, 3.0 if budget else None)
        for at in range(10):
            terms = _next_terms(case, at, [terms for *_, terms in case.sent])
            case.sent.append((at, "server", terms))
            request, cal = Request("n", terms, b"", 60.0), random.choice(samples)
            with case.message(f"round {at} at a site"):
                masked = b'"secure":[' in terms  # all others are puppets: the sum is its own
                work = partial(site_answer, site, request, lambda cal=cal: cal, masked=masked)
                status, body = site.perform(work, request, False)
            case.refusals[status] += status != OK
            if status not in {OK, *CODES} - {"failed"}:
                raise Finding(f"a site replies {status!r}")
            if status == OK:
                agreed = _agreed(terms)
                if lost or (terms in sent and sent[terms] != body):
                    raise Finding("a site answers twice, or after its record was lost")
                if asks and terms not in sent and not allowed[agreed]:
                    raise Finding("a site answers a round that nobody approved")
                allowed[agreed] -= terms not in sent
                if terms not in sent:
                    seen.add(Plan.of(decode(terms, Round)), json.loads(body)["answers"])
                sent[terms] = body
            if status == "approval" and random.random() < 0.7:
                waiting = waiting_rounds(home)
                name = random.choice(list(waiting))
                approve(home, name)
                allowed[_agreed(encode(waiting[name]))] = 1
            if sent and random.random() < 0.05:
                lost = True
                shutil.rmtree(random.choice((home / "ledger", home)), ignore_errors=True)


@dataclass
class _Seen:
    """What a site's answers showed, held against what it promises."""

    samples: tuple[fw.Calibration, ...]
    budget: float | None
    told: set[float] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    spent: float = 0.0

    def add(self, plan: Plan, answers: list[Any]) -> None:
        """Take what one more round showed."""
        small = {score for cal in self.samples for score in cal.scores[cal.labels == 2]}
        scores = {score for cal in self.samples for score in cal.scores.tolist()}
        if plan.traits.private:
            self.spent += plan.traits.spends * len(plan.round.alphas)
            if self.spent > (self.budget or 10.0) + 1e-9:
                raise Finding(f"epsilon {self.spent} was spent")
            if self.budget is None and plan.round.by == "label" and any(answers[2::3]):
                raise Finding("a private answer of a class of five")
            return
        if self.budget:
            raise Finding("a site with a budget answers without noise")
        found = {round(float(x), 6) for x in re.findall(r"\b0\.\d+", json.dumps(answers))} & scores
        self.told |= found
        self.kinds |= {_kind(plan)} if found else set()
        if len(self.told) > len(scores) / len(self.samples) // 5:
            raise Finding(f"{len(self.told)} scores of 75 people were told")
        if len(self.kinds) > 1 or (self.told & small and "class" in self.kinds):
            raise Finding(f"a class of five is told by difference: {sorted(self.kinds)}")


def _people(random: Random) -> tuple[fw.Calibration, ...]:
    """75 people of three classes, five of them in the last, by the scores of two models."""
    labels = [0] * 40 + [1] * 30 + [2] * 5
    random.shuffle(labels)
    scores = [at / 10_000 for at in random.sample(range(1, 10_000), 75)]
    other = [round(0.99995 - score, 5) for score in scores]
    ages = np.array(random.choices(range(100), k=75), dtype=float)[:, None]
    return tuple(fw.Calibration(x, labels, ages, 3, groups=["f"] * 75) for x in (scores, other))


def _next_terms(case: Case, at: int, before: list[bytes]) -> bytes:
    """A round at levels of its own, an earlier one again or under another id, or a changed one."""
    random = case.random
    if before and random.random() < 0.4:
        again = random.choice(before)
        with contextlib.suppress(FedwqcpError):
            return again if random.random() < 0.5 else _renamed(again, f"again{at}")
    few = [s for s in setups() if s.plan.round.method.name in ("fedls-cp", "private-fedwq-cp")]
    plan = random.choice(few if few and random.random() < 0.4 else setups()).plan
    levels = sorted({random.randrange(1, 50) / 100 for _ in range(random.choice((1, 3)))})
    name, settings = plan.round.method.name, plan.round.method.settings
    if name == "private-fedwq-cp":
        settings = {**settings, "epsilon": random.choice((0.5, 2.5, 4.0))}
    secure = plan.traits.maskable and plan.round.by is None and random.random() < 0.5
    own = replace(
        plan.round,
        id=f"r{at}",
        secure=(0.0, 1.0) if secure else None,
        method=Choice(name, settings),
        alphas=tuple(levels),
        groups=("f",) * bool(plan.round.groups),
    )
    case.setup = f"{own.method.name} {own.method.settings} by={own.by}"
    return case.mutated(encode(own), [encode(plan.round)]) if random.random() < 0.2 else encode(own)


def _renamed(terms: bytes, id: str) -> bytes:
    return encode(replace(decode(terms, Round), id=id))


def _agreed(terms: bytes) -> bytes:
    """All that a person approves."""
    return encode(replace(decode(terms, Round), id="", key="", provenance={}))


def _kind(plan: Plan) -> str:
    """Whose scores a round asks for; the only group is everybody."""
    by_class = plan.round.method.name in ("auto", "fedls-cp") and plan.round.target != "mixture"
    return "class" if by_class or plan.round.by == "label" else "all"


# --- files -----------------------------------------------------------------------------------


def fuzz_folder(case: Case) -> None:
    """Close a round by files, some of them hostile or not what they seem."""
    setup, random = _setup(case), case.random
    while sum(often for _, often in setup.plan.method.schedule(len(NAMES), None)) > 1:
        setup = _setup(case)  # the others are for engines
    agents, byzantine = _agents(setup, random), set(random.sample(NAMES, random.choice((1, 1, 2))))
    with _scratch() as where:
        terms, out = where / "round.json", where / "release.json"
        folder.open_round(setup.plan.round, terms)
        if random.random() < 0.15:
            _plant(case, terms, out)
        files: list[Path] = []
        for name in NAMES if steps_of(setup) else ():
            try:
                data = agents[name].answer()
            except FedwqcpError as error:
                if name not in byzantine:
                    raise Finding(f"honest {name} does not answer: {error}") from error
                continue
            path = where / f"{name}.json"
            if name in byzantine:
                files += _hostile_files(case, where, path, data)
            else:
                path.write_bytes(data)
                files.append(path)
        if random.random() < 0.2:
            random.shuffle(files)
        try:
            with case.message(f"closing {setup.name}: {'; '.join(case.done[-3:])}"):
                closed = folder.close_round(terms, files, out)
        except (InputError, RecordError) as error:
            case.refused(error)
            if case.done and "planted" in case.done[0]:
                return  # who put it there can stop the round, not steer it
            raise
        except QuorumError as error:
            raise Finding(f"honest agents are enough, and the round ends: {error}") from error
        for refusal in closed.refusals:
            case.refused(refusal)
            if refusal.agent in set(NAMES) - byzantine:
                raise Finding(f"honest {refusal.agent} is refused: {refusal}")
        if closed.release.round != setup.plan.round:
            raise Finding("the release of another round")
        if out.read_bytes() != encode(closed.release.public()):
            raise Finding("another release is in the file")
        _check_release(setup, out.read_bytes())
        if closed.release.rounds and (set(NAMES) - byzantine) - set(closed.release.used):
            raise Finding("an honest agent is not used")


def _plant(case: Case, terms: Path, out: Path) -> None:
    """Put a file of another round, or of nothing, where the server writes its own."""
    random = case.random
    path = random.choice((out, terms.with_suffix(".record.json")))
    other = honest_release(random.choice(setups()))
    path.write_bytes(random.choice((other, b"", case.mutated(other, [other]))))
    case.done[:] = [f"planted {path.name}"]


def _hostile_files(case: Case, where: Path, path: Path, data: bytes) -> list[Path]:
    """Write what a Byzantine agent puts in its place."""
    random, written = case.random, []
    for count in range(random.choice((0, 1, 1, 2))):
        at = (
            path
            if not count
            else where / random.choice((f"copy-{path.name}", "x.json", f"{path.name}.step-9.json"))
        )
        if os.path.lexists(at):  # a link may lead nowhere
            continue
        kind = random.random()
        if kind < 0.85:
            new = case.mutated(data, [data])
            case.sent.append((0, at.name, new))
            at.write_bytes(new)
        elif kind < 0.9:
            case.done.append("a folder, or a pipe")
            random.choice((Path.mkdir, os.mkfifo))(at)
        elif kind < 0.95:
            case.done.append("a link to nowhere, or to the terms")
            targets = ("nowhere", "round.json", "/dev/zero", str(at), "x" * 300)
            at.symlink_to(random.choice(targets))
        else:
            case.done.append("a sparse file")
            with at.open("wb") as file:
                file.truncate(10 * 2**30)
        written.append(at)
    return written


@cache
def honest_record(setup: Setup) -> dict[str, bytes]:
    """The files of an honest round's record, as Flower's server writes them."""
    with _scratch() as where:
        ledger = Ledger(where / "record", setup.plan.round)
        server = Server(setup.plan)
        for number, step in enumerate(honest_dialogue(setup)):
            server.asks()
            for name, (_, answer) in step.items():
                server.receive(answer, name)
                ledger.accepted(number, name, answer)
            server.close_step()
            ledger.closed(number)
        ledger.released(server.release())
        ledger.stored(NAMES)
        root = where / "record"
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def fuzz_record(case: Case) -> None:
    """Change one file of a record; its audit must see it."""
    setup, random = _setup(case, steps=4), case.random
    files = dict(honest_record(setup))
    name = random.choice(sorted(files))
    if name == "log.jsonl":
        lines = files[name].splitlines(keepends=True)
        at, kind = random.randrange(len(lines)), random.random()
        if kind < 0.6:
            lines[at] = case.mutated(lines[at], lines)
        elif kind < 0.8:
            case.done.append(f"cut line {at} of {len(lines)}")
            del lines[at]
        else:
            case.done.append(f"cut all from line {at} of {len(lines)}")
            del lines[at:]
        changed = b"".join(lines)
    else:
        changed = case.mutated(files[name], [files["round.json"]])
    case.done[-1] = f"{name}: {case.done[-1]}"
    if name == "log.jsonl" and _is_word_of_server(files[name], changed):
        return
    if changed == files[name]:
        return
    files[name] = changed
    with _scratch() as where:
        for path, data in files.items():
            (where / path).parent.mkdir(parents=True, exist_ok=True)
            (where / path).write_bytes(data)
        try:
            with case.message(f"audit of {setup.name}: {case.done[-1]}"):
                found = audit(where)
        except FedwqcpError as error:
            case.refused(error)
            return
    if found.matches:
        raise Finding("a changed record passes its audit")


def _is_word_of_server(log: bytes, changed: bytes) -> bool:
    """Tell whether a log differs in who stored the release alone, which no line after it holds."""
    *before, last = log.splitlines()
    *still, new = changed.splitlines() or [b""]
    with contextlib.suppress(ValueError, LookupError, RecursionError, TypeError, AttributeError):
        ours, theirs = json.loads(last), json.loads(new)
        ours["agents"] = theirs["agents"] = [n for n in theirs["agents"] if n in NAMES]
        ours["reason"] = theirs["reason"] = theirs.get("reason", "")
        return before == still and ours == theirs
    return False


# --- Flower ----------------------------------------------------------------------------------


def fuzz_flower(case: Case) -> None:
    """Run a round over an in-process grid whose Byzantine nodes reply what they like."""
    from flwr.app import Message, RecordDict

    from fedwqcp.federation.transport.flower import Timeouts, calibrate
    from flower.inprocess import lost

    timeouts = Timeouts(deadline=0.05, grace=0.01, poll=0.005)  # nodes reply at once
    setup, random = _setup(case, steps=6), case.random
    byzantine = {100 + at: NAMES[at] for at in random.sample(range(4), random.choice((1, 1, 2)))}
    claimed: set[str] = set()

    def tamper(node: int, message: Message, reply: Message) -> list[Message]:
        if node not in byzantine or random.random() < 0.3:
            return [reply]
        kind = random.random()
        if kind < 0.05:
            case.done.append("lost")
            return [lost(message)]
        if kind < 0.1:
            case.done.append("twice")
            return [reply, reply]
        fields = dict(reply.content["fedwqcp"])
        what = random.choice(("body", "body", "agent", "status", "nonce", "fields", "records"))
        if what == "body":
            body = fields["body"]
            tree = body if body.startswith(b"{") else b'{"a":[1]}'
            fields["body"] = case.mutated(tree, [tree])
        elif what in fields:
            fields[what] = _flower_value(random)
            case.done.append(f"{what} = {str(fields[what])[:40]!r}")
        elif what == "fields":
            fields.pop(random.choice(list(fields)))
            if random.random() < 0.5:
                fields[random.choice(("x", "nonce", "agent"))] = _flower_value(random)
            case.done.append(f"fields {sorted(fields)}")
        claimed.add(str(fields.get("agent")))
        content = RecordDict({"fedwqcp": _config(fields)})
        if what == "records":
            content = _records(random, content)
            case.done.append(f"records {list(content)}")
        return [Message(content, reply_to=message)]

    bound = {name: 100 + at for at, name in enumerate(NAMES)} if random.random() < 0.5 else None
    with _scratch() as where:
        record = where / "record"
        try:
            with case.message(f"{setup.name} over Flower"):
                grid = _grid(where, tamper)
                found = calibrate(
                    grid, setup.plan.round, timeouts=timeouts, nodes=bound, record=record
                )
        except QuorumError as error:
            case.refused(error)
            if (
                bound is not None
                or len(set(NAMES) - set(byzantine.values()) - claimed) >= setup.plan.round.quorum
            ):
                raise Finding(f"honest agents are enough, and the round ends: {error}") from error
            _check_ledger(record)
            return
        _check_ledger(record)
        release = found.release
        for name in set(NAMES) - set(byzantine.values()):
            free = bound is None and name in claimed
            if release.rounds and name not in release.used and not free:
                raise Finding(f"honest {name} is not used: {release.refused.get(name, 'missing')}")
        for reason in release.refused.values():
            case.refusals["over Flower"] += 1
            if "internal" in reason:
                raise Finding(f"internal: {reason}")
        result = audit(record)
        if not result.matches:
            raise Finding(f"the record of a round does not match: {result.difference}")


def _flower_value(random: Random) -> Any:
    """Return a value of a record's field that an honest site does not send."""
    return random.choice((
        "", "ok", "north", "south", "engine", "failed", "malformed", "no such code", "x" * 70, b"",
        b"ok", 0, -1, 2**62, 0.5, True, ["ok"], [b"ok"], [1, 2], [0.5], [], "\x00", "\u202e",
    ))  # fmt: skip


def _config(fields: dict[str, Any]) -> Any:
    """Return a record, with the fields that Flower lets travel."""
    from flwr.app import ConfigRecord

    record = ConfigRecord()
    for key, value in fields.items():
        with contextlib.suppress(TypeError, ValueError):
            record[str(key)] = value
    return record


def _records(random: Random, content: Any) -> Any:
    """Return a content with other records."""
    from flwr.app import MetricRecord, RecordDict

    others = (
        RecordDict(),
        RecordDict({**content, "more": _config({"a": 1})}),
        RecordDict({"fedwqcp": MetricRecord({"a": 1.0})}),
        RecordDict({"fedwqcp": _arrays(random)}),
        RecordDict({"other": _config({"status": "ok"})}),
    )
    return random.choice(others)


def _arrays(random: Random) -> Any:
    """Return an array record that no honest site sends."""
    from flwr.app import Array, ArrayRecord

    arrays = (
        np.zeros(0),
        np.zeros(3),
        np.full((2, 2), np.nan),
        np.array([2**40, -1]),
        np.array([0], dtype=np.uint8),
    )
    made = ArrayRecord([random.choice(arrays) for _ in range(random.choice((0, 1, 1, 2)))])
    if random.random() < 0.3:
        made = ArrayRecord({"0": Array("float64", (10**9,), "numpy.ndarray", b"not an array")})
    return made


def _grid(where: Path, tamper: Any) -> Any:
    """Return four nodes of this process."""
    from fedwqcp.federation.transport.flower import client_app
    from flower.inprocess import InProcessGrid

    app = client_app(lambda c: calibrations()[c.node_config["agent"]], watchdog=False)
    configs = {
        100 + at: {"agent": name, "folder": str(where / name), "allow-samples": True}
        for at, name in enumerate(NAMES)
    }
    return InProcessGrid(dict.fromkeys(configs, app), configs, tamper)


def _check_ledger(record: Path) -> None:
    """A record must say how its round ended, whatever happened."""
    last = json.loads((record / "log.jsonl").read_bytes().splitlines()[-1])
    if last["event"] not in ("failed", "stored", "ended"):
        raise Finding(f"the log of the round ends with {last['event']!r}")


# --- running ---------------------------------------------------------------------------------

TARGETS: dict[str, tuple[int, Callable[[Case], None]]] = {
    "server": (40, fuzz_server),
    "signed": (5, fuzz_signed),
    "ask": (10, fuzz_ask),
    "round": (10, fuzz_round),
    "release": (10, fuzz_release),
    "predictor": (5, fuzz_predictor),
    "folder": (8, fuzz_folder),
    "record": (5, fuzz_record),
    "rounds": (5, fuzz_site_rounds),
    "flower": (8, fuzz_flower),
}
"""Each part that reads messages, with its share of the cases."""


def available(names: tuple[str, ...] = ()) -> dict[str, int]:
    """Return the targets that can be tried here, with their shares."""
    need = {"flower": "flwr", "signed": "cryptography"}
    lacks = {name for name, what in need.items() if importlib.util.find_spec(what) is None}
    found = {name: share for name, (share, _) in TARGETS.items() if name not in lacks}
    return {n: share for n, share in found.items() if not names or n in names}


@dataclass
class Result:
    """What a run found."""

    cases: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    findings: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def add(self, case: Case, finding: str, text: str) -> bool:
        """Count a case; return whether its finding is new."""
        self.cases[case.target] += 1
        self.messages += case.messages
        self.refusals += case.refusals
        if not finding:
            return False
        count, first, said = self.findings.get(finding, (0, case.number, text))
        self.findings[finding] = (count + 1, first, said)
        return count == 0


def run_case(seed: int, number: int, targets: dict[str, int]) -> tuple[Case, str, str]:
    """Run one case; return it with its finding, if any, in short and in full."""
    random = Random(f"{seed}/{number}")
    case = Case(seed, number, random)
    case.target = random.choices(list(targets), list(targets.values()))[0]
    try:
        with _alarm(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # numbers beyond their bounds
            TARGETS[case.target][1](case)
    except Exception as error:
        return case, _signature(case, error), "".join(traceback.format_exception(error))
    return case, "", ""


def run(
    seed: int,
    seconds: float,
    *,
    cases: int | None = None,
    names: tuple[str, ...] = (),
    out: Path | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Result:
    """Run cases until the time is over, or so many of them."""
    targets, result, number = available(names), Result(), 0
    end = time.monotonic() + seconds
    while (time.monotonic() < end) if cases is None else number < cases:
        case, finding, text = run_case(seed, number, targets)
        if result.add(case, finding, text):
            say(f"case {number}: {finding}")
            if out is not None:
                write_case(out, case, finding, text)
        number += 1
    return result


def write_case(out: Path, case: Case, finding: str, text: str) -> None:
    """Write a finding with all that was sent, so that it can become a test."""
    out.mkdir(parents=True, exist_ok=True)
    sent = [[step, who, base64.b64encode(data[:100_000]).decode()] for step, who, data in case.sent]
    kept = {
        "finding": finding,
        "seed": case.seed,
        "case": case.number,
        "target": case.target,
        "setup": case.setup,
        "mutations": case.done,
        "sent": sent,
        "traceback": text,
    }
    (out / f"{case.target}-{case.seed}-{case.number}.json").write_text(json.dumps(kept, indent=1))


def _signature(case: Case, error: Exception) -> str:
    """Return what two cases with the same cause share."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "fuzz" not in Path(f.filename).parts] or frames
    if isinstance(error, Finding):
        text = str(error)
        for name in NAMES:
            text = text.replace(name, "AGENT")
        return f"{case.target}: {text[:110]}"
    last = ours[-1]
    where = f"{Path(last.filename).name}:{last.lineno} ({last.name})"
    return f"{case.target}: {type(error).__name__} at {where} {str(error)[:60]}"


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """End a case that does not end by itself: by processor time, since others may use the machine.

    One that only waits is ended after ten times as long.
    """

    def _ring(*_: object) -> None:
        raise Finding(f"a case took longer than {LONGEST} s")

    before = [signal.signal(each, _ring) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.alarm(10 * LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for each, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(each, handler)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder in memory, where there is one: the fuzzer tests no disk."""
    shared = Path("/dev/shm")
    where = Path(
        tempfile.mkdtemp(prefix="fedwqcp-fuzz-", dir=shared if os.access(shared, os.W_OK) else None)
    )
    try:
        yield where
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    with contextlib.suppress(OSError, StopIteration, IndexError):
        text = Path("/proc/self/status").read_text()
        return 1024 * int(
            next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]
        )
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_from_now() -> int:
    """Forget earlier peaks, where the system can, and return the memory in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _counts(counter: Counter[str]) -> str:
    """Write counts for people."""
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def main() -> None:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description="hostile messages to every part that reads one")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--seed", type=int, default=None, help="by default from the clock; it is printed"
    )
    parser.add_argument("--case", type=int, default=None, help="repeat one case of a seed")
    parser.add_argument("--target", action="append", default=[], choices=list(TARGETS))
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(ValueError, OSError):  # a message that asks for more is a finding
        resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    seed = int(time.time()) if given.seed is None else given.seed
    names = tuple(given.target)
    for setup in setups():  # loads what methods need, which is no cost of a message
        honest_release(setup)
    if given.case is not None:
        case, finding, text = run_case(seed, given.case, available(names))
        said = f"{case.target}, {case.setup}\n" + "\n".join(case.done)
        print(said.encode("utf-8", "backslashreplace").decode(), text or "no finding", sep="\n")
        sys.exit(bool(finding))
    print(f"seed {seed}, {given.seconds:g} s, targets: {', '.join(available(names))}", flush=True)
    result = run(
        seed, given.seconds, names=names, out=given.out, say=lambda line: print(line, flush=True)
    )
    print(f"\ncases: {sum(result.cases.values())} ({_counts(result.cases)})")
    print(f"messages: {result.messages}")
    print(f"refusals: {_counts(result.refusals)}")
    print(f"findings: {len(result.findings)}")
    for finding, (count, first, _) in sorted(result.findings.items(), key=lambda item: -item[1][0]):
        print(f"  {count} x {finding} (first: case {first})")
    sys.exit(bool(result.findings))


if __name__ == "__main__":
    main()
