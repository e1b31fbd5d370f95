"""Walk: a round by files, a predictor, no more calibration data; a service, a graph and JavaScript.

Every step is a process of its own, and all give the sets that the site's own data give.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from command_line import call_process
from serve.cases import CLASSES, arrays, classifier, regressor, several

CONSUMER = Path(fw.__file__).parent / "serve" / "predictor.js"
SITES, ALPHAS = ("st-mary", "köln"), (0.2, 0.3, 0.4)
METHODS = {
    "auto": ["auto"],
    "split-cp": ["split-cp"],
    "fedwq-cp": ["fedwq-cp"],
    "fedls-cp": ["fedls-cp", "--setting", "min_gap=10"],
    "guarded-median-cp": ["guarded-median-cp"],
    "fcp": ["fcp", "--setting", "sketch=order"],
    "fed-crc": ["fed-crc", "--score", "multi-label", "--setting", "min_gap=5"],
    "cqr": ["auto", "--score", "cqr"],
}
PARTS = {
    "": [],
    "by label": ["--by", "label"],
    "by group": ["--by", "group"],
}
NOT_BY = {"fed-crc": ("by label",), "cqr": ("by label",)}
"""Sets of several labels and intervals have no threshold by label."""

FROM_RELEASE = ("fedwq-cp", "fedls-cp", "fcp", "fed-crc")
"""Their releases hold the thresholds; all others need the site's own data, once."""

SERVICE = """
import json, sys
import fedwqcp as fw
own = fw.load("own.json")
predict = own.predict_interval if own.score.name == "cqr" else own.predict_set
for line in sys.stdin:
    asked = json.loads(line)
    try:
        found = predict(asked.pop("outputs"), **asked)
    except fw.errors.InputError as error:
        print(json.dumps({"refused": error.field}))
    else:
        ends = ["lower", "upper"] if own.score.name == "cqr" else ["mask"]
        print(json.dumps([getattr(found, end).astype(float).tolist() for end in ends]))
"""
GRAPH = """
import json, sys
import numpy as np, onnxruntime
feed = {name: np.array(part) for name, part in json.load(sys.stdin).items()}
for path in sys.argv[1:]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = [part for part in session.run(None, feed) if part.dtype != np.int64]
    print(json.dumps([part.astype(float).tolist() for part in found]))
"""
SCRIPT = """
const fs = require("fs"), fedwqcp = require(process.argv[1]);
const own = fedwqcp.read(fs.readFileSync("own.json", "utf8"));
for (const line of fs.readFileSync(0, "utf8").trim().split("\\n")) {
  const { outputs, ids, groups, alpha } = JSON.parse(line);
  const found = outputs.map((row, at) => {
    const options = { id: ids?.[at], group: groups?.[at], alpha };
    return own.score.name === "cqr" ? fedwqcp.predictInterval(own, row, options)
      : fedwqcp.predictSet(own, row, options).map(Number);
  });
  const ends = [0, 1].map((end) => found.map((row) => row[end]));
  console.log(JSON.stringify(own.score.name === "cqr" ? ends : [found]));
}
"""


def process(folder, *words, said):
    """Run a program in a folder; return the lines of JSON that it prints."""
    done = subprocess.run(
        [*map(str, words)], cwd=folder, input=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(values):
    """Write values as lines of JSON."""
    return "".join(json.dumps(value) + "\n" for value in values)


def kept(path, data):
    """Write model outputs as a hospital has them."""
    parts = {"outputs": data.values, "labels": data.labels, "ids": data.ids, "groups": data.groups}
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})


def round_by_files(folder, method, part, cal):
    """Hold a round, and write the predictor of one site."""
    classes = "" if method in ("cqr", "fed-crc") else f"classes = {json.dumps(CLASSES)}"
    (folder / "roster.toml").write_text(
        f"agents = {json.dumps(SITES)}\n{classes}\ngroups = ['f', 'm']\n"
    )
    levels = [word for alpha in ALPHAS for word in ("--alpha", alpha)]
    terms = ("--agents", "roster.toml", *levels, "--method", *METHODS[method], *PARTS[part])
    call_process(folder, "server", "open", *terms)
    for site in SITES:
        kept(folder / f"{site}.npz", cal[site])
        if method != "split-cp":
            words = ("--round", "round.json", "--outputs", f"{site}.npz", "--agent", site)
            call_process(folder, "agent", "calibrate", *words)
    answers = [] if method == "split-cp" else [f"{site}.json" for site in SITES]
    call_process(folder, "server", "close", "round.json", *answers)
    given = () if method in FROM_RELEASE else ("--calibration", "köln.npz")
    words = ("--release", "release.json", "--round", "round.json", "--agent", "köln", *given)
    (folder / "home" / "net").write_text("3.1")
    bound = ("--model", "home/net", "--valid-until", "2099-12-31")
    call_process(folder, "agent", "predictor", *words, *bound, "--out", "home/own.json")


@pytest.mark.parametrize(
    ("method", "part"),
    [(name, part) for name in METHODS for part in PARTS if part not in NOT_BY.get(name, ())],
)
def test_a_site_serves_without_its_calibration_data(method, part, tmp_path, node):
    pytest.importorskip("onnxruntime")
    make = {"cqr": regressor, "fed-crc": several}.get(method, classifier)
    rng, home = np.random.default_rng(5), tmp_path / "home"
    home.mkdir()
    drawn = [make(rng, n) for n in (150, 150, 40)]
    if part == "by group":
        drawn = [replace(rows, groups=rng.choice(["f", "m"], len(rows.labels))) for rows in drawn]
    *both, new = drawn
    cal = dict(zip(SITES, both, strict=True))
    round_by_files(tmp_path, method, part, cal)

    # what the site's own data give; then they, the release and all else are deleted
    release = fw.load(tmp_path / "release.json")
    kept(home / "new.npz", new)
    call = release.predict_interval if method == "cqr" else release.predict_set
    again = None if method in FROM_RELEASE else cal["köln"]
    found = [call("köln", new, alpha=alpha, calibration=again) for alpha in ALPHAS]
    wanted = [[part.astype(float).tolist() for part in arrays(each)] for each in found]
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        if file.parent != home:
            file.unlink()

    # a service, graphs and JavaScript give the same
    own, asked = fw.load(home / "own.json"), {"outputs": new.values.tolist()}
    asked |= {} if new.ids is None else {"ids": list(new.ids)}
    asked |= {} if new.groups is None else {"groups": list(new.groups)}
    calls = [{**asked, "alpha": alpha} for alpha in ALPHAS]
    net = own.provenance["model"]
    bound = [{**each, "model": net} for each in calls] + [{**calls[0], "model": "net 3.2"}]
    answered = process(home, sys.executable, "-c", SERVICE, said=lines(bound))
    assert answered == [*wanted, {"refused": "model"}]
    assert process(home, node, "-e", SCRIPT, CONSUMER, said=lines(calls)) == wanted
    feed, graphs = {"outputs": asked["outputs"]}, [f"sets-{alpha}.onnx" for alpha in ALPHAS]
    if getattr(own.score_object, "randomized", False):
        feed["u"] = fw.uniforms(own.key, new.ids).tolist()
    if own.groups:
        feed["group"] = [[own.groups.index(name)] for name in new.groups]
    for alpha, path in zip(ALPHAS, graphs, strict=True):
        own.to_onnx(home / path, alpha=alpha, dtype="float64")
    assert process(home, sys.executable, "-c", GRAPH, *graphs, said=lines([feed])) == wanted

    # the command line and a monitor take it too
    words = ("agent", "predict", "--predictor", "own.json", "--outputs", "new.npz", "--alpha", 0.2)
    call_process(home, *words, "--model", "net", "--out", "sets.csv")
    with open(home / "sets.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    if method == "cqr":
        assert [float(row["lower"]) for row in rows] == wanted[0][0]
    else:
        assert [int(row["size"]) for row in rows] == [sum(row) for row in wanted[0][0]]
    call_process(home, *words, "--model", "own.json", "--out", "other.csv", code=2)
    old = own.provenance | {"valid_until": "2020-01-31"}
    replace(own, provenance=old).save(home / "old.json")
    said = call_process(home, *words, "--predictor", "old.json", "--out", "other.csv")
    assert "2020-01-31" in said
    assert ".py" not in said
    watch = ("monitor", "open", "m.json", "--predictor", "own.json", "--alpha", 0.2)
    call_process(home, *watch, code=2 if method == "fed-crc" else 0)  # it watches coverage
