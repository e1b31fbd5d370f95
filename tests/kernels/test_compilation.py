"""numpy serves until it has cost as much time as compiling, and then the compiled loop does."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.kernels import compilation
from fedwqcp.kernels.compilation import LoopTimes, in_turns


class Clock:
    """Time that passes only where work is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def first_call(first: Callable[[], object], tell: Callable[[], None]) -> bool:
    """Compile, as numba does without a cache."""
    tell()
    first()
    return True


def load_call(first: Callable[[], object], tell: Callable[[], None]) -> bool:
    """Load a loop from the cache, as numba does if it is there."""
    first()
    return False


NUMBA = {"first_call": first_call, "cache_folder": lambda: "kept/here"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Clock]:
    """A process that has compiled nothing, in which compiling takes 3 seconds."""
    clock = Clock()
    with fresh(monkeypatch, clock, tmp_path):
        yield clock


def fresh(patch: pytest.MonkeyPatch, clock: Clock, folder: Path) -> pytest.MonkeyPatch:
    patch.setenv("NUMBA_CACHE_DIR", str(folder))
    patch.delenv("FEDWQCP_BACKEND", raising=False)
    for name, value in (
        ("thread_time", clock),
        ("loops", lambda: SimpleNamespace(numba=SimpleNamespace(**NUMBA))),
        ("installed", lambda: True),
        ("_spent", {}),
        ("_worked", {}),
        ("_ready", {}),
        ("_failed", set()),
        ("stamp", lambda: "these versions"),
        ("COMPILE", {"slow": 3.0}),
        ("SERVES", {"slow": "tests"}),
        ("SMALL", 10),
        ("TURN", 10),
    ):
        patch.setattr(compilation, name, value)
    patch.setitem(sys.modules, "numba", SimpleNamespace())
    compilation._loop_times.cache_clear()
    return patch.context()


def call(clock: Clock, rows: int, numpy: float = 1.0, loop: float = 0.1) -> list[str]:
    """Who served each row, where a row takes numpy and a loop so many seconds."""
    served = [""] * rows

    def compiled(loops: object, some: slice) -> bool:
        if "slow" not in compilation.times():
            clock.now += 3.0
        clock.now += loop * len(served[some])
        served[some] = ["loop"] * len(served[some])
        return True

    def plain(some: slice) -> None:
        clock.now += numpy * len(served[some])
        served[some] = ["numpy"] * len(served[some])

    in_turns("slow", rows, 10 * rows, compiled, plain)
    return served


def test_the_choice_changes_within_a_call(clock: Clock) -> None:
    assert call(clock, 6) == ["numpy"] + ["loop"] * 5  # the first row says that it takes 6 seconds
    assert call(clock, 2) == ["loop"] * 2


def test_what_is_left_of_a_call_counts(clock: Clock) -> None:
    assert call(clock, 2) == ["numpy"] * 2  # 2 of the 3 seconds
    assert call(clock, 2) == ["loop"] * 2  # would make 4


def test_many_calls_count_together(clock: Clock) -> None:
    assert [call(clock, 1)[0] for _ in range(5)] == ["numpy"] * 2 + ["loop"] * 3


def test_small_inputs_are_left_to_numpy_and_do_not_count(clock: Clock) -> None:
    done: list[slice] = []
    for _ in range(9):
        in_turns("slow", 3, 9, lambda *_: pytest.fail("compiled"), done.append)
    assert len(done) == 9
    assert compilation._spent == {}


def test_a_small_rest_compiles_nothing_but_takes_a_loop_that_is_ready(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    done: list[str] = []

    def once(rest: bool) -> str:
        in_turns(
            "slow", 3, 9, lambda *_: not done.append("loop"), lambda _: done.append("numpy"), rest
        )
        return done[-1]

    assert (once(rest=True), once(rest=False), once(rest=True)) == ("numpy", "loop", "loop")
    compilation._ready.clear()
    with compilation.always():
        assert once(rest=True) == "loop"


@given(
    numpy=st.floats(0.01, 2),
    loop=st.floats(0.001, 2),
    calls=st.lists(st.integers(1, 40), max_size=9),
)
def test_nobody_waits_much_more_than_twice_as_long_as_with_the_better_choice(
    numpy: float, loop: float, calls: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(compilation, "_save_loop_times", lambda: None)
        fresh(patch, clock, Path("nowhere"))
        for rows in calls:
            call(clock, rows, numpy, loop)
        n = sum(calls)
        best = min(numpy * n, 3.0 + loop * n)
        first = loop * compilation.FEW + numpy  # the call that compiles, and one turn
        assert clock.now <= 2 * max(best, min(numpy, loop) * n) + first + max(0, loop - numpy) * n


def test_a_loop_that_was_compiled_before_is_loaded_sooner(clock: Clock) -> None:
    call(clock, 6)
    assert compilation.loop_times_path().exists()
    compilation._loop_times()["slow"] = LoopTimes("these versions", 3.0, 1.0)
    compilation._save_loop_times()
    compilation._loop_times.cache_clear()
    compilation._ready.clear()
    compilation._spent.clear()
    compilation._worked.clear()
    assert call(clock, 1, numpy=0.8) == ["numpy"]
    assert compilation.cost("slow") == 1.0
    assert call(clock, 1, numpy=0.8) == ["loop"]
    compilation._loop_times()["slow"] = LoopTimes("other versions", 2.0, 1.0)
    assert compilation.cost("slow") == 2.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"slow": {"stamp": 1}}',
        "\xff",
        '{"slow": {"stamp": "these versions", "compile": 2.0, "load": 1e9}}',
        '{"slow": {"stamp": "these versions", "compile": -5.0}}',
    ],
)
def test_a_file_that_cannot_be_read_is_as_none(clock: Clock, text: str) -> None:
    compilation.loop_times_path().write_text(text, encoding="latin-1")
    assert compilation.cost("slow") == 3.0


def test_what_another_process_wrote_meanwhile_is_kept(clock: Clock) -> None:
    assert compilation._loop_times() == {}
    path = compilation.loop_times_path()
    path.write_text('{"other": {"stamp": "these versions", "compile": 2.0}}')
    call(clock, 6)
    assert json.loads(path.read_text()).keys() == {"other", "slow"}


def test_where_numba_fails_numpy_goes_on(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[slice] = []

    def damaged(loops: object, some: slice) -> bool:
        raise EOFError("Ran out of input")

    compilation._spent["slow"] = 9.0
    for _ in range(2):
        in_turns("slow", 2, 20, damaged, done.append)
    assert done == [slice(0, 1), slice(1, 2)] * 2
    (said,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert "could not compile or load 'slow' (EOFError): if its cache is damaged" in said
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    with pytest.raises(InputError, match=r"'slow' \(EOFError\)"):
        in_turns("slow", 2, 20, damaged, done.append)


def test_a_loop_that_left_the_cache_is_said_to_be_compiled_again(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    compilation._loop_times()["slow"] = LoopTimes("these versions", 3.0, 0.5)
    with caplog.at_level(logging.INFO, "fedwqcp"):
        call(clock, 6)
    assert caplog.messages == ["compiling a loop for tests (slow), about 3 s; kept for later"]
    assert compilation._loop_times()["slow"].compile == pytest.approx(4, abs=1)


def test_every_kind_of_loop_has_words_that_a_user_knows() -> None:
    assert {kind.split()[0] for kind in compilation.COMPILE} == set(compilation.SERVES)


def test_a_loop_that_is_loaded_slowly_is_not_said_to_be_compiled(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first load of a process can take as long as a short compilation."""
    monkeypatch.setitem(NUMBA, "first_call", load_call)
    for known in ({"slow": LoopTimes("these versions", 3.5)}, {}):  # a lost file of times too
        compilation._ready.clear()
        compilation._loop_times().clear()
        compilation._loop_times().update(known)
        with caplog.at_level(logging.INFO, "fedwqcp"):
            call(clock, 6)
        kept = compilation._loop_times()["slow"]
        assert kept.compile == (3.5 if known else 3.0)
        assert kept.load == compilation.times()["slow"] >= 3
    assert caplog.messages == []


def test_what_is_compiled_within_a_first_call_is_not_counted_twice(clock: Clock) -> None:
    def outer(loops: object, some: slice) -> bool:
        if "slow outer" not in compilation.times():
            clock.now += 2.0
            call(clock, 6)
        return True

    with compilation.always():
        in_turns("slow outer", 2, 20, outer, lambda some: None)
    assert compilation.times()["slow"] >= 3
    assert compilation.times()["slow outer"] < 3


def test_where_nothing_can_be_kept_the_loop_serves_all_the_same(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert call(clock, 6)[-1] == "loop"


def test_one_line_says_that_something_is_compiled(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fedwqcp"):
        call(clock, 9)
        call(clock, 9)
    assert caplog.messages == ["compiling a loop for tests (slow), about 3 s; kept for later"]


def test_rows_that_the_loop_refuses_are_left_to_numpy(clock: Clock) -> None:
    done: list[slice] = []
    compilation._spent["slow"] = 9.0
    in_turns("slow", 5, 50, lambda *_: False, done.append)
    assert done == [slice(0, 5)]


def test_the_backend_is_chosen_by_hand(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    assert call(clock, 1) == ["loop"]
    monkeypatch.setenv("FEDWQCP_BACKEND", "numpy")
    assert call(clock, 9) == ["numpy"] * 9
    monkeypatch.setenv("FEDWQCP_BACKEND", "cupy")
    with pytest.raises(InputError, match="must be auto, numpy or numba, or not set, got 'cupy'"):
        call(clock, 1)
    monkeypatch.setenv("FEDWQCP_BACKEND", "auto")
    monkeypatch.setenv("FEDWQCP_THREADS", "two")
    with pytest.raises(InputError, match=r"FEDWQCP_THREADS must be an integer .*, got 'two'"):
        call(clock, 1)
    monkeypatch.delenv("FEDWQCP_THREADS")
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    monkeypatch.setattr(compilation, "loops", lambda: None)
    with pytest.raises(MissingExtraError, match=r"\[fast\]"):
        call(clock, 1)


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numba", "simd", "bracket"):
        monkeypatch.setitem(sys.modules, f"fedwqcp.kernels.{name}", None)
        monkeypatch.delattr(f"fedwqcp.kernels.{name}", raising=False)
    assert compilation.loops.__wrapped__() is None


WARMED_UP = """
import os, sys
from pathlib import Path
import numpy as np
import fedwqcp as fw

def files():
    return sorted(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))

print(len(fw.warm_up(classes=[5, 30, 100])))
os.environ["FEDWQCP_BACKEND"] = "numba"  # numpy would compile nothing anyway
before = files()
for C in (5, 16, 48, 49, 1000):
    for dtype in (np.float32, np.float64):
        p = np.random.default_rng(0).dirichlet(np.ones(C), 200).astype(dtype)
        y, u = np.zeros(200, int), np.full(200, 0.5)
        for score in (fw.LAC(), fw.APS(randomized=False), fw.APS(), fw.RAPS(), fw.SAPS()):
            given = {"u": u} if getattr(score, "randomized", False) else {}
            score.of(p, y, **given)
            for q in (0.9, np.full(C, 0.9), np.full((200, 1), 0.9)):
                score.invert(p, q, **given)
                score.measure(p, y, q, **given)
            assert files() == before, (C, dtype, score)
"""


@pytest.mark.slow  # compiles every loop anew, in a folder of its own
def test_after_warming_up_no_call_compiles_in_this_process_or_a_later_one(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WARMED_UP], env=environment, check=True, capture_output=True
        )
        assert int(done.stdout) >= 10
    assert (tmp_path / "fedwqcp-compile-times.json").exists()


NOTHING_TO_COMPILE = """
import sys
sys.modules["numba"] = None  # as where it is not installed
import fedwqcp as fw
from typer.testing import CliRunner
from fedwqcp.cli.main import app
try:
    fw.warm_up(classes=[10])
except fw.errors.FedwqcpError as error:
    print(repr(error))
print(repr(CliRunner().invoke(app, ["warm-up"]).exception))
"""


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("auto", 'MissingExtraError("compiling loops ahead needs an optional dependency: pip'),
        ("numpy", "InputError('FEDWQCP_BACKEND=numpy uses no compiled loop: unset it to warm up')"),
    ],
)
def test_where_nothing_can_be_compiled_python_and_the_command_line_say_so(
    backend: str, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTHING_TO_COMPILE],
        env=os.environ | {"FEDWQCP_BACKEND": backend},
        check=True,
        capture_output=True,
        text=True,
    )
    in_python, at_the_command_line = done.stdout.splitlines()
    assert in_python.startswith(says)
    assert at_the_command_line == in_python


@pytest.mark.parametrize(
    ("wrong", "must"), [(1, "integers from 2"), (2**21, "integers from 2"),
                        (2.5, "integers from 2"), ("10", "an array of numbers")],
)  # fmt: skip
def test_a_wrong_number_of_classes_is_refused(wrong: object, must: str) -> None:
    with pytest.raises(InputError, match=f"classes must be {must}"):
        fw.warm_up(classes=[wrong])  # type: ignore[list-item]


def test_any_array_shares_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read-only arrays, ties, parts of arrays and other layouts bring no other loop."""
    numba = pytest.importorskip("fedwqcp.kernels.numba")
    own_thresholds = pytest.importorskip("fedwqcp.kernels.own_thresholds")
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    p = np.random.default_rng(0).dirichlet(np.ones(20), 500)
    score, y = fw.APS(randomized=False), np.zeros(500, int)
    loops = (numba.rank_labels, numba.cross_short_rows, own_thresholds.score_long)
    by_label, by_row = np.full(20, 0.5), np.full((500, 1), 0.5)

    def use(p: np.ndarray) -> list[int]:
        score.of(p, y[: len(p)])
        score.invert(p, 0.5)
        score.measure(p, y[: len(p)], 0.5)
        fw.APS().invert(p, 0.5, u=np.full(len(p), 0.5))
        for q in (by_label, by_row[: len(p)]):
            score.invert(p, q)
            score.measure(p, y[: len(p)], q)
            fw.APS().invert(p, q, u=np.full(len(p), 0.5))
        return [len(loop.signatures) for loop in loops]

    before = use(p)
    by_type = [str(types[0].dtype) for types in own_thresholds.score_long.signatures]
    assert by_type.count("float64") == 1  # sets and measuring share one
    mapped = p.copy()
    for array in (mapped, by_label, by_row, y):
        array.flags.writeable = False
    assert use(mapped) == use(p[100:]) == use(np.full((40, 20), 0.05)) == before
    assert use(np.asfortranarray(p)) == use(p[::2, ::-1]) == before


def test_numba_says_whether_it_compiles() -> None:
    numba = pytest.importorskip("numba")
    loops = pytest.importorskip("fedwqcp.kernels.numba")
    outer, inner = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    told: list[str] = []

    def both() -> None:
        assert loops.first_call(lambda: inner(1), lambda: told.append("inner"))
        outer(1)

    assert loops.first_call(both, lambda: told.append("outer"))
    assert not loops.first_call(lambda: outer(1) + inner(1), lambda: told.append("again"))
    assert told == ["inner", "outer"]


FORKED = """
import os, threading, time
from fedwqcp.kernels import compilation

compiling = threading.Event()

def compile():
    with compilation._compile_lock:
        compiling.set()
        time.sleep(0.3)

threading.Thread(target=compile).start()
compiling.wait()
child = os.fork()
if child == 0:
    os._exit(not compilation._compile_lock.acquire(timeout=5))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_process_that_is_forked_while_another_thread_compiles_can_compile() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


def test_the_time_to_import_numba_is_that_of_the_last_import(clock, monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "numba")
    assert compilation.cost("slow") == compilation.IMPORT + 3.0
    compilation._loop_times()["import"] = compilation.LoopTimes("", 0.5)
    assert compilation.cost("slow") == 0.5 + 3.0


def test_a_process_keeps_how_long_it_took_to_import_numba(tmp_path: Path) -> None:
    work = "from fedwqcp.kernels import compilation; compilation.loops(); "
    work += "compilation._save_loop_times()"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", work], check=True, env=environment)
    kept = json.loads((tmp_path / "fedwqcp-compile-times.json").read_text())
    assert kept["import"]["compile"] > 0
