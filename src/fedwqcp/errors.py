"""Every exception that leaves this package.

::

    FedwqcpError
    ├── InputError (also ValueError)        an argument, array, file or setting is wrong
    │   ├── BudgetError                     an answer would pass the agent's privacy budget
    │   ├── DisclosureError                 an answer would pass the agent's limit on what it tells
    │   ├── ClassesError                    classes are others than the round's, or in another order
    │   ├── OutOfRangeError                 a size or score lies outside the range of the round
    │   │   └── SizeError                   there are more points than the round allows
    │   ├── UnfitAnswerError                an agent's answer does not fit a method's question
    │   └── NotReadyError (also NotFittedError) of `fedwqcp.sklearn`: nothing is fitted yet
    ├── MessageError                        what an agent or the server sent is wrong
    │   ├── MalformedMessageError           it cannot be read, or breaks its own invariants
    │   ├── WrongRoundError                 it belongs to another round, agent, step or setting
    │   └── ImplausibleValueError           it can be read, but lies outside the round's bounds
    ├── RoundError                          a round ended without a release
    │   └── QuorumError                     too few sound answers to release a threshold
    ├── MissingExtraError (also ImportError)    an optional dependency is not installed
    └── RecordError                         a saved file is of another version or damaged

Beside it warnings, each a UserWarning. A `FindingWarning` carries its findings:
`InfiniteThresholdWarning`, `UnseenLabelsWarning`, `FewPointsWarning` and `LabelMismatchWarning` of
`calibrate`, `CalibrationRowsWarning` of measures and reports. `ExpiredPredictorWarning` is of
predictors.

`RefusedError` and `LostSitesError` end one request and one masked sum; a transport catches both.

A message says what must hold, what came and what to do. Scores, labels and features of single
people appear in none of them.
"""

from __future__ import annotations

import copy
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, Self

_MOST_QUOTED = 200
"""Most characters of a sender's words that an error repeats."""


class FedwqcpError(Exception):
    """Base of every exception of this package."""

    def __reduce__(self) -> tuple[object, ...]:
        # copied and pickled by its attributes: a constructor takes other arguments than `args`
        return _without_init, (type(self), *self.args), vars(self)


def _without_init(kind: type[FedwqcpError], *args: object) -> FedwqcpError:
    """Make an exception that gets its attributes afterwards."""
    return kind.__new__(kind, *args)


class InputError(FedwqcpError, ValueError):
    """An argument, array, file or setting does not satisfy what must hold.

    It prints as ``where: field: row: reason; cure``, without those that it does not have; a field
    that is an option, such as ``--round``, begins its reason.

    Parameters
    ----------
    reason : str
        What must hold, what came and what to do.
    field : str, optional
        The part of a message, file or setting that is wrong; by default X of "X must ...".
    row : int, optional
        The first row that is wrong, counted from 0.
    cure : tuple of str, optional
        What to do in Python, and what to do at the command line, where that differs.
    """

    def __init__(
        self,
        reason: str,
        field: str = "",
        row: int | None = None,
        cure: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(reason)
        subject, must, _ = reason.partition(" must ")
        field = field or subject * (bool(must) and subject.isidentifier())
        self.reason, self.field, self.row, self.cure = reason, field, row, cure
        self.where = ""
        self._rows = ("row", 0)  # what rows are called, and how the first one is numbered

    def __str__(self) -> str:
        return self._text(self.cure[0])

    @property
    def by_files(self) -> str:
        """The text with what to do at the command line."""
        return self._text(self.cure[1])

    def _text(self, cure: str) -> str:
        word, first = self._rows
        row = "" if self.row is None else f"{word} {first + self.row}"
        field, reason = self.field, self.reason
        if field.startswith("--"):  # an option is the subject of its sentence
            reason = f"{field} {reason}"
        field = "" if reason.startswith(f"{field} ") else field  # it says so
        text = ": ".join(part for part in (self.where, field, row, reason) if part)
        return f"{text}; {cure}" if cure else text

    def within(self, where: str) -> Self:
        """Return the same error of a part of the data, as an agent: the text begins with it."""
        return self._changed(where=f"{where}: {self.where}" if self.where else where)

    def at_line(self, first_line: int) -> Self:
        """Return the same error about rows of a text file, the first of them in a given line."""
        return self._changed(_rows=("line", first_line))

    def shifted(self, rows: int) -> Self:
        """Return the same error about rows that follow a number of others, as those of a batch."""
        return self if self.row is None else self._changed(row=self.row + rows)

    def _changed(self, **attributes: object) -> Self:
        changed = copy.copy(self)
        vars(changed).update(attributes)
        return changed


class BudgetError(InputError):
    """An answer would spend more than is left of the agent's privacy budget."""


class DisclosureError(InputError):
    """An answer would tell more people's scores than the agent's own limit allows."""


class ClassesError(InputError):
    """The classes of an agent's model are others than the round's, or in another order."""


class OutOfRangeError(InputError):
    """A sample size, score or threshold of an agent lies outside the range of the round."""


class SizeError(OutOfRangeError):
    """An agent has more points than the round allows."""


class UnfitAnswerError(InputError):
    """An agent's answer does not fit the question, or the answers of the others.

    A dialogue raises it; the server then refuses that agent by name and goes on without it.

    Parameters
    ----------
    position : int
        Place of the agent among the answers.
    reason : str
        What must hold.
    """

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        super().__init__(reason)


class MessageError(FedwqcpError):
    """A message was refused.

    Parameters
    ----------
    sender : str or Path
        The agent that sent it, ``"server"``, or the file that it was read from.
    field : str
        The part of the message that is wrong.
    reason : str
        What must hold and what came.
    """

    def __init__(self, sender: str | Path, field: str, reason: str) -> None:
        self.agent = _printable(str(sender))
        self.from_file = isinstance(sender, Path)
        self.field = _printable(field)
        self.reason = _printable(reason)
        named = self.agent if self.from_file else f"agent {self.agent!r}"
        named = "the server's message" if sender == "server" else named
        super().__init__(f"{named}: {self.field}: {self.reason}")


def _printable(text: str) -> str:
    """Keep a sender's words short and free of control characters: they are shown to people."""
    kept = text if len(text) <= _MOST_QUOTED else text[:_MOST_QUOTED] + "..."
    return "".join(c if c.isprintable() else "?" for c in kept)


class MalformedMessageError(MessageError):
    """The message cannot be read, or breaks its own invariants."""


INTERNAL = "internal"
"""Field of a refusal that nobody foresaw: a fault of this package that a message brought out."""


def internal(sender: str | Path, error: BaseException) -> MalformedMessageError:
    """Return the refusal of a message on which this package failed."""
    reason = f"{type(error).__name__} while the message was handled: please report this"
    return MalformedMessageError(sender, INTERNAL, reason)


def without_cure(error: FedwqcpError) -> str:
    """Return the text without what to do in Python, for those who read it elsewhere."""
    return error._text("") if isinstance(error, InputError) else str(error)


def traced(error: BaseException) -> str:
    """Say what was raised and where; only our own errors are quoted, others may quote data."""
    text = without_cure(error) if isinstance(error, FedwqcpError) else "(its text is left out)"
    frames = traceback.extract_tb(error.__traceback__)
    where = "".join(f"  {frame.filename}:{frame.lineno} {frame.name}\n" for frame in frames)
    return f"{type(error).__name__}: {text}\n{where}"


class WrongRoundError(MessageError):
    """The message belongs to another round, agent, step or setting."""


class ImplausibleValueError(MessageError):
    """A value of the message lies outside the bounds of the round."""


class RoundError(FedwqcpError):
    """A round ended without a release, and no single agent can be named as the cause."""


class QuorumError(RoundError):
    """Too few agents sent a valid answer for the round to release anything."""


class MissingExtraError(FedwqcpError, ImportError):
    """An optional dependency is missing.

    Parameters
    ----------
    what : str
        What was asked for.
    extra : str
        The extra that brings it.
    package : str
        The distribution that has the extra.
    """

    def __init__(self, what: str, extra: str, package: str = "fedwqcp") -> None:
        self.what, self.extra, self.package = what, extra, package
        here = "." if package == "fedwqcp" else "./lab"
        super().__init__(
            f"{what} needs an optional dependency: pip install '{package}[{extra}]' "
            f"(in a checkout: pip install '{here}[{extra}]')"
        )

    def __reduce__(self) -> tuple[object, ...]:
        # ImportError keeps its text beside the others
        return type(self), (self.what, self.extra, self.package)


class RecordError(FedwqcpError):
    """A saved file is damaged, or was written by another version."""


class FindingWarning(UserWarning):
    """Something was found that a user should know; ``findings`` hold its codes and numbers."""

    def __init__(self, text: str, findings: tuple[Any, ...] = ()) -> None:
        super().__init__(text)
        self.findings = findings


class InfiniteThresholdWarning(FindingWarning):
    """A threshold of `calibrate` is +inf: valid, but its sets hold every label or value.

    By label, that label is in every set.
    """


class FewPointsWarning(FindingWarning):
    """An agent has too few points to prove 1 - alpha: its threshold rests on other agents."""


class UnseenLabelsWarning(InfiniteThresholdWarning):
    """More than alpha of an agent's labels are of classes that no agent has enough points of."""


class CalibrationRowsWarning(FindingWarning):
    """Measured test rows are like calibration rows, which say nothing about new cases."""


class LabelMismatchWarning(FindingWarning):
    """Labels may not fit the columns: the data rule out that the most probable class is useful."""


class ExpiredPredictorWarning(UserWarning):
    """A predictor is used after the day until which its site calls it valid."""


def warn(warning: Warning) -> None:
    """Warn the first caller outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "fedwqcp":
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
