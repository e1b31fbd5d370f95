"""Every transport carries the same bytes, so every method releases the same through each."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call
from engine import InMemoryCarrier, same
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method
from fedwqcp.federation.predict import calibration_of, predictor_of, thresholds
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import folder, local
from fedwqcp.federation.transport.session import Session
from fedwqcp.federation.transport.settings import Timeouts, round_of
from fedwqcp.federation.transport.site import Site, SiteSettings
from fedwqcp.methods import Calibration
from fedwqcp.wire.messages import Choice, Round
from refusals import raises
from worked import drawn, unlike

SETTINGS = {"dp-fedcp": {"rounds": 4}}
METHODS = [fw.methods.get(name, **SETTINGS.get(name, {})) for name in fw.methods.built_in()]


def calibrations():
    return unlike(**{"site-0": 30, "site-1": 45, "site-2": 25})


def by_files(round, cals, home):
    """Carry a round by files; a method that asks more than once is for engines."""
    path, answers = home / "round.json", []
    schedule = Plan.of(round).method.schedule(len(round.agents), round.n_classes)
    if sum(often for _, often in schedule) > 1:
        with raises(InputError, field="method"):
            folder.open_round(round, path)
        pytest.skip("for engines")
    folder.open_round(round, path)
    for name, cal in cals.items() if schedule else ():
        answers.append(home / f"{name}.json")
        folder.write_answer(Agent(name, round, cal, limit=None), answers[-1])
    return folder.close_round(path, answers, home / "release.json").release


def over_an_engine(round, cals, home):
    """Carry a round over the smallest engine; every engine shares all but the carrier."""
    sites = {
        name: (Site(name, home / name, SiteSettings(allow_samples=True)), c)
        for name, c in cals.items()
    }
    session = Session(InMemoryCarrier(sites), round, Timeouts(5.0, 1.0, 0.01), None, None)
    result = session.run()
    assert result.stored == tuple(cals)
    return result.release


def over_flower(round, cals, home):
    """Carry a round over Flower's messages and apps, within this process."""
    pytest.importorskip("flwr")
    from fedwqcp.federation.transport.flower import calibrate
    from flower.inprocess import sites

    grid = sites(home, cals, **{"allow-samples": True})
    result = calibrate(grid, round, timeouts=Timeouts(5.0, 1.0, 0.01))
    assert result.stored == tuple(cals)
    return result.release


def over_nvflare(round, cals, home):
    """Carry a round over NVIDIA FLARE's tasks, controller and executor, within this process."""
    pytest.importorskip("nvflare.apis")
    from flare import run

    result = run(round, home, cals, settings="allow-samples = true\n")
    assert result.stored == tuple(cals)
    return result.release


@pytest.mark.parametrize("carry", [by_files, over_an_engine, over_flower, over_nvflare])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_transport_releases_what_one_process_releases(method, carry, tmp_path):
    cals = calibrations()
    round = Round("r1", choose_method(method), Choice("lac"), (0.2,), tuple(cals), 3, n_classes=3)
    agents = {name: Agent(name, round, cal, limit=None) for name, cal in cals.items()}
    here = local.run(Server(round), agents)
    there = carry(round, cals, tmp_path)
    assert there.outcomes == here.outcomes
    assert there.rounds == here.rounds
    assert [a.bytes_up for a in there.agents] == [a.bytes_up for a in here.agents]
    assert same(there, here)


@pytest.mark.parametrize("carry", [over_an_engine, over_flower, over_nvflare])
def test_a_federated_quantile_is_exact_over_every_engine(carry, tmp_path):
    cals = calibrations()
    values = {name: cal.scores for name, cal in cals.items()}
    pooled = np.concatenate(list(values.values()))
    method = choose_method(fw.methods.get("fcp", correction=False))
    round = Round("r1", method, Choice("custom"), (0.3,), tuple(cals), 3)
    release = carry(round, {name: Calibration(own) for name, own in values.items()}, tmp_path)
    expected = np.quantile(pooled, 0.7, method="inverted_cdf")
    assert release.threshold("site-0") == expected == fw.federated_quantile(values, 0.7)


def by_commands(sites, home, monkeypatch):
    """Carry a round by the command line, with no option but what must be said."""
    monkeypatch.chdir(home)
    (home / "roster.toml").write_text(f"agents = {list(sites)!r}\n".replace("'", '"'))
    call("server", "open", "--agents", "roster.toml", "--alpha", 0.1, "--out", "round.json")
    round = folder.read_round(home / "round.json")
    for name, outputs in sites.items():
        np.savez(f"{name}.npz", probs=outputs.values, labels=outputs.labels, ids=outputs.ids)
        call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
             "--agent", name, "--out", f"{name}.json")  # fmt: skip
    answers = [f"{name}.json" for name in sites]
    call("server", "close", "round.json", *answers, "--out", "release.json")
    return round, fw.load(home / "release.json")


def three_sites():
    """Sites of 6, 60 and 600 rows."""
    rng = np.random.default_rng(5)
    found = {}
    for name, n in (("few", 6), ("some", 60), ("many", 600)):
        probs, labels = drawn(rng, n)
        found[name] = fw.Outputs(probs, labels, ids=[f"{name}-{i}" for i in range(n)])
    return found


def test_the_default_gives_one_threshold_by_files_and_in_one_process(tmp_path, monkeypatch):
    sites = three_sites()
    round, there = by_commands(sites, tmp_path, monkeypatch)
    here = fw.calibrate(sites, alpha=0.1, key=round.key)
    assert here.guarantee.strength == "finite-sample"
    for name, own in sites.items():
        found = thresholds(there, name, calibration=calibration_of(round, own))
        assert found == here.threshold(name) < 1
    assert here.proved("few") == 6 / 7


def test_the_default_gives_the_same_thresholds_over_flower(tmp_path):
    """At sites with their default limits."""
    pytest.importorskip("flwr")
    from fedwqcp.federation.transport.flower import calibrate
    from flower.inprocess import sites as grid_of

    sites = three_sites()
    round = round_of({"agents": ",".join(sites), "alpha": 0.1, "n-classes": 3})
    cals = {name: calibration_of(round, own) for name, own in sites.items()}
    there = calibrate(grid_of(tmp_path, cals), round, timeouts=Timeouts(5.0, 1.0, 0.01)).release
    here = fw.calibrate(sites, alpha=0.1, key=round.key)
    for name, cal in cals.items():
        assert thresholds(there, name, calibration=cal) == here.threshold(name)


def in_groups(n, seed):
    """Return calibration points by sex and age, some of neither, as sets and as columns."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["f", "m", ""], size=n), rng.choice(["<50", "50+", ""], size=n)
    probs, labels = drawn(rng, n)
    return probs, labels, [f"{seed}-{i}" for i in range(n)], {"sex": sex, "age": age}


def overlapping():
    sites = {name: in_groups(n, n) for name, n in (("few", 20), ("some", 150), ("many", 700))}
    return {
        name: fw.Outputs(probs, labels, ids, groups=columns)
        for name, (probs, labels, ids, columns) in sites.items()
    }


NAMED = ("age=50+", "age=<50", "others", "sex=f", "sex=m")


@pytest.mark.parametrize("carry", [by_files, over_an_engine, over_flower, over_nvflare])
def test_overlapping_groups_are_the_same_over_every_transport(carry, tmp_path):
    sites = overlapping()
    here = fw.calibrate(sites, alpha=0.1, score="lac", by="group")
    assert (here.round.groups, here.round.max_groups) == (NAMED, 2)
    round = here.round
    there = carry(round, {n: calibration_of(round, own) for n, own in sites.items()}, tmp_path)
    assert there.outcomes == here.outcomes
    rows = [{"sex=f", "age=<50"}, {"sex=m"}, set()]
    for name, own in sites.items():
        cal = calibration_of(round, own)
        found = predictor_of(there, name, cal).thresholds_of(rows, None, len(rows))
        by_name = here.by_group(name)
        largest = [max(by_name[each] for each in row or {"others"}) for row in rows]
        assert found[:, 0].tolist() == largest


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_overlapping_groups_by_commands_under_every_sites_usual_limit(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sites = overlapping()
    (tmp_path / "roster.toml").write_text(
        'agents = ["few", "some", "many"]\nn_classes = 3\nmax_groups = 2\n'
        f"groups = {json.dumps(NAMED)}\n"
    )
    call("server", "open", "--agents", "roster.toml", "--alpha", 0.1, "--out", "round.json",
         "--by", "group")  # fmt: skip
    round = folder.read_round(tmp_path / "round.json")
    for name, n in (("few", 20), ("some", 150), ("many", 700)):
        probs, labels, ids, columns = in_groups(n, n)
        if kind == "npz":
            arrays = {f"group:{key}": column for key, column in columns.items()}
            np.savez(f"{name}.npz", probs=probs, labels=labels, ids=ids, **arrays)
        else:
            head = "p0,p1,p2,label,id,group:sex,group:age"
            rows = zip(probs.tolist(), labels, ids, columns["sex"], columns["age"], strict=True)
            lines = (f"{a!r},{b!r},{c!r},{y},{i},{s},{g}" for (a, b, c), y, i, s, g in rows)
            (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
        call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.{kind}",
             "--agent", name, "--out", f"{name}.json")  # fmt: skip
    call("server", "close", "round.json", "few.json", "some.json", "many.json", "--out", "r.json")
    there = fw.load(tmp_path / "r.json")
    here = fw.calibrate(sites, alpha=0.1, by="group", key=round.key)
    for name, own in sites.items():
        for group in NAMED:
            found = thresholds(there, name, calibration=calibration_of(round, own), group=group)
            assert found == here.threshold(name, group=group)
    call("agent", "predict", "--round", "round.json", "--release", "r.json", "--agent", "some",
         "--outputs", f"many.{kind}", "--calibration", f"some.{kind}")  # fmt: skip
