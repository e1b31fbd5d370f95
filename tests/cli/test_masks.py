"""``agent calibrate`` and ``agent predict`` on images: the same masks as in Python."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call, call_json
from fedwqcp.errors import InputError
from fedwqcp.readers import load_outputs
from refusals import raises

SEX, AGE = ("sex=f", "sex=m"), ("age=old", "age=young")
BLUR = {"age=old": 0.5}


def write_images(folder, n, seed, order=1):
    """Images of which those of the old are told less well, each with its sex and age."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for number in range(n):
        groups = [SEX[number % 2], AGE[number // 2 % 2]]
        mask = rng.random((8, 8)) < 0.3
        noise = BLUR.get(groups[1], 0.1) * rng.random((8, 8))
        probs = np.clip(np.where(mask, 1 - noise, noise), 0, 1)
        np.savez(folder / f"{number:03}.npz", probs=probs, mask=mask, group=groups[::order])
    return folder


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a round of images by sex and age, and answer it at two sites."""
    monkeypatch.chdir(tmp_path)
    names = ", ".join(f'"{name}"' for name in sorted(AGE + SEX))
    roster = f'agents = ["a", "b"]\ngroups = [{names}]\nmax_groups = 2\n'
    (tmp_path / "roster.toml").write_text(roster)
    call("server", "open", "--score", "mask", "--alpha", 0.1, "--by", "group",
         "--agents", "roster.toml", "--out", "round.json")  # fmt: skip
    for site, seed in (("a", 1), ("b", 2)):
        images = write_images(tmp_path / site, 80, seed)
        call("agent", "calibrate", "--round", "round.json", "--outputs", images, "--agent", site,
             "--out", f"{site}.json")  # fmt: skip
    call("server", "close", "round.json", "a.json", "b.json", "--out", "release.json")
    return tmp_path


def predicted(images, out="masks", round="round.json", release="release.json"):
    return call_json("agent", "predict", "--round", round, "--release", release, "--agent", "a",
                     "--calibration", "a", "--outputs", images, "--out", out)  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
def test_masks_by_files_are_those_of_predict_mask_whatever_the_order_of_groups(opened, order):
    """The largest threshold of an image's groups counts; the first of them alone once did."""
    images = write_images(opened / "new", 40, 3, order)
    found = predicted(images)
    release, cal = fw.load("release.json"), load_outputs(opened / "a")
    for file in sorted(images.iterdir()):
        with np.load(file) as image:
            group = set(image["group"].tolist())
            expected = release.predict_mask("a", image["probs"], calibration=cal, group=group)
        assert (np.load(opened / "masks" / file.name)["mask"] == expected).all()
    labelled = load_outputs(images)
    measured = release.measure("a", labelled, calibration=cal)
    assert found["measured"]["risk"] == measured.risk < 0.1
    again = fw.calibrate({s: load_outputs(opened / s) for s in "ab"}, alpha=0.1, by="group")
    assert again.by_group("a") == {
        name: release.predictor("a", cal).thresholds_of([name], None, 1).item()
        for name in again.round.groups
    }
    with raises(InputError, field=""):  # a report shows coverage
        again.report("masks.html", {"a": labelled})


def test_no_mask_is_written_before_all_images_are_sound(opened):
    images = write_images(opened / "new", 3, 3)
    one = {"probs": [[0.5, 0.9]], "group": ["sex=f", "age=old"]}
    np.savez(images / "003.npz", **one | {"probs": [[0.5, 2.0]]})
    with raises(InputError, field="probability_map") as refused:
        predicted(images)
    assert str(refused.value).split(": ")[0].endswith("new, 003")
    assert not (opened / "masks").exists()
    for read in (images, opened / "a"):
        with raises(InputError):
            predicted(images, read)
    (opened / "empty").mkdir()
    np.savez(opened / "empty" / "a.npz", mask=[[0, 0]], **one)
    assert predicted(opened / "empty")["measured"] is None, "no image has a true pixel"


def test_a_round_without_groups_reads_images_with_groups(opened):
    (opened / "two.toml").write_text('agents = ["a", "b"]\n')
    call("server", "open", "--score", "mask", "--alpha", 0.1, "--agents", "two.toml",
         "--out", "plain.json")  # fmt: skip
    for site in "ab":
        call("agent", "calibrate", "--round", "plain.json", "--outputs", site, "--agent", site,
             "--data-set", f"again-{site}", "--out", f"{site}.plain.json")  # fmt: skip
    answers = ("a.plain.json", "b.plain.json")
    call("server", "close", "plain.json", *answers, "--out", "plain.release.json")
    new, plain = write_images(opened / "new", 8, 3), ("plain.json", "plain.release.json")
    assert predicted(new, "masks", *plain)["n"] == 8
