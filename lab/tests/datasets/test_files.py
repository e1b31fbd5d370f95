"""Downloads against a server on this machine that also breaks off and corrupts."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import files
from fedwqcp_lab.datasets.catalog import find
from fedwqcp_lab.datasets.files import RetryPolicy, download, fetch, md5_of
from made_data import remote

MNIST = find("mnist")
CIFAR10 = find("cifar10")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give each place a folder of its own: given, system, cache."""
    made = {name: tmp_path / name for name in ("given", "system", "cache")}
    for folder in made.values():
        folder.mkdir()
    monkeypatch.setattr(files, "SYSTEM_FOLDERS", (made["system"],))
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
        found = files.locate(MNIST, places["given"])
        assert found == (places[name] / "mnist.npz",)


def test_a_set_is_found_whole_or_not_at_all(places):
    put(places["given"], "cifar10_train.npz.xz")
    assert files.locate(CIFAR10, places["given"]) is None
    put(places["cache"], "cifar10_test.npz.xz")  # parts from two places do not belong together
    assert files.locate(CIFAR10, places["given"]) is None
    put(places["given"], "cifar10_test.npz.xz")
    assert [f.name for f in files.locate(CIFAR10, places["given"])] == [
        "cifar10_train.npz.xz",
        "cifar10_test.npz.xz",
    ]


BODY = np.random.default_rng(0).bytes(1_000_000)
QUICK = RetryPolicy(timeout=1.0, tries=3, wait=0.0)


class Handler(BaseHTTPRequestHandler):
    """Sends `BODY` in the manner that the address names."""

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        visit = sum(path == self.path for path, _ in self.server.requests)
        manner = self.path.strip("/").partition("/")[0]
        if manner == "gone":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        rest = BODY[start:]
        if manner == "corrupt":
            rest = bytes([rest[0] ^ 1]) + rest[1:]
        self.send_response(206 if start else 200)
        if manner != "no-length":
            self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.end_headers()
        breaks = manner == "breaks-twice" and visit <= 2
        self.wfile.write(rest[: min(300_000, len(rest) // 2) if breaks else None])

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def running():
    """Run the server while the tests of this file do."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running, monkeypatch):
    """Forget earlier requests; ask no proxy for an address on this machine."""
    running.requests.clear()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return running


def at(server, *manners):
    """Return the file at addresses of these manners."""
    base = f"http://127.0.0.1:{server.server_port}"
    return remote("f.bin", BODY, *(f"{base}/{manner}/f.bin" for manner in manners))


def ranges(server):
    """Return what each request asked for."""
    return [asked for _, asked in server.requests]


@pytest.mark.parametrize("manner", ["fine", "no-length"])
def test_a_file_arrives(server, tmp_path, manner):
    steps = []
    download(
        at(server, manner), tmp_path / "f.bin", progress=lambda *a: steps.append(a), retry=QUICK
    )
    assert (tmp_path / "f.bin").read_bytes() == BODY
    assert [file.name for file in tmp_path.iterdir()] == ["f.bin"]
    assert steps[-1] == ("f.bin", len(BODY), len(BODY) if manner == "fine" else None)
    assert [have for _, have, _ in steps] == sorted(have for _, have, _ in steps)


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server, tmp_path):
    download(at(server, "breaks-twice"), tmp_path / "f.bin", retry=QUICK)
    assert (tmp_path / "f.bin").read_bytes() == BODY
    assert ranges(server) == [None, "bytes=300000-", "bytes=600000-"]


def test_a_wrong_checksum_names_both_sums_and_keeps_nothing(server, tmp_path):
    wrong = hashlib.md5(bytes([BODY[0] ^ 1]) + BODY[1:]).hexdigest()
    right = hashlib.md5(BODY).hexdigest()
    with pytest.raises(InputError) as error:
        download(at(server, "corrupt"), tmp_path / "f.bin", retry=QUICK)
    assert wrong in str(error.value)
    assert right in str(error.value)
    assert not list(tmp_path.iterdir())
    assert ranges(server) == [None, None, None]


def test_the_next_address_is_tried(server, tmp_path):
    download(at(server, "gone", "fine"), tmp_path / "f.bin", retry=QUICK)
    assert (tmp_path / "f.bin").read_bytes() == BODY
    assert len(server.requests) == 2


def test_fetch_downloads_only_what_lacks_or_is_wrong(server, tmp_path):
    base = f"http://127.0.0.1:{server.server_port}/fine"
    files = tuple(remote(f"made/{n}.bin", BODY, f"{base}/{n}.bin") for n in "abc")
    made = type(find("mnist"))(
        **{**find("mnist").__dict__, "remote": files},
    )
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.bin").write_bytes(BODY)
    (tmp_path / "made" / "b.bin").write_bytes(b"torn")
    found = fetch(made, tmp_path, retry=QUICK)
    assert [md5_of(file) for file in found] == [file.md5 for file in files]
    assert [path for path, _ in server.requests] == ["/fine/b.bin", "/fine/c.bin"]
