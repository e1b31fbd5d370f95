"""What an agent answers: only questions that its method's settings lead an honest server to."""

from __future__ import annotations

from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Question


def check_asked(question: Question, kinds: tuple[type[Question], ...]) -> None:
    """Refuse a question that the settings do not need.

    Parameters
    ----------
    question : Question
        What the server asks.
    kinds : tuple of type
        The kinds of question that the settings lead to.

    Raises
    ------
    InputError
        If it is of another kind.
    """
    if not isinstance(question, kinds):
        known = ", ".join(kind.kind for kind in kinds) or "nothing"
        raise InputError(
            f"the server must ask what this method's settings need ({known}), got {question.kind!r}"
        )


def check_probes(asked: int, most: int) -> None:
    """Refuse a question with more probes than the search asks at a time.

    Parameters
    ----------
    asked : int
        How many probes it has.
    most : int
        How many an honest server asks at most.

    Raises
    ------
    InputError
        If it has more.
    """
    if asked > most:
        raise InputError(f"the server must ask at most {most} probes at a time, got {asked}")
