"""A privacy budget is spent before an answer leaves; which protections go together."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import BudgetError, InputError, RecordError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.secure import SecureServer, run_sums, secure_round
from fedwqcp.federation.spending_log import SpendingLog
from fedwqcp.methods import Calibration, get
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Choice, Round

ROUND = Round(
    "r1", choose_method(get("private-fedwq-cp")), Choice("lac"), (0.1,), ("a", "b"), 1, n_classes=3
)
CAL = Calibration(np.random.default_rng(0).uniform(size=600))


def agent(folder, total=2.0, round=ROUND, name="a"):
    return Agent(name, round, CAL, budget=Budget(folder, total))


def test_the_same_question_gets_the_same_answer_for_nothing(tmp_path):
    first = agent(tmp_path / "p").answer()
    assert all(agent(tmp_path / "p").answer() == first for _ in range(5))
    assert Budget(tmp_path / "p", 2.0).left == 1.0
    assert [path.name for path in (tmp_path / "p").glob("0*")] == ["000001.json"]
    kept = json.loads((tmp_path / "p" / "000001.json").read_text())
    assert (kept["round"], kept["epsilon"], kept["answer"].encode()) == ("r1", "1.0", first)


def test_a_spent_budget_refuses_the_next_round_by_name(tmp_path):
    for name in ("r1", "r2"):
        agent(tmp_path, round=replace(ROUND, id=name)).answer()
    with pytest.raises(BudgetError):
        agent(tmp_path, round=replace(ROUND, id="r3")).answer()
    assert len(list(tmp_path.glob("0*"))) == 2
    agent(tmp_path, round=ROUND).answer()  # what was answered can be had again


def test_levels_and_columns_add_up(tmp_path):
    two = replace(ROUND, alphas=(0.1, 0.2), score=Choice("lac"))
    agent(tmp_path / "levels", round=two).answer()
    assert Budget(tmp_path / "levels", 2.0).left == 0
    settings = choose_method(get("private-fedwq-cp", bounds=(-1.0, 5.0)))
    asymmetric = replace(
        ROUND, method=settings, score=Choice("cqr", {"symmetric": False}), n_classes=None
    )
    cal = Calibration(np.random.default_rng(1).normal(size=(900, 2)))
    side = Agent("a", asymmetric, cal, budget=Budget(tmp_path / "columns", 2.0))
    side.answer()
    assert Budget(tmp_path / "columns", 2.0).left == 0
    three = replace(ROUND, alphas=(0.1, 0.2, 0.3))
    with pytest.raises(BudgetError):
        agent(tmp_path / "three", round=three).answer()
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize("method", ["fedwq-cp", "fcp", "dp-fedcp"])  # whatever it lets leave
def test_with_a_budget_only_private_methods_are_answered(method, tmp_path):
    other = replace(ROUND, method=Choice(method))
    cal = Calibration(CAL.scores, np.arange(CAL.n) % 3, n_classes=3)
    side = Agent("a", other, cal, allow_samples=True, budget=Budget(tmp_path, 9.0))
    with pytest.raises(BudgetError):
        side.answer()
    assert not list(tmp_path.iterdir())


def test_other_terms_under_the_same_id_spend_anew(tmp_path):
    agent(tmp_path).answer()
    agent(tmp_path, round=replace(ROUND, alphas=(0.2,))).answer()
    assert Budget(tmp_path, 2.0).left == 0


@pytest.mark.parametrize("total", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_a_positive_number(total, tmp_path):
    with pytest.raises(InputError):
        Budget(tmp_path, total)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"epsilon": "-1", "total": "2", "question": "q", "answer": "x"}',
     '{"epsilon": "inf", "total": "2", "question": "q", "answer": "x"}',
     '{"epsilon": "one", "total": "2", "question": "q", "answer": "x"}',
     '{"epsilon": "1", "total": "much", "question": "q", "answer": "x"}',
     '{"epsilon": "1", "question": "q", "answer": "x"}',
     '{"epsilon": "1", "total": "2", "question": "q", "answer": 7}'],
)  # fmt: skip
def test_a_damaged_entry_stops_every_answer(text, tmp_path):
    (tmp_path / "000001.json").write_text(text)
    with pytest.raises(RecordError, match=r"000001\.json is damaged"):
        agent(tmp_path).answer()


@pytest.mark.parametrize("name", ["epsilon", "total"])
@pytest.mark.parametrize("value", ["1E+9999999999", "1E-9999999999", "1e309", "-1", "0", "sNaN"])
def test_a_number_that_no_answer_spends_stops_every_answer(name, value, tmp_path):
    agent(tmp_path / "p").answer()
    entry = tmp_path / "p" / "000001.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), name: value}))
    for round in (ROUND, replace(ROUND, id="r2")):
        with pytest.raises(RecordError):
            agent(tmp_path / "p", round=round).answer()


def test_a_folder_that_cannot_be_read_stops_every_answer(tmp_path, monkeypatch):
    agent(tmp_path / "p").answer()
    closed, real = str(tmp_path / "p"), {name: getattr(os, name) for name in ("listdir", "stat")}
    for name, call in real.items():

        def denied(path, *args, call=call, **more):
            if str(path).startswith(closed):
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *args, **more)

        monkeypatch.setattr(os, name, denied)
    with pytest.raises(InputError, match=f"cannot read {closed}.*: Permission denied"):
        agent(tmp_path / "p", round=replace(ROUND, id="r2")).answer()


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (("000002.json",), "000002.json"),
        (("000001.json", "000002.json"), "000001.json"),
        (("count.json",), "count.json"),
    ],
)
def test_losing_the_last_entries_gives_no_budget_back(lost, named, tmp_path):
    for name in ("r1", "r2"):
        agent(tmp_path, round=replace(ROUND, id=name)).answer()
    for name in lost:
        (tmp_path / name).unlink()
    with pytest.raises(RecordError):
        agent(tmp_path, round=replace(ROUND, id="r3")).answer()
    with pytest.raises(RecordError, match="is missing"):
        Budget(tmp_path, 2.0).left  # noqa: B018


def test_an_answer_that_a_crash_kept_from_being_counted_counts_when_it_leaves(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as killed:
        killed.setattr(SpendingLog, "_count_up", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            agent(tmp_path).answer()
    agent(tmp_path).answer()
    (tmp_path / "000001.json").unlink()
    with pytest.raises(RecordError):
        agent(tmp_path, round=replace(ROUND, id="r2")).answer()


@pytest.mark.parametrize("text", ["", "[]", '{"answers": -1}', '{"answers": true}', "[" * 10**5])
def test_a_damaged_count_stops_every_answer(text, tmp_path):
    agent(tmp_path).answer()
    (tmp_path / "count.json").write_text(text)
    with pytest.raises(RecordError, match=r"count\.json is damaged"):
        agent(tmp_path, round=replace(ROUND, id="r2")).answer()


def test_a_budget_cannot_be_raised_once_something_was_spent(tmp_path):
    agent(tmp_path, 2.0).answer()
    with pytest.raises(BudgetError):
        agent(tmp_path, 30.0, replace(ROUND, id="r2")).answer()
    assert Budget(tmp_path, 2.0).left == 1.0, "nothing was spent"
    assert Budget(tmp_path, 30.0).left == 1.0, "what was said first counts"


PROCESS = """
import os, sys
from pathlib import Path
import numpy as np
from fedwqcp.errors import BudgetError
from fedwqcp.federation import privacy_budget, spending_log
from fedwqcp.federation.agent import Agent
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Round
home, name, total, crash = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
if crash == "after":
    synced = spending_log.sync_folder
    spending_log.sync_folder = lambda at: os._exit(9) if at.name == "p" else synced(at)
if crash == "before":
    spending_log.write_atomic = lambda *a, **k: os._exit(9)
round = decode((home / f"{name}.json").read_bytes(), Round)
cal = Calibration(np.random.default_rng(0).uniform(size=600))
try:
    answer = Agent("a", round, cal, budget=privacy_budget.Budget(home / "p", total)).answer()
except BudgetError as error:
    sys.exit(f"refused: {error}")
sys.stdout.buffer.write(answer)
"""


def start(home, name, total=2.0, crash="never"):
    """Answer a round in a process of its own."""
    (home / f"{name}.json").write_bytes(encode(replace(ROUND, id=name)))
    command = [sys.executable, "-c", PROCESS, str(home), name, str(total), crash]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_budget_outlives_its_processes(tmp_path):
    first = start(tmp_path, "r1")
    said, _ = first.communicate()
    again, _ = start(tmp_path, "r1").communicate()
    assert said == again != b""
    assert start(tmp_path, "r2").wait() == 0
    third = start(tmp_path, "r3")
    out, why = third.communicate()
    assert (out, third.returncode) == (b"", 1)
    assert b"refused: the privacy budget does not allow round 'r3'" in why


def test_a_crash_gives_nothing_back(tmp_path):
    died = start(tmp_path, "r1", crash="after")  # written, and not yet sent
    assert died.communicate()[0] == b""
    assert died.returncode == 9
    assert Budget(tmp_path / "p", 2.0).left == 1.0
    said, _ = start(tmp_path, "r1").communicate()
    kept = json.loads((tmp_path / "p" / "000001.json").read_text())["answer"]
    assert said == kept.encode()
    assert Budget(tmp_path / "p", 2.0).left == 1.0


def test_processes_that_race_cannot_spend_twice(tmp_path):
    running = [start(tmp_path, f"r{i}", total=3.0) for i in range(6)]
    codes = [process.wait() for process in running]
    for process in running:
        process.stdout.close()
        process.stderr.close()
    assert sorted(codes) == [0, 0, 0, 1, 1, 1]
    assert Budget(tmp_path / "p", 3.0).left == 0
    assert len(list((tmp_path / "p").glob("0*"))) == 3


CALS = {f"a{i}": np.random.default_rng(i).uniform(size=800) for i in range(4)}


def test_masked_rounds_spend_the_budget_too(tmp_path):
    terms = Round(
        "r1", choose_method("private-fedwq-cp"), Choice("lac"), (0.1,), tuple(CALS), 4, n_classes=3
    )
    plan = Plan.of(secure_round(terms))

    def agents():
        return {
            name: Agent(name, plan, fw.Calibration(cal), budget=Budget(tmp_path / name, 1.0))
            for name, cal in CALS.items()
        }

    first = run_sums(SecureServer(plan), agents())
    again = run_sums(SecureServer(plan), agents())
    assert first.threshold("a0") == again.threshold("a0") < np.inf
    assert Budget(tmp_path / "a0", 1.0).left == 0
