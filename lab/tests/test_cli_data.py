import json

import pytest
from typer.testing import CliRunner

from fedwqcp.errors import InputError
from fedwqcp_lab.cli import data_app as app
from fedwqcp_lab.datasets import catalog, files
from made_data import arrays, entry, npz, remote


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Give a data folder with a made MNIST that can also be downloaded."""
    made = arrays()
    body = npz(made)
    (tmp_path / "there.npz").write_bytes(body)
    mnist = entry(
        "mnist", made, remote=(remote("mnist.npz", body, (tmp_path / "there.npz").as_uri()),)
    )
    others = tuple(catalog.find(name) for name in ("bloodmnist", "friedman"))
    monkeypatch.setattr(catalog, "CATALOG", (mnist, *others))
    monkeypatch.setattr(files, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist.npz").write_bytes(body)
    return tmp_path / "data"


def run(*words, code=0):
    """Run a command and return what it printed."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_list_says_where_each_is(shelf):
    said = " ".join(run("list", "--data", shelf).split())
    assert "classification, 10 classes" in said
    assert "no; fedwqcp-lab data fetch bloodmnist" in said
    rows = json.loads(run("list", "--data", shelf, "--json"))["datasets"]
    assert {row["name"]: row["found"] for row in rows} == {
        "mnist": [str(shelf / "mnist.npz")],
        "bloodmnist": [],
        "friedman": ["embedded"],
    }


def test_show_tells_source_checksums_licence_and_known_copies(shelf):
    said = run("show", "bloodmnist")
    for part in (
        "7053d0359d879ad8a5505303e11de1dc",
        "zenodo.org",
        "CC BY 4.0",
        "Acevedo",
        "reconstruction",
    ):
        assert part in said
    shown = json.loads(run("show", "mnist", "--json", "--data", shelf))["dataset"]
    assert shown["shape"] == [28, 28]
    assert shown["found"] == [str(shelf / "mnist.npz")]


def test_verify_names_the_copy_and_its_rows(shelf):
    verdicts = json.loads(run("verify", "--data", shelf, "--json"))["verdicts"]
    assert [v["verdict"] for v in verdicts] == ["published", "missing", "synthetic"]
    assert (sum(verdicts[0]["train"]), sum(verdicts[0]["test"])) == (6, 3)
    assert "made, published" in run("verify", "mnist", "--data", shelf)


def test_verify_fails_where_a_named_dataset_is_missing(shelf):
    assert "no data found" in " ".join(run("verify", "bloodmnist", "--data", shelf, code=2).split())


def test_verify_fails_where_a_file_is_another(shelf):
    (shelf / "mnist.npz").write_bytes(npz(arrays(seed=1)))
    assert "unsound" in run("verify", "--data", shelf, code=2)
    (mnist, *_) = json.loads(run("verify", "--data", shelf, "--json", code=2))["verdicts"]
    assert mnist["verdict"] == "unsound"
    assert "is no known copy" in str(mnist)


def test_fetch_puts_files_into_the_cache_or_a_folder(shelf, tmp_path):
    said = run("fetch", "mnist", "friedman")
    assert "licence: CC BY-SA 3.0" in said
    assert "friedman: comes with the software" in said
    assert (tmp_path / "cache" / "mnist.npz").is_file()
    run("fetch", "mnist", "--data", tmp_path / "new")
    assert (tmp_path / "new" / "mnist.npz").is_file()
    assert "published" in run("verify", "mnist")


@pytest.mark.parametrize("words", [(), ("--all", "mnist")])
def test_fetch_needs_names_or_all(shelf, words):
    with pytest.raises(InputError, match="name datasets or say --all; known: mnist"):
        run("fetch", *words)


def test_an_unknown_name_fetches_nothing(shelf, tmp_path):
    with pytest.raises(InputError, match="unknown dataset 'minst'"):
        run("fetch", "mnist", "minst")
    assert not (tmp_path / "cache").exists()


def test_digits_are_not_called_embedded_without_scikit_learn(monkeypatch):
    listed = json.loads(run("list", "--json"))["datasets"]
    monkeypatch.setattr("fedwqcp_lab.cli.find_spec", lambda name: None)
    without = json.loads(run("list", "--json"))["datasets"]
    found = {row["name"]: row["found"] for row in without}
    assert found["digits"] == []
    assert found["friedman"] == ["embedded"]
    assert {row["name"]: row["found"] for row in listed}["digits"] == ["embedded"]
    assert "no; needs fedwqcp[demo]" in " ".join(run("show", "digits").split())
