"""Structure-aware mutations of messages: of JSON trees, and of raw bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import nextafter
from random import Random
from typing import Any

MANY = (1_000, 20_000, 300_000)
"""How long a list or a text becomes where a mutation makes it long."""
DEEP = (50, 900, 100_000)
"""How deep a nested value becomes."""
NUMBERS = (
    0, -1, 1, 2, 3, 7, 40, 999, 1000, 1001, 10**6, 10**7, 10**8, 2**31, 2**53 + 1, 2**63, 2**64,
    10**25, 10**400, -(10**400), 0.5, 1.5, -0.5, 1e-320, 5e-324, 1e308, -1e308, 0.1,
)  # fmt: skip
TEXTS = (
    "", "inf", "-inf", "nan", "0", "north", "south", "NORTH", "no such agent", "../../etc/passwd",
    "a\x00b", "\u202e", "\ud83d\ude00", "x" * 65, "local-quantile", "counts",
    "shared-threshold", "begin", "1e5", "ok", "true",
)  # fmt: skip


class Pairs(list[list[Any]]):
    """An object as its pairs, so that a key can occur twice."""


@dataclass(frozen=True)
class Raw:
    """Text that goes into a message as it is: what JSON libraries do not write."""

    text: str


RAWS = (
    "NaN", "Infinity", "-Infinity", "1e400", "-0.0", "01", "1.", "+1", "'a'", "0x10", "1e-400",
    "--1", "nul",
)  # fmt: skip


ENOUGH = 2**20
"""Characters of a tree that is changed no further."""

LARGEST = 2**27
"""Characters that are written at the most: twice the largest release that is read."""


def load(data: bytes) -> Any:
    """Read JSON into a tree that mutations change in place."""
    return json.loads(data, object_pairs_hook=lambda pairs: Pairs([k, v] for k, v in pairs))


def dump(tree: Any) -> bytes:
    """Write a tree, with all that is wrong in it."""
    return _text(tree).encode("utf-8", "surrogatepass")


def _text(node: Any) -> str:
    """Write one node."""
    if isinstance(node, Raw):
        return node.text
    if isinstance(node, Pairs):
        return "{" + ",".join(f"{json.dumps(k)}:{_text(v)}" for k, v in node) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_text, node)) + "]"
    return json.dumps(node, ensure_ascii=False)


def mutate(random: Random, data: bytes, others: Sequence[bytes] = ()) -> tuple[bytes, str]:
    """Return changed bytes of a message, and what was done to them."""
    if random.random() < 0.08:
        return _bytes(random, data, others)
    tree, done = load(data), []
    if random.random() < 0.4 and (numbers := _numbers(tree)):
        for container, index, path in random.sample(
            numbers, min(len(numbers), random.choice((1, 1, 2, 9)))
        ):
            _set(container, index, _like(random, _get(container, index)))
            done.append(f"{path} = {_short(_get(container, index))}")
        return dump(tree), "; ".join(done)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        done.append(_change(random, tree, others))
        if _size(tree, {}) > ENOUGH:  # listing the places of a large tree takes minutes
            break
    if _size(tree, {}) > LARGEST:  # a part that stands in many places has grown
        return data, "too large to write: " + "; ".join(done)
    return dump(tree), "; ".join(done)


def _size(node: Any, known: dict[int, int]) -> int:
    """Return about how many characters a tree takes; a shared part is counted once."""
    if id(node) not in known:
        if isinstance(node, Raw):
            size = len(node.text)
        elif isinstance(node, Pairs):
            size = sum(len(str(k)) + 4 + _size(v, known) for k, v in node)
        elif isinstance(node, list):
            size = sum(1 + _size(v, known) for v in node)
        else:
            size = len(str(node)) if not isinstance(node, int) else node.bit_length() // 3 + 1
        known[id(node)] = size + 2
    return known[id(node)]


def places(tree: Any, at: str = "") -> list[tuple[Any, int, str]]:
    """Return every place of a tree as its container, its index there and its path."""
    found = []
    if isinstance(tree, Pairs):
        for index, (key, value) in enumerate(tree):
            path = f"{at}.{key}"
            found.append((tree, index, path))
            found += places(value, path)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            found.append((tree, index, f"{at}[{index}]"))
            found += places(value, f"{at}[{index}]")
    return found


def _numbers(tree: Any) -> list[tuple[Any, int, str]]:
    """Return the places of numbers within payloads: changed, they pass the decoder and lie."""
    payloads = ("answers", "questions", "outcomes", "settings")
    return [
        (container, index, path)
        for container, index, path in places(tree)
        if type(_get(container, index)) in (int, float) and any(part in path for part in payloads)
    ]


def _get(container: Any, index: int) -> Any:
    return container[index][1] if isinstance(container, Pairs) else container[index]


def _set(container: Any, index: int, value: Any) -> None:
    if isinstance(container, Pairs):
        container[index][1] = value
    else:
        container[index] = value


def _change(random: Random, tree: Any, others: Sequence[bytes]) -> str:
    """Change one place of a tree; numbers and payloads are chosen more often than the envelope."""
    spots = places(tree)
    if not spots:
        return "nothing to change"
    inner = [
        spot
        for spot in spots
        if "answers" in spot[2] or "questions" in spot[2] or "outcomes" in spot[2]
    ]
    container, index, path = random.choice(inner if inner and random.random() < 0.7 else spots)
    value = _get(container, index)
    kind = random.random()
    if kind < 0.3:
        new = _like(random, value)
        _set(container, index, new)
        return f"{path} = {_short(new)}"
    if kind < 0.55:
        new = hostile(random)
        _set(container, index, new)
        return f"{path} = {_short(new)}"
    if kind < 0.62:
        del container[index]
        return f"deleted {path}"
    if kind < 0.69:
        extra = [random.choice((*TEXTS, "kind", "n", "threshold")), hostile(random)]
        container.insert(index, extra if isinstance(container, Pairs) else hostile(random))
        return f"inserted before {path}"
    if kind < 0.76:
        times = random.choice((1, 1, 2, 15)) if random.random() < 0.97 else random.choice(MANY)
        copy = (
            container[index] if not isinstance(container, Pairs) else [container[index][0], value]
        )
        container[index:index] = [copy] * times
        return f"repeated {path} {times} times"
    if kind < 0.84 and isinstance(value, list) and len(value) > 1:
        order = random.choice(("shuffled", "reversed", "halved", "doubled"))
        if order == "shuffled":
            random.shuffle(value)
        elif order == "reversed":
            value.reverse()
        elif order == "halved":
            del value[len(value) // 2 :]
        else:
            value += [item if not isinstance(item, list) else type(item)(item) for item in value]
        return f"{order} {path}"
    if kind < 0.92 and others:
        other = random.choice(places(load(random.choice(others))))
        new = _get(other[0], other[1])
        _set(container, index, new)
        return f"{path} from {other[2]} of another message"
    two, at, name = random.choice(spots)
    new = _get(two, at)
    _set(container, index, json.loads("null") if new is container else _copy(new))
    return f"{path} from {name}"


def _copy(value: Any) -> Any:
    """Copy a value, so that a tree never holds itself."""
    if isinstance(value, Pairs):
        return Pairs([k, _copy(v)] for k, v in value)
    return [_copy(v) for v in value] if isinstance(value, list) else value


def _like(random: Random, value: Any) -> Any:
    """Return another value of the same type: what passes the decoder and asks more of the rest."""
    if isinstance(value, bool) or value is None:
        return random.choice((True, False, None))
    if isinstance(value, int):
        return random.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, random.choice(NUMBERS), 0)
        )
    if isinstance(value, float):
        near = (
            nextafter(value, 9e99),
            -value,
            value * 2,
            value / 3,
            value + 1,
            random.random(),
            0.0,
        )
        return random.choice((*near, float(random.choice(NUMBERS[:18])), "inf"))
    if isinstance(value, str):
        return random.choice((*TEXTS, value[::-1], value[:-1], value + "0", value.upper()))
    if isinstance(value, Pairs):
        return Pairs(reversed([[k, _copy(v)] for k, v in value]))
    if isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
        change = random.choice((0, 0.0, 1, -1, max(value), min(value), random.choice(NUMBERS)))
        return [change] * len(value) if random.random() < 0.5 else [_like(random, v) for v in value]
    return hostile(random)


def hostile(random: Random) -> Any:
    """Return a value that no honest program sends."""
    kind = random.random()
    if kind < 0.4:
        return random.choice(NUMBERS)
    if kind < 0.6:
        return random.choice(TEXTS)
    if kind < 0.75:
        return Raw(random.choice(RAWS))
    if kind < 0.9:
        return random.choice(
            (None, True, False, [], Pairs(), [[]], [None], Pairs([["kind", "begin"]]), [0], [0.5])
        )
    if kind < 0.96:
        return [random.choice((0, 0.5, 1, "inf", None, -1.0))] * random.choice((3, 50, 1000))
    if kind < 0.98:
        deep = random.choice(DEEP)
        left, right = random.choice((("[", "]"), ('{"a":', "}")))
        return Raw(left * deep + "0" + right * deep)
    many = random.choice(MANY)
    return random.choice(
        (Raw("[" + "0.5," * many + "0.5]"), Raw("[" + "[]," * many + "[]]"), "x" * many)
    )


def _bytes(random: Random, data: bytes, others: Sequence[bytes]) -> tuple[bytes, str]:
    """Change bytes without regard for what they mean."""
    at = random.randrange(len(data) + 1)
    changes = {
        "empty": b"",
        "cut": data[:at],
        "flipped a bit": data[:at]
        + bytes([data[at % len(data)] ^ 1 << random.randrange(8)])
        + data[at + 1 :],
        "inserted a byte": data[:at] + bytes([random.randrange(256)]) + data[at:],
        "twice": data + data,
        "with spaces": json.dumps(json.loads(data), indent=random.randrange(4)).encode(),
        "with a byte order mark": b"\xef\xbb\xbf" + data,
        "in UTF-16": data.decode().encode("utf-16"),
        "of another": random.choice(others) if others else b"{}",
        "a list around": b"[" + data + b"]",
        "zero bytes": b"\x00" * random.choice((1, 1000)),
        "padded": data + b" " * random.choice((10, 1_000_000)),
    }
    name = random.choice(list(changes))
    return changes[name], name


def _short(value: Any) -> str:
    """Write a value for a report."""
    text = _text(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
