"""The app that ``fedwqcp flower new`` writes."""

from __future__ import annotations

import ast
import runpy
import tomllib

import pytest
from flwr.app import Context, RecordDict
from local_federation import LocalFederation

import fedwqcp as fw
from engine import finished
from fedwqcp.errors import InputError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower.deployment import new_app
from fedwqcp.federation.transport.settings import nodes_of, round_of, timeouts_of


def test_the_app_is_whole_and_its_terms_are_sound(tmp_path):
    written = new_app(tmp_path / "my_app")
    assert all(path.exists() for path in written)
    for path in written:
        assert "@" not in path.read_text()
        if path.suffix == ".py":
            ast.parse(path.read_text())
    table = tomllib.loads((tmp_path / "my_app" / "pyproject.toml").read_text())
    assert table["project"]["name"] == "my-app"
    flower = table["tool"]["flwr"]["app"]
    assert flower["components"]["serverapp"] == "my_app.server_app:app"
    round = round_of(flower["config"])
    assert (round.agents, round.quorum) == (("agent-0", "agent-1"), 1)
    assert timeouts_of(flower["config"]).deadline == 90
    assert nodes_of(flower["config"], int) is None


def test_flower_hub_s_own_checks_take_the_app(tmp_path, capsys):
    """All that ``flwr app publish`` looks at before it sends anything; it needs an account."""
    publish = pytest.importorskip("flwr.cli.app_cmd.publish")
    if not hasattr(publish, "_validate_app_name"):
        pytest.skip("this Flower checks an app in another way")
    app = tmp_path / "calibrate-hospitals"
    new_app(app, 3, "st-mary")
    config, warnings = publish.load_and_validate(app / "pyproject.toml", check_module=False)
    assert warnings == []
    publish._validate_app_name(app.name, "folder")
    publish._validate_app_name(config["project"]["name"], "app")
    publish._validate_description(config["project"]["description"])
    files = publish._collect_file_paths(app)
    publish._validate_files(files)
    skipped = [line for line in capsys.readouterr().out.splitlines() if "Skip" in line]
    assert skipped == ["Skip: .flwr/config.toml"]  # where this machine finds its SuperLink
    names = {path.relative_to(app.resolve()).as_posix() for path in files}
    assert names >= {"LICENSE", "README.md", "pyproject.toml", "calibrate_hospitals/client_app.py"}
    assert config["tool"]["flwr"]["app"]["publisher"] == "st-mary"
    assert "and st-mary" in (app / "LICENSE").read_text()
    assert "Redistribution and use" in (app / "LICENSE").read_text()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    with pytest.raises(InputError):
        new_app(tmp_path / "there")
    for name in ("1 app", "a" * 33):
        with pytest.raises(InputError, match="names the app"):
            new_app(tmp_path / name)


def test_an_app_for_five_sites(tmp_path):
    new_app(tmp_path / "five-sites", 5)
    table = tomllib.loads((tmp_path / "five-sites" / "pyproject.toml").read_text())
    round = round_of(table["tool"]["flwr"]["app"]["config"])
    assert round.agents == tuple(f"agent-{at}" for at in range(5))
    assert round.quorum == 4
    assert '"num-supernodes=5"' in (tmp_path / "five-sites" / "README.md").read_text()
    with pytest.raises(InputError):
        new_app(tmp_path / "none", 0)


def test_a_site_of_the_app_answers_from_what_it_names(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    new_app(tmp_path / "my-app")
    outputs = runpy.run_path(str(tmp_path / "my-app" / "my_app" / "client_app.py"))["outputs"]
    pq.write_table(pa.table({"score": [0.5, 0.25], "label": [0, 1]}), tmp_path / "scores.parquet")
    scored = outputs(Context(1, 0, {"scores": str(tmp_path / "scores.parquet")}, RecordDict(), {}))
    (part,) = scored
    assert (scored.scores, part.values.tolist()) == (True, [0.5, 0.25])
    (tmp_path / "folder").mkdir()
    table = pa.table({"p0": [0.25], "p1": [0.75], "label": [1]})
    pq.write_table(table, tmp_path / "folder" / "part-0.parquet")
    (part,) = outputs(Context(1, 0, {"outputs": str(tmp_path / "folder")}, RecordDict(), {}))
    assert part.values.tolist() == [[0.25, 0.75]]


@pytest.mark.nightly
def test_the_app_runs_between_processes_as_it_is(tmp_path, stops_when_terminated):
    """Also with the oldest Flower that is supported: make test-flower-oldest."""
    new_app(tmp_path / "my-app", 5)
    names, records = tuple(f"agent-{at}" for at in range(5)), tmp_path / "records"
    with LocalFederation(tmp_path / "federation", names) as federation:
        for at, name in enumerate(names):
            federation.start_site(name, {"partition-id": at, "folder": tmp_path / name})
        federation.wait_online(5)
        run = federation.submit(tmp_path / "my-app", {"records": str(records)})
        ended, record = finished(federation, records, run)
    assert ended == "finished:completed"
    assert fw.load(record / "release.json").used == names
    assert audit(record).matches
