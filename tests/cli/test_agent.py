"""``agent calibrate`` and ``agent predict``: what leaves, what stays, what a release may say."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest

from command_line import OPEN, call, call_json, call_process, refusal
from fedwqcp import metrics
from fedwqcp.cli.agent import _missed
from fedwqcp.cli.output import exit_code, said_by
from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Answer, LocalQuantile, Round
from refusals import raises
from worked import drawn

# ---- agent calibrate: what leaves is printed before it is sent


@pytest.fixture
def one_agent(tmp_path, monkeypatch):
    """A folder with the calibration outputs of one agent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.toml").write_text('agents = ["st-mary"]\nn_classes = 2\n')
    half = np.linspace(0.1, 0.9, 40)
    np.savez("cal.npz", probs=np.stack([half, 1 - half], axis=1), labels=np.arange(40) % 2)
    return tmp_path


def answer(method):
    """Open a round, answer it, and return what it prints."""
    for command in (
        ["server", "open", "--alpha", "0.1", "--agents", "roster.toml", "--method", method],
        ["agent", "calibrate", "--round", "round.json", "--outputs", "cal.npz", "--max-share", "1"],
    ):
        said = call(*command)
    return said


# ---- agent predict: what an agent takes from a release, and what it takes from its own data


SITES = ("st-mary", "lakeside", "north")


def refused(error, code):
    """Tell whether a command was refused with an exit code."""
    assert isinstance(error, FedwqcpError), error
    return exit_code(error) == code


@pytest.fixture
def three_sites(tmp_path, monkeypatch):
    """Outputs of three sites, and a roster."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in (*SITES, "new"):
        probs = rng.dirichlet([1, 2, 3], size=60)
        labels = rng.integers(0, 3, size=60)
        np.savez(f"{name}.npz", probs=probs, labels=labels)
        np.save(f"{name}.npy", probs)
        np.save(f"{name}-y.npy", labels)
    (tmp_path / "roster.toml").write_text(f"agents = {json.dumps(SITES)}\nn_classes = 3\n")
    return tmp_path


def released(method, *more, out="release.json", round="round.json"):
    """Hold a round and return the text of its release."""
    call("server", "open", "--method", method, "--alpha", 0.1, "--score", "lac", *more,
         "--agents", "roster.toml", "--out", round)  # fmt: skip
    answers = []
    for name in SITES if method != "split-cp" else ():
        answers.append(f"{round}.{name}.json")
        call("agent", "calibrate", "--round", round, "--outputs", f"{name}.npz", "--agent", name,
             "--out", answers[-1])  # fmt: skip
    call("server", "close", round, *answers, "--out", out)
    with open(out) as file:
        return file.read()


def predict(*more, release="release.json", outputs="new.npz"):
    """Predict as st-mary; return what is printed, or the error."""
    try:
        return call("agent", "predict", "--release", release, "--outputs", outputs,
                    "--agent", "st-mary", *more)  # fmt: skip
    except FedwqcpError as error:
        return error


def forge(text, old, new):
    """Write a release with a change."""
    assert text.count(old) == 1, text
    with open("release.json", "w") as file:
        file.write(text.replace(old, new))


def test_no_command_replaces_a_file_that_it_reads(three_sites):
    released("fedwq-cp")
    before = {path.name: path.read_bytes() for path in three_sites.iterdir() if path.is_file()}
    more = ("--round", "round.json", "--calibration", "st-mary.npz")
    for name in ("release.json", "new.npz", "./new.npz", "round.json", "st-mary.npz"):
        assert refused(predict(*more, "--out", name), 2)
    for source, out in (("release.json", "release.json"), (".", "round.record.json")):
        with pytest.raises(InputError):
            call("report", source, "-o", out)
    with pytest.raises(InputError):
        call("server", "close", "round.json", *(f"round.json.{name}.json" for name in SITES),
             "--out", "round.record.json")  # fmt: skip
    after = {path.name: path.read_bytes() for path in three_sites.iterdir() if path.is_file()}
    assert after == before


def test_empty_sets_are_counted_and_can_be_forbidden(three_sites):
    for site in SITES:
        probs = np.load(f"{site}.npy")
        np.savez(f"{site}.npz", probs=probs, labels=probs.argmax(axis=1))
    released("fedwq-cp", "--alpha", 0.5)
    assert json.loads(predict("--json", "--alpha", 0.5))["empty"] > 0
    assert json.loads(predict("--json", "--alpha", 0.5, "--no-allow-empty"))["empty"] == 0
    call(*OPEN, "--alpha", 0.4, "--agents", "roster.toml", "--no-allow-empty", "--out", "f.json")
    assert decode(Path("f.json").read_bytes(), Round).rule == "leq_top1"


def test_test_rows_that_also_calibrated_are_counted(three_sites):
    released("fedwq-cp")
    own = ("--calibration", "st-mary.npz")
    assert "calibration row" not in predict(*own)
    predict(*own, "--outputs", "st-mary.npz")
    printed = json.loads(predict(*own, "--outputs", "st-mary.npz", "--json"))
    assert [f["rows"] for f in printed["findings"] if f["code"] == "calibration-rows"] == [60]


def test_errors_about_rows_and_columns_name_the_file(three_sites):
    released("split-cp")
    calibrate = ("agent", "calibrate", "--round", "round.json", "--agent", "st-mary", "--outputs")
    for name, text in {
        "gap.csv": "p1,p2,p3,label\n0.2,0.3,0.5,1\n",
        "logits.csv": "p0,p1,p2,label\n0.2,0.3,0.5,1\n-2,3,5,1\n",
        "two.csv": "p0,p1,label\n0.2,0.8,1\n",
        "label.csv": "p0,p1,p2,label\n0.2,0.3,0.5,2\n0.2,0.3,0.5,7\n",
    }.items():
        Path(name).write_text(text)
        assert refusal(*calibrate, name, code=2).startswith(f"{name}: ")
        said = [predict("--calibration", "st-mary.npz", "--outputs", name),
                predict("--calibration", name)]  # fmt: skip
        assert all(said_by(error).startswith(f"{name}: ") for error in said)


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp"])
def test_an_own_threshold_comes_from_the_agents_data_alone(three_sites, method):
    text = released(method)
    assert refused(predict(), 2)
    assert "sets.csv" in predict("--calibration", "st-mary.npz")
    forge(text, '"outcomes":', '"local":{"st-mary":[0.01]},"outcomes":')
    assert refused(predict(), 2)
    whole = json.loads(text)
    whole["outcomes"] = [{"kind": "shared-threshold", "value": 0.01}]
    (three_sites / "release.json").write_text(json.dumps(whole))
    for more in ((), ("--calibration", "st-mary.npz")):
        assert refused(predict(*more), 2)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("method", ["auto", "split-cp"])
def test_other_data_than_those_that_answered_are_refused(three_sites, monkeypatch, method, large):
    released(method)
    monkeypatch.setattr("fedwqcp.readers.batches.LARGE", 0 if large else inf)
    resolve = ("agent", "predictor", "--release", "release.json", "--agent", "st-mary")
    call(*resolve, "--calibration", "st-mary.npz", code=2)
    with np.load("lakeside.npz") as rows:
        np.savez("fewer.npz", **{name: rows[name][:40] for name in rows})
    own = ("--round", "round.json", "--calibration")
    call(*resolve, *own, "st-mary.npz")
    if method == "auto":
        with pytest.raises(InputError):
            call(*resolve, *own, "fewer.npz")
        assert refused(predict(*own, "fewer.npz"), 2)
        page = ("report", "release.json", "--agent", "st-mary", "--outputs", "new.npz")
        call(*page, "--calibration", "st-mary.npz")
        with pytest.raises(InputError):
            call(*page, "--calibration", "fewer.npz")


def test_a_predictor_is_of_its_agent_alone(three_sites):
    released("auto")
    own = ("--release", "release.json", "--round", "round.json", "--calibration", "st-mary.npz")
    call("agent", "predictor", *own, "--agent", "st-mary", "--out", "p.json")
    use = ("agent", "predict", "--predictor", "p.json", "--outputs", "new.npz", "--agent")
    with pytest.raises(InputError) as error:
        call(*use, "lakeside")
    assert error.value.field == "--agent"
    call(*use, "st-mary")


def test_sets_of_all_labels_are_found_at_every_step(three_sites):
    """A model that gives the true class no probability has the largest score for a threshold."""
    with np.load("st-mary.npz") as rows:
        probs, labels = rows["probs"].copy(), rows["labels"]
    probs[np.arange(21), labels[:21]] = 0
    probs /= probs.sum(axis=1, keepdims=True)
    np.savez("st-mary.npz", probs=probs, labels=labels)
    released("auto")
    own = ("--round", "round.json", "--calibration", "st-mary.npz")
    resolve = ("agent", "predictor", "--release", "release.json", "--agent", "st-mary")
    steps = [
        call_json("agent", "calibrate", "--round", "round.json", "--outputs", "st-mary.npz",
                  "--agent", "st-mary", "--out", "again.json"),
        call_json(*resolve, *own, "--out", "p.json"),
        json.loads(predict(*own, "--json")),
    ]  # fmt: skip
    for facts in steps:
        (found,) = (each for each in facts["findings"] if each["code"] == "full-sets")
        assert (found["zeros"], found["n"]) == (21, 60)
    alone = call_json("agent", "predict", "--predictor", "p.json", "--outputs", "new.npz")
    assert "full-sets" in [each["code"] for each in alone["findings"]]
    shown = call_json("report", "release.json", "--agent", "st-mary", "--outputs", "new.npz",
                      "--calibration", "st-mary.npz")  # fmt: skip
    assert "full-sets" in [each["code"] for each in shown["notes"]]


def test_the_finding_says_which_rows_have_no_ids(three_sites):
    with np.load("st-mary.npz") as rows:
        np.savez("ids.npz", ids=np.arange(60), **rows)
    call("server", "open", "--method", "auto", "--alpha", 0.1, "--agents", "roster.toml")
    call("agent", "calibrate", "--round", "round.json", "--outputs", "ids.npz", "--agent",
         "st-mary", "--out", "a.json")  # fmt: skip
    for name in SITES[1:]:
        call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz", "--agent",
             name, "--out", f"{name}-a.json")  # fmt: skip
    call("server", "close", "round.json", "a.json", "lakeside-a.json", "north-a.json",
         "--out", "release.json")  # fmt: skip
    facts = json.loads(predict("--round", "round.json", "--calibration", "ids.npz", "--json"))
    (found,) = (each for each in facts["findings"] if each["code"] == "no-ids")
    assert (found["rows"], found["others"]) == ("test", True)


def test_a_coverage_is_judged_by_the_level_proved():
    rate = metrics.AgentMetrics(
        n=400, hits=342, agent="a", size=1.0, empty=0.0, full=0.0, infinite=0.0
    )
    assert 6 / 7 < rate.high < 0.9
    assert not list(_missed([rate], 0.1, {None: 6 / 7}, n=6))
    (found,) = _missed([rate], 0.05, {None: 0.92}, n=12)
    assert (found["level"], found["asked"]) == (0.92, 0.95)
    (found,) = _missed([rate], 0.1, {None: None}, n=6)
    assert found["level"] == 0.9


def test_a_release_must_be_of_the_terms_that_were_answered(three_sites):
    text = released("fedwq-cp")
    assert "60 sets" in predict("--round", "round.json")
    forge(text, '"alphas":[0.1]', '"alphas":[0.5]')
    assert refused(predict("--round", "round.json"), 3)
    words = ("agent", "predict", "--release", "release.json", "--outputs", "new.npz", "--agent",
             "st-mary", "--out", "forged.csv")  # fmt: skip
    for more in (
        (),
        ("--alpha", 0.5),
        ("--require", "fedwq-cp"),
        ("--require", "fedwq-cp", "--alpha", 0.1),
        ("--require", "auto", "--alpha", 0.5),
    ):
        with pytest.raises(InputError):
            call(*words, *more, plain=False)
    assert not Path("forged.csv").exists()
    other = json.loads(text)
    other["round"]["method"] = {"name": "fedavgq-cp", "settings": {}}
    (three_sites / "release.json").write_text(json.dumps(other))
    assert refused(predict("--round", "round.json"), 3)
    released("fedwq-cp", out="other.json", round="other-round.json")
    assert refused(predict("--round", "round.json", release="other.json"), 3)
    assert refused(predict(release="round.json.st-mary.json"), 2)
    assert refused(predict("--round", "release.json", release="other.json"), 2)


def test_calibration_labels_may_lie_in_a_file_of_their_own(three_sites):
    released("guarded-median-cp")
    assert refused(predict("--calibration", "st-mary.npy"), 2)
    assert refused(predict("--calibration-labels", "new-y.npy"), 2)
    predict("--calibration", "st-mary.npz", "--out", "one.csv")
    predict("--calibration", "st-mary.npy", "--calibration-labels", "st-mary-y.npy")
    assert Path("one.csv").read_text() == Path("sets.csv").read_text()


def name_classes(*names):
    """Let the roster name the classes."""
    with open("roster.toml", "a") as file:
        file.write(f"classes = {json.dumps(names)}\n")


def test_classes_of_the_roster_and_coverage_by_name(three_sites):
    roster = Path("roster.toml").read_text()
    name_classes("melanoma", "nevus", "skin tag")
    said = released("fedwq-cp", "--by", "label")
    assert '"classes":["melanoma","nevus","skin tag"]' in said
    predict()
    with raises(InputError, field="classes"):
        call(*OPEN, "--alpha", 0.1, "--agents", "roster.toml", "--score", "cqr",
             "--out", "other.json")  # fmt: skip
    Path("roster.toml").write_text(roster)
    name_classes("a", "b")
    with raises(InputError, field="n_classes"):
        call(*OPEN, "--alpha", 0.1, "--agents", "roster.toml")


@pytest.mark.parametrize("large", [False, True])
def test_columns_by_name_are_judged_in_the_round_s_order(one_agent, monkeypatch, large):
    monkeypatch.setattr("fedwqcp.readers.batches.LARGE", 0 if large else inf)
    name_classes("nevus", "melanoma")
    call(*OPEN, "--alpha", 0.1, "--agents", "roster.toml", "--out", "round.json")
    rows = [f"r{i},0.9,0.1,melanoma\nq{i},0.1,0.9,nevus" for i in range(40)]
    Path("cal.csv").write_text("\n".join(["id,melanoma,nevus,label", *rows]))
    told = call_json("agent", "calibrate", "--round", "round.json", "--outputs", "cal.csv")
    assert "labels-mismatch" not in [each["code"] for each in told["findings"]]


# ---- agent calibrate --privacy-budget: kept beside the outputs from one process to the next


def run_there(folder, *arguments, code=0):
    """Run a command as a process of its own; return what it prints on one line."""
    return " ".join(call_process(folder, *arguments, code=code).split())


@pytest.fixture
def rounds(tmp_path):
    """A roster, outputs, and two private rounds."""
    (tmp_path / "roster.toml").write_text('agents = ["st-mary"]\nn_classes = 3\n')
    rng = np.random.default_rng(2)
    probs, labels = drawn(rng, 600)
    np.savez(tmp_path / "cal.npz", probs=probs, labels=labels)
    for name in ("one", "two"):
        run_there(tmp_path, "server", "open", "--method", "private-fedwq-cp", "--score", "aps",
                "--setting", "epsilon=0.75", "--alpha", "0.1", "--agents", "roster.toml",
                "--out", f"{name}.json")  # fmt: skip
    return tmp_path


def calibrate_privately(rounds, name, *more, code=0):
    return run_there(rounds, "agent", "calibrate", "--round", f"{name}.json", "--outputs",
                     "cal.npz", "--out", f"answer-{name}.json", *more, code=code)  # fmt: skip


def test_a_budget_lasts_from_process_to_process(rounds):
    said = calibrate_privately(rounds, "one", "--privacy-budget", "1")
    assert "0.25" in said
    assert '"epsilon":0.75' in said
    first = (rounds / "answer-one.json").read_bytes()
    (rounds / "answer-one.json").unlink()
    assert "0.25" in calibrate_privately(rounds, "one", "--privacy-budget", "1")
    assert (rounds / "answer-one.json").read_bytes() == first
    refused = calibrate_privately(rounds, "two", "--privacy-budget", "1", code=2)
    assert "0.75" in refused
    assert "0.25" in refused
    assert not (rounds / "answer-two.json").exists()
    assert len(list((rounds / "cal.npz.privacy").glob("0*"))) == 1
    forgotten = calibrate_privately(rounds, "two", code=2)
    assert "cal.npz.privacy" in forgotten


def test_a_link_to_the_outputs_has_their_budget(rounds):
    calibrate_privately(rounds, "one", "--privacy-budget", "1")
    (rounds / "latest.npz").symlink_to("cal.npz")
    linked = ("--outputs", "latest.npz")
    assert "0.25" in calibrate_privately(rounds, "two", *linked, "--privacy-budget", "1", code=2)
    assert "1.0" in calibrate_privately(rounds, "two", *linked, "--privacy-budget", "1", code=2)
    assert "cal.npz.privacy" in calibrate_privately(rounds, "two", *linked, code=2)


def findings(*words):
    """Return the findings of a command, by code."""
    return {finding["code"]: finding for finding in call_json(*words)["findings"]}


CALIBRATE = ("agent", "calibrate", "--round", "round.json", "--outputs", "cal.npz")


@pytest.mark.parametrize("overflow", ["propagate", "exclude", "clip"])
def test_an_agent_with_too_few_points_hears_what_becomes_of_its_threshold(one_agent, overflow):
    call(*OPEN, "--alpha", 0.01, "--agents", "roster.toml", "--setting",
         f"overflow={overflow}")  # fmt: skip
    found = findings(*CALIBRATE)["too-few-points"]
    assert (found["overflow"], found["needed"]) == (overflow, 99)
    threshold = decode(Path("st-mary.json").read_bytes(), Answer, (LocalQuantile,)).answers[0]
    assert (threshold.threshold == inf) == (overflow != "clip")


@pytest.mark.parametrize(
    ("method", "gets"), [("fedwq-cp", "shared"), ("guarded-median-cp", "own"), ("auto", "borrows")]
)
def test_an_agent_without_a_class_hears_which_and_what_it_gets(one_agent, method, gets):
    np.savez("cal.npz", probs=np.tile([0.9, 0.1], (40, 1)), labels=np.zeros(40, int))
    call("server", "open", "--alpha", 0.1, "--agents", "roster.toml", "--method", method,
         "--by", "label")  # fmt: skip
    found = findings(*CALIBRATE)["no-points"]
    assert (found["part"], found["gets"]) == ("1", gets)


def test_a_site_that_took_no_part_predicts_by_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    names = [f"s{k}" for k in range(10)]
    Path("roster.toml").write_text(f"agents = {json.dumps(names)}\nn_classes = 3\n")
    for name in (*names, "new"):
        probs = rng.dirichlet([1, 1, 1], size=40)
        np.savez(f"{name}.npz", probs=probs, labels=[rng.choice(3, p=p) for p in probs])
    call("server", "open", "--agents", "roster.toml", "--method", "new-agent-cp", "--score", "lac",
         "--alpha", 0.1)  # fmt: skip
    for name in names:
        call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
             "--agent", name, "--max-share", 1)  # fmt: skip
    call("server", "close", "round.json", *(f"{name}.json" for name in names))
    words = ("agent", "predict", "--release", "release.json", "--outputs", "new.npz")
    named = ("--require", "new-agent-cp", "--alpha", 0.1)
    call(*words, "--new-site", *named, "--out", "new.csv")
    call(*words, "--round", "round.json", "--agent", "s3", "--out", "as-s3.csv")
    assert Path("new.csv").read_text() == Path("as-s3.csv").read_text()
    for more in ((), named[:2], named[2:], ("--require", "fedwq-cp", *named[2:])):
        refusal(*words, "--new-site", *more, code=2)
    refusal(*words, "--new-site", *named, "--agent", "s3", code=2)
    refusal(*words, *named, "--agent", "new", code=2)
    monkeypatch.setenv("FEDWQCP_AGENT", "s3")  # as a site sets it once and for all
    refusal(*words, "--new-site", *named, code=2)


def test_a_site_can_insist_on_a_method(one_agent):
    call(*OPEN, "--alpha", 0.1, "--agents", "roster.toml", "--out", "other.json")
    with raises(InputError, field="--require"):
        call("agent", "calibrate", "--round", "other.json", "--outputs", "cal.npz", "--require",
             "auto")  # fmt: skip


@pytest.mark.parametrize(("classes", "name"), [((), "2"), (("a", "b", "tag"), "tag")])
def test_the_classes_with_an_infinite_threshold_are_named(three_sites, classes, name):
    for site in SITES:
        with np.load(f"{site}.npz") as data:
            parts, rows = dict(data), data["labels"] < 2
        np.savez(f"{site}.npz", **{key: part[rows] for key, part in parts.items()})
    if classes:
        name_classes(*classes)
    released("fedwq-cp", "--by", "label")
    words = ("agent", "predict", "--release", "release.json", "--outputs", "new.npz")
    assert findings(*words, "--agent", "st-mary")["infinite-threshold"]["parts"] == [name]


def test_what_is_proved_within_each_group_stands_beside_its_number_of_points(tmp_path, monkeypatch):
    """In the printed release and JSON of the server, at a site for its own, in no released file."""
    monkeypatch.chdir(tmp_path)
    half = np.linspace(0.1, 0.9, 40)
    for name, women in (("a", 4), ("b", 30)):
        sex = np.repeat(["f", "m"], [women, 40 - women])
        probs = np.stack([half, 1 - half], axis=1)
        np.savez(f"{name}.npz", probs=probs, labels=np.arange(40) % 2, groups=sex)
    roster = 'agents = ["a", "b"]\nn_classes = 2\ngroups = ["f", "m"]\n'
    (tmp_path / "roster.toml").write_text(roster)
    opening = ("--agents", "roster.toml", "--method", "auto", "--alpha", "0.1", "--by", "group")
    call("server", "open", *opening)
    for name in "ab":
        call(
            "agent",
            "calibrate",
            "--round",
            "round.json",
            "--outputs",
            f"{name}.npz",
            "--agent",
            name,
        )
    closed = call_json("server", "close", "round.json", ".")
    first, second = closed["agents"]
    assert first["within"] == [
        {"part": "f", "n": 4, "proved": 0.8},
        {"part": "m", "n": 36, "proved": 0.9},
    ]
    assert [part["n"] for part in second["within"]] == [30, 10]
    own = ("--agent", "a", "--outputs", "a.npz", "--calibration", "a.npz", "--round", "round.json")
    predicted = call_json("agent", "predict", "--release", "release.json", *own)
    assert predicted["within"] == first["within"]
    assert '"n":' not in Path("release.json").read_text()
