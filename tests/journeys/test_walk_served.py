"""Walk: a round by files, a predictor, no more calibration data; a service, a graph and JavaScript.

Every step is a process of its own, and all give the sets that the site's own data give.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call_process
from serve.cases import CLASSES, arrays, classifier, regressor, several

CONSUMER = Path(fw.__file__).parent / "serve" / "predictor.js"
SITES = ("st-mary", "köln")
KINDS = {
    "auto": ["auto"],
    "split-cp": ["split-cp"],
    "fedwq-cp": ["fedwq-cp"],
    "fedls-cp": ["fedls-cp"],
    "guarded-median-cp": ["guarded-median-cp"],
    "fcp": ["fcp", "--setting", "sketch=order"],
    "fed-crc": ["fed-crc", "--score", "multi-label", "--setting", "min_gap=5"],
    "cqr": ["auto", "--score", "cqr"],
    "by-label": ["auto", "--by", "label"],
    "by-group": ["auto", "--by", "group", "--group", "f", "--group", "m"],
    "three-levels": ["auto", "--alpha", 0.3, "--alpha", 0.4],
}

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
session = onnxruntime.InferenceSession("sets.onnx", providers=["CPUExecutionProvider"])
feed = {name: np.array(part) for name, part in json.load(sys.stdin).items()}
found = [part for part in session.run(None, feed) if part.dtype != np.int64]
print(json.dumps([part.astype(float).tolist() for part in found]))
"""
SCRIPT = """
const fs = require("fs"), fedwqcp = require(process.argv[1]);
const own = fedwqcp.read(fs.readFileSync("own.json", "utf8"));
const { outputs, ids, groups, alpha } = JSON.parse(fs.readFileSync(0, "utf8"));
const found = outputs.map((row, at) => {
  const options = { id: ids?.[at], group: groups?.[at], alpha };
  return own.score.name === "cqr" ? fedwqcp.predictInterval(own, row, options)
    : fedwqcp.predictSet(own, row, options).map(Number);
});
const ends = [0, 1].map((end) => found.map((row) => row[end]));
console.log(JSON.stringify(own.score.name === "cqr" ? ends : [found]));
"""


def process(folder, *words, said):
    """Run a program in a folder; return the lines of JSON that it prints."""
    done = subprocess.run(
        [*map(str, words)], cwd=folder, input=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kept(path, data):
    """Write model outputs as a hospital has them."""
    parts = {"outputs": data.values, "labels": data.labels, "ids": data.ids, "groups": data.groups}
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_serves_without_its_calibration_data(kind, tmp_path):
    pytest.importorskip("onnxruntime")
    node = shutil.which("node") or pytest.skip("needs node")
    make = {"cqr": regressor, "fed-crc": several}.get(kind, classifier)
    options = {"groups": True} if kind == "by-group" else {}
    rng, server, home = np.random.default_rng(5), tmp_path, tmp_path / "home"
    home.mkdir()

    # a round by files, and a predictor of one site
    classes = "" if kind in ("cqr", "fed-crc") else f"classes = {json.dumps(CLASSES)}"
    (server / "roster.toml").write_text(f"agents = {json.dumps(SITES)}\n{classes}\n")
    terms = ("server", "open", "--alpha", 0.2, "--agents", "roster.toml", "--method")
    call_process(server, *terms, *KINDS[kind])
    cal = {site: make(rng, 80, **options) for site in SITES}
    for site in SITES:
        kept(server / f"{site}.npz", cal[site])
        if kind != "split-cp":
            words = ("--round", "round.json", "--outputs", f"{site}.npz", "--agent", site)
            call_process(server, "agent", "calibrate", *words)
    answers = [] if kind == "split-cp" else [f"{site}.json" for site in SITES]
    call_process(server, "server", "close", "round.json", *answers)
    again = None if kind in FROM_RELEASE else cal["köln"]
    given = () if again is None else ("--calibration", "köln.npz")
    words = ("--release", "release.json", "--round", "round.json", "--agent", "köln", *given)
    bound = ("--model-name", "net 3.1", "--data-period", "2026-01 to 2026-06")
    call_process(server, "agent", "predictor", *words, *bound, "--out", "home/own.json")

    # what the site's own data give; then they, the release and all else are deleted
    release, new, wanted = fw.load(server / "release.json"), make(rng, 40, **options), {}
    kept(home / "new.npz", new)
    call = release.predict_interval if kind == "cqr" else release.predict_set
    for alpha in release.round.alphas:
        found = arrays(call("köln", new, alpha=alpha, calibration=again))
        wanted[alpha] = [part.astype(float).tolist() for part in found]
    for file in filter(Path.is_file, server.rglob("*")):
        if file.parent != home:
            file.unlink()

    own, asked = fw.load(home / "own.json"), {"outputs": new.values.tolist()}
    asked |= {} if new.ids is None else {"ids": list(new.ids)}
    asked |= {} if new.groups is None else {"groups": list(new.groups)}
    for alpha, sets in wanted.items():
        calls = ({**asked, "alpha": alpha, "model": name} for name in ("net 3.1", "net 3.2"))
        said = "".join(json.dumps(each) + "\n" for each in calls)
        answered = process(home, sys.executable, "-c", SERVICE, said=said)
        assert answered == [sets, {"refused": "model"}]
        graph = ("predictor", "onnx", "own.json", "sets.onnx", "--double")
        call_process(home, *graph, "--alpha", alpha)
        feed = {"outputs": asked["outputs"]}
        if getattr(own.score_object, "randomized", False):
            feed["u"] = fw.uniforms(own.key, new.ids).tolist()
        if own.groups:
            feed["group"] = [own.groups.index(name) for name in new.groups]
        assert process(home, sys.executable, "-c", GRAPH, said=json.dumps(feed)) == [sets]
        said = json.dumps({**asked, "alpha": alpha})
        assert process(home, node, "-e", SCRIPT, CONSUMER, said=said) == [sets]

    # the command line and a monitor take it too
    words = ("agent", "predict", "--predictor", "own.json", "--outputs", "new.npz", "--alpha", 0.2)
    call_process(home, *words, "--model-name", "net 3.1", "--out", "sets.csv")
    with open(home / "sets.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    if kind == "cqr":
        assert [float(row["lower"]) for row in rows] == wanted[0.2][0]
    else:
        assert [int(row["size"]) for row in rows] == [sum(row) for row in wanted[0.2][0]]
    call_process(home, *words, "--model-name", "net 3.2", "--out", "other.csv", code=2)
    call_process(home, "monitor", "open", "m.json", "--predictor", "own.json", "--alpha", 0.2)
