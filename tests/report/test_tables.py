from io import StringIO
from math import inf

import pytest
from rich.console import Console

from fedwqcp.demo.records import Skipped
from fedwqcp.report.tables import methods_table, notes, overflow_table, show, verdict
from records import record


def text(thing, width=110):
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(thing)
    return out.getvalue()


def row(table, start):
    """Return the cells of the row whose first cell is given."""
    return next(line.split() for line in table.splitlines() if line.split()[:1] == [start])


def two_agents(method="fedwq-cp", **changes):
    return [
        record(method=method, agent="S0", covered=180, size=1.0, bytes_up=200, **changes),
        record(
            method=method, agent="W1", model="weak", covered=120, size=2.0, bytes_up=300, **changes
        ),
    ]


# Among 200 test points the exact 99 % interval holds 0.9 from 168 to 190 hits.
@pytest.mark.parametrize(
    ("covered", "mark"),
    [(0, "!"), (167, "!"), (168, " "), (180, " "), (190, " "), (191, "+"), (200, "+")],
)
def test_verdict_tells_deviation_from_noise(covered, mark):
    assert verdict(record(tested=200, covered=covered)) == mark


def test_a_row_holds_coverages_mean_worst_size_and_cost():
    table = text(methods_table(two_agents(rounds=3)))
    assert row(table, "fedwq-cp") == [
        *("fedwq-cp", "0.900", "!0.600", "0.750", "W1", "!0.600", "1.5", "3", "300", "none")
    ]


def test_under_coverage_is_marked_without_colour():
    assert "!0.600" in text(methods_table(two_agents()))


def test_every_method_has_its_row_in_the_order_of_records():
    table = text(methods_table(two_agents("b-cp") + two_agents("a-cp")))
    assert table.index("b-cp") < table.index("a-cp")


def test_agents_show_their_calibration_points():
    assert row(text(methods_table(two_agents(n=77))), "points")[:3] == ["points", "77", "77"]


def test_regression_shows_lengths_and_infinity():
    table = text(methods_table([record(task="regression", size=inf, dataset="synthetic (x)")]))
    assert "length" in table
    assert "synthetic (x): regression" in table
    assert row(table, "fedwq-cp")[5] == "inf"


def test_a_skipped_method_is_named_with_its_reason():
    table = text(
        methods_table(
            two_agents(), [Skipped(dataset="digits", method="x-cp", reason="needs [labels]")]
        )
    )
    assert "x-cp is left out: needs [labels]" in table


def test_methods_that_send_samples_are_marked():
    table = text(methods_table(two_agents(samples=True)))
    assert "fedwq-cp*" in table
    assert "* scores of single people left the agents" in table
    assert "*" not in text(methods_table(two_agents()))


def test_a_target_is_explained_where_there_is_one():
    assert "aimed at the law" in text(methods_table(two_agents(guarantee="target-shift")))
    assert "aimed at the law" not in text(methods_table(two_agents()))


def test_the_table_fits_a_hundred_columns_untruncated():
    names = ("S0", "S1", "S2", "W3", "W4", "W5")
    some = [
        record(agent=name, method="fedavgq-cp", guarantee="marginal-mixture", bytes_up=123456)
        for name in names
    ]
    table = text(methods_table(some), width=100)
    assert "…" not in table
    assert all(word in table for word in (*names, "marginal", "mixture", "123456", "0.900"))
    assert row(text(methods_table(some), width=110), "fedavgq-cp")[-2:] == ["marginal", "mixture"]


def overflow(policy, threshold, n=5):
    config = {"method.overflow": policy, "demo.scarce_agent": "W1"}
    return [
        record(experiment="overflow", agent="S0", threshold=threshold, config=config),
        record(
            experiment="overflow", agent="W1", n=n, covered=120, threshold=threshold, config=config
        ),
    ]


def test_overflow_policies_stand_side_by_side():
    some = [*overflow("propagate", inf), *overflow("clip", 0.25), *overflow("exclude", 0.5)]
    table = text(overflow_table(some))
    assert "W1: 5" in table
    assert row(table, "clip")[:6] == ["clip", "0.25", "0.750", "W1", "!0.600", "1.25"]
    assert row(table, "exclude")[1] == "0.5"
    assert "inf" in row(table, "digits")


def test_an_empty_agent_is_no_overflow():
    assert "without points it has no weight" in text(overflow_table(overflow("clip", 0.25, n=0)))


def test_notes_say_what_is_not_guaranteed_and_why_splitcp_misses():
    said = notes([record(alpha=0.2)])
    assert "FedWQ-CP guarantees nothing in finite samples" in said
    assert "SplitCP's row strays from 0.8" in said
    assert "shift between agents" in said


def test_show_prints_all_of_it():
    out = StringIO()
    other = two_agents(dataset="synthetic", task="regression")
    some = [*two_agents(), *other, *overflow("clip", 0.25)]
    skipped = [Skipped(dataset="synthetic", method="x-cp", reason="needs labels")]
    show(some, skipped, Console(file=out, width=110))
    said = out.getvalue()
    assert said.index("digits: classification") < said.index("synthetic: regression")
    assert said.index("synthetic: regression") < said.index("x-cp is left out")
    assert "too few points" in said
    assert said.count("guarantees nothing") == 1


def test_show_without_the_second_experiment():
    out = StringIO()
    show(two_agents(), [], Console(file=out, width=110))
    assert "too few points" not in out.getvalue()
