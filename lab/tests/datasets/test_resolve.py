import sys
from pathlib import Path

import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import resolve
from fedwqcp_lab.datasets.catalog import find

MNIST = find("mnist")
CIFAR10 = find("cifar10")
FASHION = find("fashionmnist")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give each place a folder of its own: given, system, cache."""
    made = {name: tmp_path / name for name in ("given", "system", "cache")}
    for folder in made.values():
        folder.mkdir()
    monkeypatch.setattr(resolve, "SYSTEM_FOLDERS", (made["system"],))
    monkeypatch.setenv("FEDWQCP_CACHE", str(made["cache"]))
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    return made


def put(folder, *names):
    """Make empty files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_the_given_folder_comes_before_the_system_and_that_before_the_cache(places):
    for name in ("cache", "system", "given"):
        put(places[name], "mnist.npz")
        found = resolve.locate(MNIST, places["given"])
        assert found == (places[name] / "mnist.npz",)


def test_the_folder_may_be_named_by_the_environment(places, monkeypatch):
    put(places["given"], "mnist.npz")
    assert resolve.locate(MNIST) is None
    monkeypatch.setenv("FEDWQCP_DATA", str(places["given"]))
    assert resolve.locate(MNIST) == (places["given"] / "mnist.npz",)
    assert resolve.locate(MNIST, places["cache"]) is None  # an argument stands above it


def test_published_files_come_before_others_in_one_folder(places):
    blood = find("bloodmnist")
    put(places["given"], "bloodmnist.npz.xz")
    assert resolve.locate(blood, places["given"])[0].name == "bloodmnist.npz.xz"
    put(places["given"], "bloodmnist.npz")
    assert resolve.locate(blood, places["given"])[0].name == "bloodmnist.npz"


def test_what_debian_installs_is_found(places):
    names = [Path(file.path).name for file in FASHION.remote]
    put(places["system"], *(f"fashion-mnist/{name}" for name in names))
    found = resolve.locate(FASHION)
    assert [file.name for file in found] == names
    assert {file.parent for file in found} == {places["system"] / "fashion-mnist"}


def test_a_set_is_found_whole_or_not_at_all(places):
    put(places["given"], "cifar10_train.npz.xz")
    assert resolve.locate(CIFAR10, places["given"]) is None
    put(places["cache"], "cifar10_test.npz.xz")  # parts from two places do not belong together
    assert resolve.locate(CIFAR10, places["given"]) is None
    put(places["given"], "cifar10_test.npz.xz")
    assert [f.name for f in resolve.locate(CIFAR10, places["given"])] == [
        "cifar10_train.npz.xz",
        "cifar10_test.npz.xz",
    ]


def test_a_folder_of_that_name_is_no_file(places):
    (places["given"] / "mnist.npz").mkdir()
    assert resolve.locate(MNIST, places["given"]) is None


def test_missing_data_says_which_file_where_and_how(places):
    put(places["given"], "cifar10_train.npz.xz")
    told = str(resolve.missing(CIFAR10, places["given"]))
    assert "cifar10: no data found; looked for cifar-10-binary.tar.gz or " in told
    assert "cifar10_train.npz.xz with 1 more or cifar10.npz" in told
    assert f"in {places['given']}, {places['system']}, {places['cache']}" in told
    assert f"; {places['given']} lacks cifar10_test.npz.xz" in told
    assert told.endswith("; get it with: fedwqcp-lab data fetch cifar10")


def test_nothing_is_said_to_lack_where_nothing_is(places):
    assert "lacks" not in str(resolve.missing(CIFAR10, places["given"]))


def test_a_folder_that_does_not_exist_is_refused(places, monkeypatch):
    with pytest.raises(InputError, match=r"the data folder must be a folder that exists, got .*no"):
        resolve.places(places["given"] / "no")
    monkeypatch.setenv("FEDWQCP_DATA", "no/where")
    with pytest.raises(InputError, match="FEDWQCP_DATA must be a folder that exists, got no/where"):
        resolve.places()


@pytest.mark.parametrize(
    ("platform", "setting", "expected"),
    [
        ("linux", ("XDG_CACHE_HOME", "/x"), "/x/fedwqcp"),
        ("linux", None, "/home/me/.cache/fedwqcp"),
        ("darwin", None, "/home/me/Library/Caches/fedwqcp"),
        ("win32", ("LOCALAPPDATA", "/local"), "/local/fedwqcp"),
        ("win32", None, "/home/me/AppData/Local/fedwqcp"),
        ("linux", ("FEDWQCP_CACHE", "/mine"), "/mine"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(monkeypatch, platform, setting, expected):
    for name in ("FEDWQCP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if setting:
        monkeypatch.setenv(*setting)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert resolve.cache_folder() == Path(expected)
