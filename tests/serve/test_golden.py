"""Files of each version that is read, as it wrote them: once published, they never change."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedwqcp as fw
from fedwqcp.federation.transport.folder import read_round
from fedwqcp.wire.codec import encode

GOLDEN = Path(__file__).parents[1] / "golden"
WHEN = {"created": "2026-11-18T22:00:00Z", "software": "fedwqcp 0.1.0"}


def test_a_predictor_reads_back_to_the_same_bytes_and_the_same_sets():
    path = GOLDEN / "predictor-1.json"
    own = fw.load(path)
    assert own.encoded() == path.read_bytes()
    assert WHEN.items() < own.provenance.items()
    rows = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]]
    options = {"ids": ["påtient-1", "7", "病"], "model": "net 3.1"}
    assert [list(own.predict_set(rows, alpha=alpha, **options)) for alpha in (0.1, 0.3)] == SETS


SETS = [[(0, 1, 2), (0, 1, 2), (0,)], [(0, 1), (2,), (0,)]]


@pytest.mark.parametrize(("name", "read"), [("round-3", read_round), ("release-3", fw.load)])
def test_a_message_reads_back_to_the_same_bytes(name, read):
    found = read(GOLDEN / f"{name}.json")
    assert encode(found) == (GOLDEN / f"{name}.json").read_bytes()
    assert found.provenance == WHEN
