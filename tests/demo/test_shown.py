from math import inf

import numpy as np
import pytest

from fedwqcp import methods
from fedwqcp.demo import shown
from fedwqcp.demo.agents import AGENTS
from fedwqcp.demo.demo import Demo, run
from fedwqcp.errors import InputError, RecordError


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "available", lambda: ("fcp", "fedwq-cp", "split-cp"))
        return run(Demo(digits=400, friedman=400, epochs=2))


def of(results, kind):
    return [s for s in results.shown if isinstance(s, kind)]


def test_what_was_kept_survives_its_file(results, tmp_path):
    shown.save(tmp_path / shown.FILE, results.shown)
    assert shown.load(tmp_path / shown.FILE) == results.shown


def test_no_file_is_nothing_kept(tmp_path):
    assert shown.load(tmp_path / shown.FILE) == ()


def test_infinite_ends_of_an_interval_survive(tmp_path):
    one = shown.Example(
        dataset="d", agent="a", row=0, truth=1.0, said=0.5, probability=None, pixels=(),
        sets={"fedwq-cp": (-inf, inf)},
    )  # fmt: skip
    shown.save(tmp_path / "x", [one])
    assert shown.load(tmp_path / "x") == (one,)


def test_portraits_agree_with_the_records(results):
    for p in of(results, shown.Portrait):
        own = [
            r
            for r in results.records
            if (r.experiment, r.dataset, r.agent) == ("methods", p.dataset, p.agent)
        ]
        by = {r.method: r for r in own}
        assert sum(p.counts) == by["fedwq-cp"].n
        assert p.local == by["split-cp"].threshold
        assert p.released == by["fedwq-cp"].threshold
        assert p.coverage == by["fedwq-cp"].coverage
        assert not p.people or (min(p.people) >= 10 and sum(p.people) == by["fedwq-cp"].n)


def test_messages_add_up_to_the_bytes_of_the_records(results):
    sent = {(t.dataset, t.method, t.agent): t for t in of(results, shown.Traffic)}
    for r in results.records:
        if r.experiment == "methods":
            t = sent[r.dataset, r.method, r.agent]
            assert (sum(t.up), sum(t.down), len(t.up)) == (r.bytes_up, r.bytes_down, r.rounds)


def test_examples_are_the_same_points_for_all_agents_and_hold_every_method(results):
    for dataset in ("digits", "synthetic (Friedman)"):
        rows = {}
        for e in of(results, shown.Example):
            if e.dataset == dataset:
                rows.setdefault(e.agent, []).append(e.row)
                assert set(e.sets) == {"fcp", "fedwq-cp", "split-cp"}
        assert list(rows) == [agent.name for agent in AGENTS]
        assert len({tuple(own) for own in rows.values()}) == 1
    first = of(results, shown.Example)[0]
    assert len(first.pixels) == 64
    assert 0 <= first.probability < np.mean([0.5])


@pytest.mark.parametrize(
    "line", ["no json", "{}", '{"kind": "other"}', '{"kind": "traffic", "version": 9}']
)
def test_damaged_lines_are_refused(line, tmp_path):
    (tmp_path / "x").write_text(line + "\n")
    with pytest.raises(RecordError, match="line 1"):
        shown.load(tmp_path / "x")


def test_a_histogram_needs_one_edge_more_than_bins(results):
    p = of(results, shown.Portrait)[0]
    with pytest.raises(InputError, match="edges"):
        shown.Portrait(**{**vars(p), "edges": (0.0,), "people": (10,)})
    with pytest.raises(InputError, match="as many"):
        shown.Traffic(dataset="d", method="m", agent="a", down=(1,), up=())
