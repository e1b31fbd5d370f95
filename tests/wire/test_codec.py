"""Messages survive the wire; whatever else comes is refused, and nothing else happens."""

from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changed import replace
from fedwqcp.errors import InputError, MalformedMessageError, MessageError
from fedwqcp.federation.agent import Agent
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import MAX_BYTES, decode, encode
from fedwqcp.wire.messages import (
    Answer,
    Ask,
    Begin,
    Choice,
    Local,
    LocalQuantile,
    PerAgentThresholds,
    Round,
    SharedThreshold,
    Summary,
)
from fedwqcp.wire.release import NO_GUARANTEE, AgentRecord, ReleaseRecord
from fedwqcp.wire.terms import terms
from refusals import raises

KINDS = (LocalQuantile, Begin, SharedThreshold, PerAgentThresholds, Local)
ROUND = Round(
    id="ab12",
    method=Choice("fedwq-cp", {"overflow": "propagate"}),
    score=Choice("aps", {"randomized": True}),
    alphas=(0.05, 0.1),
    agents=("a", "b"),
    quorum=2,
)
ASK = Ask("ab12", 3, (Begin(), None))
ANSWER = Answer(
    "ab12", "0" * 16, 0, "a", "fedwq-cp", "aps", (0.05,), (LocalQuantile(0.9, 40), None)
)
RELEASE = ReleaseRecord(
    ROUND,
    NO_GUARANTEE,
    "none",
    1,
    (AgentRecord("a", "used", "", 200, 300), AgentRecord("b", "refused", "n: too large")),
    (SharedThreshold(0.5), PerAgentThresholds((inf, (0.1, inf)))),
    {"a": (0.5, (0.25, inf))},
    {"a": (LocalQuantile(inf, 3), None)},
)


@pytest.mark.parametrize(
    ("message", "cls"),
    [
        (ROUND, Round),
        (ASK, Ask),
        (ANSWER, Answer),
        (RELEASE, ReleaseRecord),
    ],
)
def test_a_message_survives_the_wire(message, cls):
    data = encode(message)
    assert decode(data, cls, KINDS) == message
    assert encode(decode(data, cls, KINDS)) == data


@given(
    threshold=st.floats(allow_nan=False).filter(lambda q: q > -inf),
    n=st.integers(1, 10**9),
    alphas=st.lists(st.floats(0.001, 0.999), min_size=1, max_size=4, unique=True),
)
def test_numbers_survive_to_the_last_bit(threshold, n, alphas):
    answer = replace(ANSWER, alphas=tuple(alphas), answers=(LocalQuantile(threshold, n),))
    assert decode(encode(answer), Answer, KINDS) == answer


@pytest.mark.parametrize("private", [Calibration([0.1, 0.2]), SharedThreshold(0.5), 0.5, {"n": 3}])
def test_only_a_summary_can_leave_an_agent(private):
    with pytest.raises(InputError):
        encode(replace(ANSWER, answers=(private,)))


def test_a_calibration_has_no_way_to_become_bytes():
    class Leak(Summary):
        data: Calibration

    with pytest.raises(InputError):
        encode(replace(ANSWER, answers=(Leak(Calibration([0.1, 0.2])),)))


@pytest.mark.parametrize("bad", [nan, -inf])
def test_what_is_no_number_cannot_be_built_nor_sent(bad):
    with raises(InputError, field="threshold"):
        LocalQuantile(bad, 3)
    with pytest.raises(InputError, match="only numbers"):
        encode(replace(ROUND, score=Choice("aps", {"x": bad})))


def changed(**fields):
    """The answer as JSON with some of its fields replaced; None takes one out."""
    plain = json.loads(encode(ANSWER))
    for path, value in fields.items():
        target = plain["answers"][0] if path in ("threshold", "n", "kind", "extra") else plain
        if value is None:
            del target[path]
        else:
            target[path] = value
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (changed(n=True), "answers[0].n"),
        (changed(n=-1), "n"),
        (changed(n=1.5), "answers[0].n"),
        (changed(n="7"), "answers[0].n"),
        (changed(n=None), "answers[0]"),
        (changed(threshold="nan"), "answers[0].threshold"),
        (changed(threshold="-inf"), "answers[0].threshold"),
        (changed(threshold=[1.0]), "answers[0].threshold"),
        (changed(threshold=True), "answers[0].threshold"),
        (changed(extra=1), "answers[0]"),
        (changed(kind="weapon"), "answers[0].kind"),
        (changed(kind="begin"), "answers[0].kind"),
        (changed(comment="hi"), "message"),
        (changed(agent=None), "message"),
        (changed(step="0"), "step"),
        (encode(ANSWER).replace(b'"n":40', b'"n":40,"n":4'), "message"),
        (encode(ANSWER).replace(b"0.9", b"NaN"), "message"),
        (encode(ANSWER).replace(b"0.9", b"-Infinity"), "message"),
        (encode(ANSWER).replace(b"0.9", b"1e999"), "answers[0].threshold"),
        (encode(ANSWER).replace(b'"n":40', b'"n":' + b"9" * 5000), "message"),
        (b"[" * 100_000, "message"),
        (b'{"a":' * 5_000, "message"),
        (b"", "message"),
        (b"null", "message"),
        (b"\xff\xfe", "message"),
        (encode(ANSWER)[:-5], "message"),
        (encode(ANSWER) * 2, "message"),
        (b" " * (MAX_BYTES + 1), "size"),
    ],
)
def test_hostile_messages_are_refused_by_field(data, field):
    with pytest.raises(MalformedMessageError) as refused:
        decode(data, Answer, KINDS, "lakeside")
    assert refused.value.field == field
    assert refused.value.agent == "lakeside"


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_message_error(data):
    with pytest.raises(MessageError):
        decode(data, Answer, KINDS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(
    st.sampled_from([(ROUND, Round), (ANSWER, Answer), (RELEASE, ReleaseRecord)]),
    st.data(),
)
def test_a_message_with_one_part_replaced_is_read_or_refused(pair, data):
    message, cls = pair
    plain = json.loads(encode(message))
    key = data.draw(st.sampled_from(sorted(plain)))
    plain[key] = data.draw(json_values)
    try:
        found = decode(json.dumps(plain).encode(), cls, KINDS)
    except MessageError:
        return
    assert decode(encode(found), cls, KINDS) == found


def test_an_error_quotes_nothing_of_the_message():
    secret = b'{"round": "patient 4711 has score 0.93'
    with pytest.raises(MalformedMessageError) as refused:
        decode(secret, Answer, KINDS)
    assert "4711" not in str(refused.value)
    assert "0.93" not in str(refused.value)


def test_terms_change_with_every_part_of_the_round():
    others = [
        replace(ROUND, alphas=(0.05,)),
        replace(ROUND, score=Choice("aps", {"randomized": False})),
        replace(ROUND, method=Choice("fedwq-cp", {"overflow": "clip"})),
        replace(ROUND, agents=("a", "c")),
        replace(ROUND, max_n=5),
        replace(ROUND, key="k"),
        replace(ROUND, rule="until"),
    ]
    assert len({terms(ROUND), *map(terms, others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("message", "cls"), [(ROUND, Round), (ANSWER, Answer), (RELEASE, ReleaseRecord)]
)
def test_what_another_version_wrote_is_refused_with_what_to_do(message, cls):
    earlier = encode(message).replace(b'"version":3', b'"version":2')
    other = earlier.replace(b'"alphas":', b'"levels":')  # its fields may have other names
    none = encode(message).replace(b',"version":3', b"")
    for wrong in (other, none):
        with raises(MalformedMessageError, field="version"):
            decode(wrong, cls, KINDS)


def test_a_payload_says_its_kind_also_where_there_is_only_one():
    cal = Calibration([0.1] * 50)
    round = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1)
    honest = json.loads(Agent("a", round, cal).answer())
    for kind in (None, "-", "counts", 7):
        said = {**honest["answers"][0], "kind": kind}
        if kind is None:
            del said["kind"]
        data = json.dumps({**honest, "answers": [said]}).encode()
        with pytest.raises(MalformedMessageError):
            decode(data, Answer, (LocalQuantile,))
