"""What is too large is refused by name before anything of its size is built."""

from __future__ import annotations

import json
import tracemalloc

import pytest

import fedwqcp as fw
from changed import replace
from fedwqcp import _io
from fedwqcp.errors import FedwqcpError, InputError, MalformedMessageError
from fedwqcp.federation.plan import kinds_of
from fedwqcp.federation.record import load
from fedwqcp.federation.server import Server
from fedwqcp.wire import limits
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Choice, Round
from fedwqcp.wire.terms import terms

SMALL = 2**20
"""Bytes that a refusal may allocate, whatever the size of what it refuses."""
ROUND = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a", "b"), 1, n_classes=3)


def grown(call):
    """Return what a call raised, and by how many bytes memory rose meanwhile at most."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            call()
            raised = None
        except FedwqcpError as error:
            raised = error
        return raised, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def answer_of(method, summary, **settings):
    """Return the bytes of an answer with a summary in JSON, and the round it is for."""
    round = replace(ROUND, method=Choice(method, settings))
    fields = {
        "round": "r1",
        "terms": terms(round),
        "step": 0,
        "agent": "a",
        "method": method,
        "score": "lac",
        "alphas": [0.1],
        "answers": [summary],
        "version": round.version,
    }
    return round, json.dumps(fields).encode()


PRIVATE = {
    "kind": "private-quantile",
    "threshold": 0.5,
    "n": 9,
}
ANSWERS = [
    ("private-fedwq-cp", {**PRIVATE, "epsilon": 1.0, "size_epsilon": 1e-320}, "size_epsilon"),
    ("private-fedwq-cp", {**PRIVATE, "epsilon": 1e300, "size_epsilon": 1.0}, "epsilon"),
    ("fedwq-cp", {"kind": "local-quantile", "threshold": 0.5, "n": 10**400}, "n"),
    ("fcp", {"kind": "counts", "n": 10**400, "counts": []}, "n"),
    ("fcp", {"kind": "counts", "n": 5, "counts": [10**400]}, "counts"),
    ("dp-fedcp", {"kind": "label-counts", "counts": [10**400, 0, 0]}, "counts"),
    ("dp-fedcp", {"kind": "step", "shift": [1e308], "mean": [0.0]}, "shift"),
    ("dp-fedcp", {"kind": "step", "shift": [0.0], "mean": [-1e308]}, "shift"),
    ("cphet", {"kind": "sums", "values": [1e308]}, "values"),
    ("cphet", {"kind": "weighed", "totals": [1e308], "squares": [0]}, "totals"),
]


@pytest.mark.parametrize(("method", "summary", "field"), ANSWERS)
def test_numbers_in_an_answer_have_bounds(method, summary, field):
    round, data = answer_of(method, summary)
    server = Server(round)
    server.receive(data, "a")  # what is made once stays
    server = Server(round)
    refusal = server.receive(data, "a")
    assert (refusal.agent, refusal.field) == ("a", field)
    _, growth = grown(lambda: server.receive(data, "a"))
    assert growth < SMALL


TERMS = [
    ({"n_classes": 10**8}, "n_classes"),
    ({"n_classes": 10**8, "by": "label"}, "n_classes"),
    ({"n_classes": 10**5, "by": "label", "alphas": (0.1, 0.2)}, "tasks"),
    ({"max_n": 10**400}, "max_n"),
    ({"alphas": tuple(i / 2000 for i in range(1, 1500))}, "alphas"),
    ({"key": "k" * 10**6}, "key"),
    ({"method": {"name": "fcp", "settings": {"points": 10**30}}}, "settings"),
    ({"method": {"name": "m" * 10**6, "settings": {}}}, "name"),
]


@pytest.mark.parametrize(("change", "field"), TERMS)
def test_numbers_of_a_round_have_bounds(change, field):
    data = json.dumps({**json.loads(encode(ROUND)), **change}).encode()
    raised, growth = grown(lambda: decode(data, Round))
    assert isinstance(raised, MalformedMessageError)
    assert raised.field == field
    assert growth < SMALL + 4 * len(data)


def test_a_list_of_lists_is_refused_by_what_it_would_become():
    _, data = answer_of("fedls-cp", {"kind": "class-sketches", "counts": [], "values": "here"})
    lists = data.replace(b'"here"', b"[" + b"[]," * (11 * 10**6) + b"[]]")
    assert 32 * 10**6 < len(lists) < limits.MESSAGE_BYTES.most
    raised, growth = grown(lambda: decode(lists, Answer, kinds_of(fw.methods.get("fedls-cp"))))
    assert raised.field == "size"
    assert "values" in raised.reason
    assert growth < SMALL


@pytest.mark.parametrize("text", [b"[" * 10**6, b'{"round":' * 10**5, b"[" * 10**5 + b"]" * 10**5])
def test_nesting_is_refused(text):
    kinds = kinds_of(fw.methods.get("cphet"))  # imports the method, which takes memory of its own
    raised, growth = grown(lambda: decode(text, Answer, kinds))
    assert isinstance(raised, MalformedMessageError)
    assert growth < SMALL + len(text)  # Python's json keeps one copy of the text


@pytest.mark.parametrize("size", [180 * 10**6, 10 * 2**30])
def test_a_file_is_refused_by_its_size_unread(tmp_path, size):
    path = tmp_path / "release.json"
    with path.open("wb") as file:
        file.truncate(size)  # a sparse file
    for read in (load, _io.read):
        raised, growth = grown(lambda read=read: read(path))
        assert isinstance(raised, InputError)
        assert growth < SMALL
