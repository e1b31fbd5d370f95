"""The example trains with FedAvg and calibrates the model that came out."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from inprocess import InProcessGrid

import fedwqcp as fw
from fedwqcp.federation.audit import audit

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-train-then-calibrate"


@pytest.fixture
def example(monkeypatch):
    """The example's package and its run configuration, as Flower flattens it."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in [n for n in sys.modules if n.startswith("train_then_calibrate")]:
        monkeypatch.delitem(sys.modules, name)
    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    nested = table.pop("calibration")
    return table | {f"calibration.{key}": value for key, value in nested.items()}


def test_training_then_one_more_round(example, tmp_path):
    from train_then_calibrate import client_app, server_app, task

    config = {**example, "calibration.records": str(tmp_path / "records")}
    grid = InProcessGrid(
        dict.fromkeys((11, 12), client_app.app),
        {
            node: {"partition-id": at, "folder": str(tmp_path / f"agent-{at}")}
            for at, node in enumerate((11, 12))
        },
    )
    for context in grid.contexts.values():
        context.run_config = config
    server_app.app(grid, Context(1, 0, {}, RecordDict(), config))
    (record,) = (tmp_path / "records").iterdir()
    assert audit(record).matches
    release = fw.load(tmp_path / "agent-1" / "release.json")
    assert release.used == ("agent-0", "agent-1")
    kinds = [message.metadata.message_type for message in grid.sent]
    assert kinds.count("train") == 6
    assert kinds.count("query.fedwqcp_ask") == 2

    model = grid.contexts[11].state["fedwqcp.model"].to_numpy_ndarrays()
    _, (images, labels) = task.load(0, 2)
    right = task.probabilities(model, images).argmax(axis=1) == labels
    assert right.mean() > 0.85, "the parameters that travelled are the trained ones"
