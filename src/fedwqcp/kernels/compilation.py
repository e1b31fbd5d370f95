"""When to compile a loop: the rent-or-buy rule of online algorithms.

numpy serves until the time that it has spent on one kind of call in this process, and will spend
on the rest of the call at hand, reaches what compiling, or loading from numba's cache, takes; then
the loop is compiled. Whatever calls follow, nobody waits much more than twice as long as with the
better of the two choices. A large input is worked through in turns: the first one tells how fast
numpy is. Time is that of the processor, so that a busy machine chooses as an idle one does.

How long compiling takes is known from `COMPILE`, measured on one machine, until a loop has been
compiled on this one: then from a small file beside numba's cache (`loop_times_path`). It also says
which loops numba has in its cache, which load quickly.

``FEDWQCP_BACKEND=numpy`` never compiles, ``FEDWQCP_BACKEND=numba`` at once; the few rows that a
quick loop leaves are no reason to compile another. Where numba fails, as with a damaged cache or a
full disk, numpy goes on.
"""

from __future__ import annotations

import gc
import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from time import thread_time
from types import ModuleType
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from fedwqcp._io import is_folder, read, write_atomic
from fedwqcp.errors import FedwqcpError, InputError, MissingExtraError

Backend: TypeAlias = Literal["auto", "numpy", "numba"]

SMALL = 2**13
"""Inputs below this many numbers are left to numpy, which is as fast there."""

TURN = 2**18
"""numpy works on about so many numbers before the choice is looked at again."""

FEW = 32
"""Rows of the call that compiles a loop."""

COMPILE = {
    "valid": 0.35,
    "rank": 0.6,
    "rank vectors": 0.75,
    "rank vectors n": 1.25,
    "count": 0.5,
    "count n": 0.95,
    "exact short": 2.0,
    "exact long": 1.7,
    "short n": 1.3,
    "bracket": 3.0,
    "each": 3.4,
    "interval": 1.0,
    "select": 1.0,
}
"""Seconds to compile a loop by its kind, before any is known of this machine: the type of floats
left out, and n for the number of classes of a loop that serves one number alone. Otherwise the
first word counts."""

SERVES = {
    "valid": "checking probabilities",
    "rank": "scores",
    "count": "coverage and set sizes",
    "exact": "prediction sets",
    "short": "prediction sets",
    "bracket": "prediction sets",
    "each": "prediction sets with a threshold for each label",
    "interval": "prediction intervals",
    "select": "quantiles",
}
"""What a user calls the work of a loop, by the first word of its kind."""

LOAD = 0.12
"""Seconds to load a loop from numba's cache, likewise."""

LONGEST = 600.0
"""A file that says that something took longer than so many seconds is not believed."""

SOON = 0.03
"""No loop can serve in fewer seconds."""

IMPORT = 0.22
"""Seconds to import numba and the modules of loops, before any import was timed."""

_IMPORTING = "import"
"""Under which the time of the last import is kept, beside the kinds of loops."""

_log = logging.getLogger("fedwqcp.kernels")


class Loops(NamedTuple):
    """The modules of compiled loops."""

    numba: ModuleType
    simd: ModuleType
    bracket: ModuleType
    own_thresholds: ModuleType


_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]


class LoopTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long one kind of loop took to compile and to load in an earlier process."""

    stamp: str
    """For which numba has it in its cache, as `stamp` says."""
    compile: _Seconds
    load: _Seconds = LOAD


_spent: dict[str, float] = {}
"""Seconds of numpy by kind of call."""

_worked: dict[str, int] = {}
"""How many numbers it has worked on in them."""

_ready: dict[str, float] = {}
"""Kinds whose loop is compiled in this process, and the seconds that it took."""

_failed: set[str] = set()
"""Kinds that numba could not compile or load in this process."""

_always = [False]

_compile_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a fork waits for a compilation: its child could never end it
    os.register_at_fork(
        before=_compile_lock.acquire,
        after_in_parent=_compile_lock.release,
        after_in_child=_compile_lock.release,
    )


def wanted_backend() -> Backend:
    """Return who should serve, as FEDWQCP_BACKEND says."""
    text = "numba" if _always[0] else os.environ.get("FEDWQCP_BACKEND") or "auto"
    if text not in ("auto", "numpy", "numba"):
        raise InputError(f"FEDWQCP_BACKEND must be auto, numpy or numba, or not set, got {text!r}")
    return text  # type: ignore[return-value]


def wanted_threads() -> int:
    """Return how many threads a large input should use, as FEDWQCP_THREADS says."""
    text = os.environ.get("FEDWQCP_THREADS") or "1"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"FEDWQCP_THREADS must be an integer of at least 1, or not set, got {text!r}"
        )
    return int(text)


def backend() -> Backend:
    """Return who serves; numba only where it can be imported."""
    wanted = wanted_backend()
    if wanted == "numba" and loops() is None:
        raise MissingExtraError("FEDWQCP_BACKEND=numba", "fast")
    return wanted


def loops_for(
    kind: str,
    size: int,
    first: Callable[[Loops], object],
    ahead: int | None = None,
    rest: bool = False,
) -> Loops | None:
    """Return the compiled loops if they should serve an input of so many numbers, else None.

    ``kind`` names what one compilation serves; ``first`` calls the loop on something small;
    ``ahead`` is how many of the numbers are still to be worked on. The rest that another loop left
    compiles nothing where it is small.
    """
    wanted, ahead = backend(), size if ahead is None else ahead
    wanted_threads()  # a wrong number is refused now, not on large data
    if wanted == "numpy":
        return None
    if kind in _ready:
        return loops()
    if wanted == "auto" and (size < SMALL or not _pays_off(kind, ahead) or not installed()):
        return None
    if rest and size < SMALL and not _always[0]:
        return None
    found = loops()
    if found is None or (wanted == "auto" and kind in _failed):
        return None
    try:
        _compile(kind, found, lambda: first(found))
    except FedwqcpError:
        raise
    except Exception as error:  # numba raises many kinds on a cache that is damaged or full
        why = (
            f"numba could not compile or load {kind!r} ({type(error).__name__}): if its cache is "
            f"damaged or the disk full, remove *.nbi and *.nbc in {cache_folder() or 'its folder'}"
        )
        if wanted != "auto":
            raise InputError(why) from error
        _failed.add(kind)
        _log.warning("%s; numpy goes on", why)
        return None
    return found


@contextmanager
def always() -> Iterator[None]:
    """Compile every loop that is called, whatever the input."""
    _always[0] = True
    try:
        yield
    finally:
        _always[0] = False


def times() -> dict[str, float]:
    """Return the seconds that loops took to compile or load in this process."""
    return dict(_ready)


@contextmanager
def count_numpy_time(kind: str, size: int, worked: int | None = None) -> Iterator[None]:
    """Add what numpy does, of an input of so many numbers, to the time that it has spent.

    ``worked`` is how many of them this is, if not all.
    """
    start = thread_time()
    yield
    if size >= SMALL:
        _spent[kind] = _spent.get(kind, 0.0) + thread_time() - start
        _worked[kind] = _worked.get(kind, 0) + (size if worked is None else worked)


def in_turns(
    kind: str,
    n: int,
    size: int,
    compiled: Callable[[Loops, slice], bool],
    plain: Callable[[slice], None],
    rest: bool = False,
) -> None:
    """Work on n rows of so many numbers in all: by numpy until compiling pays, then by the loop.

    Where ``compiled`` returns False, the rows are left to ``plain``. ``rest`` as in `loops_for`.
    """
    start, step = 0, max(1, TURN * n // max(size, 1))

    def first(loops: Loops) -> None:
        compiled(loops, slice(start, min(start + FEW, n)))

    while start < n:
        found = loops_for(kind, size, first, size * (n - start) // n, rest)
        rows = slice(start, n if found else min(start + step, n))
        if found is None or not compiled(found, rows):
            with count_numpy_time(kind, size, size * (rows.stop - start) // n):
                plain(rows)
        start = rows.stop


@cache
def loops() -> Loops | None:
    """Import the loops, once, and keep how long it took if nothing had imported numba before."""
    fresh, start = "numba" not in sys.modules, thread_time()
    try:
        with _no_collection():
            from fedwqcp.kernels import bracket, numba, own_thresholds, simd
    except Exception:  # numba is not installed, or cannot be imported with this numpy
        return None
    if fresh:
        _loop_times()[_IMPORTING] = LoopTimes("", thread_time() - start)
    return Loops(numba, simd, bracket, own_thresholds)


def cache_folder() -> str | None:
    """Return where numba keeps compiled loops; None if nowhere."""
    found = loops()
    return None if found is None else found.numba.cache_folder()


@cache
def installed() -> bool:
    """Tell whether numba seems to be there, without importing it."""
    return "numba" in sys.modules or find_spec("numba") is not None


def _start() -> float:
    """Return how many seconds it takes until loops can be loaded."""
    if "numba" in sys.modules:
        return 0.0
    known = _loop_times().get(_IMPORTING)
    return IMPORT if known is None else known.compile


def cost(kind: str) -> float:
    """Return how many seconds it takes until the loop can serve."""
    known = _loop_times().get(kind)
    if known is None or known.stamp != stamp():
        return _start() + _compile_time(kind)
    return _start() + known.load


def _compile_time(kind: str) -> float:
    """Return how many seconds it takes to compile the loop, as far as is known."""
    if known := _loop_times().get(kind):
        return known.compile
    words = ["n" if word.isdigit() else word for word in kind.split()]
    plain = " ".join(word for word in words if not word.startswith("float"))
    return COMPILE[plain if plain in COMPILE else words[0]]


def _pays_off(kind: str, ahead: int) -> bool:
    """Tell whether numpy spends what the loop costs, if it works on so many more numbers.

    The file of times is not read too soon.
    """
    spent, worked = _spent.get(kind, 0.0), _worked.get(kind, 0)
    if worked:
        spent += spent * ahead / worked
    return spent >= SOON and spent >= cost(kind)


def _compile(kind: str, loops: Loops, first: Callable[[], object]) -> None:
    """Compile or load a loop by its first call, and keep how long it took."""

    def tell() -> None:
        what, took = SERVES[kind.split(maxsplit=1)[0]], _compile_time(kind)
        _log.info("compiling a loop for %s (%s), about %.0f s; kept for later", what, kind, took)

    with _compile_lock:
        if kind in _ready:
            return
        start, others = thread_time(), sum(_ready.values())
        with _no_collection():
            compiled = loops.numba.first_call(first, tell)
        within = sum(_ready.values()) - others  # the first call may call other loops
        took = max(0.0, thread_time() - start - within)
        times = (took,) if compiled else (_compile_time(kind), took)
        _loop_times()[kind] = LoopTimes(stamp(), *times)
        _ready[kind] = took
        _save_loop_times()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Let Python not look for garbage: importing and compiling make little, and take longer."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


# Times kept for later processes -------------------------------------------------------------------


@cache
def stamp() -> str:
    """Return what compiled loops are good for: this Python, this numba and these files.

    Files are asked for their age: looking up versions takes 20 ms, as long as many a first call.
    """
    numba = find_spec("numba")
    names = ("__init__", "numpy", "vectors", *Loops._fields)  # what loops are made of
    ours = (Path(__file__).with_name(f"{name}.py") for name in names)
    files = [__file__, *ours, *([numba.origin] if numba else [])]
    try:
        ages = " ".join(str(os.stat(file or "").st_mtime_ns) for file in files)
    except OSError:  # not from a folder
        ages = "unknown"
    return f"python {sys.version_info[:2]} {_processor()} {ages}"


def _processor() -> str:
    """Return what numba compiles for: loops in its cache are good for one kind of processor."""
    set_by_hand = [os.environ.get(f"NUMBA_CPU_{name}", "") for name in ("NAME", "FEATURES")]
    try:
        with open("/proc/cpuinfo", "rb") as file:  # of the first core alone: there may be hundreds
            lines = file.read(8192).splitlines()
    except OSError:
        return " ".join((platform.machine(), platform.processor(), *set_by_hand))
    own = [line for line in lines if line.startswith((b"model name", b"flags", b"Features"))]
    return " ".join((blake2b(b"".join(own[:2]), digest_size=8).hexdigest(), *set_by_hand))


def loop_times_path() -> Path:
    """Return the file of compile times: where numba keeps its cache, as far as we can tell."""
    folder = Path(__file__).parent / "__pycache__"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        folder = Path(given)
    elif not os.access(folder if is_folder(folder) else folder.parent, os.W_OK):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedwqcp"
    return folder / "fedwqcp-compile-times.json"


@cache
def _loop_times() -> dict[str, LoopTimes]:
    """Return the times of earlier processes, and of this one."""
    return _read_loop_times()


def _read_loop_times() -> dict[str, LoopTimes]:
    """Read the times of earlier processes; none where there is no file that can be read."""
    try:
        return msgspec.json.decode(read(loop_times_path()), type=dict[str, LoopTimes])
    except (OSError, FedwqcpError, msgspec.MsgspecError, UnicodeDecodeError, RuntimeError):
        return {}


def _save_loop_times() -> None:
    """Write the times of this process beside those of others, where that is possible."""
    path, ours = loop_times_path(), {_IMPORTING, *_ready}
    found = {kind: took for kind, took in _loop_times().items() if kind in ours}
    with suppress(OSError, FedwqcpError):
        path.parent.mkdir(parents=True, exist_ok=True)
        merged = _read_loop_times() | found  # others may have written since
        write_atomic(path, msgspec.json.format(msgspec.json.encode(merged)))
