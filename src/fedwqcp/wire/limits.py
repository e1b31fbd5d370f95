"""The largest numbers, lists and files that anyone may send: one table.

Each is refused by name before anything of its size is built. They leave room for 100,000 agents and
for 100,000 classes wherever a method can serve them; `docs/reference/wire-format.md` shows the
same table.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from fedwqcp import _io
from fedwqcp._validation import shown
from fedwqcp.errors import InputError


@dataclass(frozen=True)
class Limit:
    """The range of one kind of number.

    Parameters
    ----------
    name : str
        What people call it.
    least, most : float
        The range, ends included.
    holds : str
        Which fields and settings it holds for.
    """

    name: str
    least: float
    most: float
    holds: str

    def whole(self, value: object, what: str) -> None:
        """Refuse what is not an integer of the range; True is none."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise InputError(
                f"must be an integer from {self.least} to {self.most}, got {shown(value)}",
                field=what,
            )

    def count(self, values: Sized, what: str) -> None:
        """Refuse a list or text of too few or too many."""
        if not self.least <= len(values) <= self.most:
            raise InputError(
                f"must hold from {self.least} to {self.most}, got {len(values)}", field=what
            )

    def number(self, value: object, what: str) -> None:
        """Refuse what is not a number of the range."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.least <= value <= self.most
        ):
            raise InputError(
                f"must be a number from {self.least:g} to {self.most:g}, got {shown(value)}",
                field=what,
            )


MESSAGE_BYTES = Limit("message, bytes", 0, 32 * 2**20, "a round, a question, an answer")
_RELEASE_BYTES = Limit(
    "release, bytes", 0, _io.FILE_BYTES, "a release, a record, any file read whole"
)
LOG_BYTES = Limit(
    "log, bytes", 0, _io.LOG_BYTES, "`log.jsonl` of a record, log and rounds of a monitor"
)
MESSAGE_VALUES = Limit("message, values", 0, 2**20, "commas and opening brackets in its bytes")
_RELEASE_VALUES = Limit("release, values", 0, 2**22, "the same of a release or record")
AGENTS = Limit("agents", 1, 10**6, "names in a roster")
CLASSES = Limit("classes", 2, 10**5, "`n_classes`, `classes`")
GROUPS = Limit("groups", 1, 10**4, "named groups of a round")
ALPHAS = Limit("levels", 1, 1000, "`alphas`")
_TASKS = Limit("tasks", 1, 10**5, "levels x groups or classes x columns of the score")
SIZE = Limit("sample size", 0, 10**12, "`n`, `max_n`, every count; a million of them fit 64 bits")
NUMBER = Limit("number", -1e100, 1e100, "weights, sums of weights, shifts, means, iterates")
EPSILON = Limit("epsilon", 1e-6, 1e6, "`epsilon`; `size_epsilon` where it is not 0")
BINS = Limit("bins", 2, 10**4, "`bins` of `private-fedwq-cp`")
POINTS = Limit("points", 1, 10**5, "`points` and `probes` of a sketch, a grid or a question")
ROUNDS = Limit("rounds", 1, 10**5, "`rounds` of an iterative method")
LOCAL_STEPS = Limit("local steps", 1, 10**5, "`local_steps` of an iterative method")
SETTING = Limit("setting", -(2**63), 2**63 - 1, "whole numbers among settings, `seed` too")
LIST = Limit("list", 0, 10**6, "numbers in a setting")
TEXT = Limit("text", 0, 1000, "characters of a setting, `id`, `key`, `rule`, a reason")

ALL = tuple(limit for limit in list(globals().values()) if isinstance(limit, Limit))
"""The whole table, in the order above."""


def check_tasks(count: int) -> None:
    """Refuse a round of too many thresholds."""
    if count > _TASKS.most:
        product = f"levels times groups times columns, at most {_TASKS.most}"
        raise InputError(f"must be {product}, got {count}", field="tasks")


def check_extent(data: bytes, *, release: bool) -> None:
    """Refuse bytes that are too many, or hold too many values, before anything is built of them.

    Every value of a list or object follows a comma or an opening bracket, so their number bounds
    what a parser builds; counting them builds nothing.
    """
    most = (_RELEASE_BYTES if release else MESSAGE_BYTES).most
    if len(data) > most:
        raise InputError(f"must be at most {most} bytes, got {len(data)}", field="size")
    most = (_RELEASE_VALUES if release else MESSAGE_VALUES).most
    if len(data) <= most:  # too short for so many
        return
    count = data.count(b",") + data.count(b"[") + data.count(b"{")
    if count > most:
        raise InputError(f"must hold at most {most} values, got up to {count}", field="size")
