"""What travels in a round: the server's questions and the agents' answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedwqcp.wire.payload import OPTIONAL, Question, Summary
from fedwqcp.wire.round import VERSION


@dataclass(frozen=True)
class Ask:
    """A question of the server, one for each task of the round (None: that task has ended).

    Parameters
    ----------
    round : str
        Id of the round.
    step : int
        0 for the first question.
    questions : tuple
        One for each task.
    """

    round: str
    step: int
    questions: tuple[Question | None, ...]


@dataclass(frozen=True)
class Answer:
    """What one agent answers in one step.

    Parameters
    ----------
    round, terms : str
        Id of the round, and the digest of the terms as the agent read them.
    step : int
        Which question is answered.
    agent : str
        Who answers.
    method, score : str
        What was computed.
    alphas : tuple of float
        At which levels.
    answers : tuple
        One summary for each task.
    version : int
        Version of the wire format.
    signature : str
        Signature of the site over all the rest, where the round names keys; else left out.
    """

    round: str
    terms: str
    step: int
    agent: str
    method: str
    score: str
    alphas: tuple[float, ...]
    answers: tuple[Summary | None, ...]
    version: int = VERSION
    signature: str = field(default="", metadata=OPTIONAL)
