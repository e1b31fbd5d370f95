"""An agent: it holds the calibration data, and only summaries leave it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any

from numpy.random import PCG64
from numpy.random import Generator as Random

from fedwqcp._validation import PlainSettings
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.plan import Plan, Task, part_of
from fedwqcp.federation.predict import localize, thresholds
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.signing import SigningKey
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Begin, Question, Round, Summary


@dataclass(frozen=True)
class DisclosureLimit(PlainSettings):
    """How much of its own data an agent tells in one round, whatever the round asks for.

    Parameters
    ----------
    share : float, optional
        Of a sample of n scores at most floor(share n) become known, and always one: a local
        threshold is one score. The round cuts n points (strata of a feature) in no more places.
    min_class : int, optional
        No score is revealed of a class, stratum or group with fewer points. Where the round itself
        cuts the points, no part has fewer, unless it has none.

    Raises
    ------
    InputError
        If the share is not above 0 and at most 1, or the size not at least 1.

    Examples
    --------
    >>> [DisclosureLimit().scores_of(n) for n in (3, 31, 75)]
    [1, 6, 15]
    """

    share: float = 0.2
    min_class: int = 10

    def __post_init__(self) -> None:
        if type(self.share) not in (int, float) or not 0 < self.share <= 1:
            raise InputError(f"share must be above 0 and at most 1, got {self.share!r}")
        if type(self.min_class) is not int or self.min_class < 1:
            raise InputError(f"min_class must be an integer of at least 1, got {self.min_class!r}")

    def scores_of(self, size: int) -> int:
        """Return how many of so many scores may become known."""
        return max(1, int(Fraction(str(self.share)) * size))

    def check(self, plan: Plan, cal: Calibration, steps: int) -> None:
        """Refuse a round whose answers would tell more than the limit."""
        name, private = plan.round.method.name, plan.method.hides_absence
        for group in range(len(plan.round.group_names)) or (None,):
            self._check_cells(name, plan.method.cells(part_of(plan.round, cal, group)))
        for (group, part), (size, revealed) in _disclosed(plan, cal, steps).items():
            whole = part is None and (group is None or private)
            if revealed and not whole and size < self.min_class:
                raise InputError(
                    f"{name} with these settings sends scores of a class or group of which this "
                    f"agent has {size} points; it reveals none of fewer than {self.min_class}. "
                    "Choose settings that reveal less, or, if this site may, {cure}",
                    cure=_WIDEN,
                )
            if revealed > self.scores_of(size):
                raise InputError(
                    f"{name} with these settings can reveal {revealed} of {size} scores of single "
                    f"people; this agent reveals at most {self.scores_of(size)}, a share of "
                    f"{self.share:g}. Choose settings that reveal less, or, if this site may, "
                    "{cure}",
                    cure=_WIDEN,
                )

    def _check_cells(self, name: str, cells: Sequence[int]) -> None:
        """Refuse cuts of the points by the round that single out few of them."""
        n, cuts = sum(cells), len(cells) - 1
        if n and min(size for size in cells if size) < self.min_class:
            raise InputError(
                f"{name} with these settings cuts this agent's points into parts, one of which has "
                f"fewer than {self.min_class}: each must have none or at least so many. Choose "
                "settings that reveal less, or, if this site may, {cure}",
                cure=_WIDEN,
            )
        if n and cuts > self.scores_of(n):
            raise InputError(
                f"{name} with these settings cuts {n} points of this agent in {cuts} places, each "
                f"of which counts as a value of one person; this agent reveals at most "
                f"{self.scores_of(n)}, a share of {self.share:g}. Choose settings that reveal "
                "less, or, if this site may, {cure}",
                cure=_WIDEN,
            )


PRIVATE_EPSILON = 10.0
"""An answer that spends at most so much is limited by its noise, not by the number of scores.

Counting would refuse by the true size of a group, which the noise is there to hide.
"""
USUAL_LIMIT = DisclosureLimit()
"""Holds unless a site says otherwise; benchmarks/disclosure.py measures what it costs."""

_WIDEN = (
    "widen its limit with limit=DisclosureLimit(share, min_class), or lift it with "
    "allow_samples=True",
    "widen its limit with --max-share and --min-class, or lift it with --allow-samples",
)


def _disclosed(
    plan: Plan, cal: Calibration, steps: int
) -> dict[tuple[int | None, int | None], tuple[int, int]]:
    """Return, for each group and class, its size and how many of its scores all levels tell."""
    sizes: dict[tuple[int, int | None, int | None], int] = {}
    once, added = dict[Any, int](), dict[Any, int]()
    for task in plan.tasks:
        own = part_of(plan.round, cal.column(task.column), task.group)
        same = dict[Any, int]()
        for found in plan.method.reveals(own, task.alpha, steps=steps):
            key = (task.column, task.group, found.part)
            sizes[key] = found.size
            here = added if found.each_level else same
            here[key] = here.get(key, 0) + found.scores
        once.update({key: max(revealed, once.get(key, 0)) for key, revealed in same.items()})
    most: dict[tuple[int | None, int | None], tuple[int, int]] = {}
    for key, size in sizes.items():  # columns are different scores of the same people
        revealed = min(size, once.get(key, 0) + added.get(key, 0))
        most[key[1:]] = max(most.get(key[1:], (0, 0)), (size, revealed))
    return most


class Agent:
    """The side of the dialogue that holds the data.

    Parameters
    ----------
    name : str
        Its name in the roster.
    round : Round or Plan
        The terms, as it received them, or what they come to.
    calibration : Calibration
        Its data; they stay here.
    allow_samples : bool, optional
        Whether scores of single people may leave, as many as the round asks for.
    limit : DisclosureLimit or None, optional
        How many may leave otherwise; None where agents are only simulated: all but whole samples.
    budget : Budget, optional
        Differential privacy that its data may spend. With it only private methods are answered;
        what they spend is on disk before the answer leaves.
    rng : numpy.random.Generator, optional
        Source of noise; by default from the operating system, so that nobody can predict it.
    sign_key : SigningKey, optional
        Its key, which rounds that name keys need. With it only rounds are answered that name its
        public half, or over an engine, for more than 256 agents, a digest of all names and keys.

    Raises
    ------
    InputError
        If the agent is not in the roster, or the data do not fit the round.
    """

    def __init__(
        self,
        name: str,
        round: Round | Plan,
        calibration: Calibration,
        *,
        allow_samples: bool = False,
        limit: DisclosureLimit | None = USUAL_LIMIT,
        budget: Budget | None = None,
        rng: Random | None = None,
        sign_key: SigningKey | None = None,
    ) -> None:
        self.name = name
        self.plan = round if isinstance(round, Plan) else Plan.of(round)
        if not self.plan.round.expects(name):
            known = ", ".join(self.plan.round.agents)
            raise InputError(f"agent {name!r} is not in the round; its agents: {known}")
        if sign_key is not None:
            sign_key.check(self.plan.round, name)
        elif self.plan.round.signed:
            raise InputError(
                "this round takes signed answers alone: pass this agent's key{cure}",
                cure=(", sign_key=SigningKey(path)", " with --sign-key"),
            )
        self.plan.check(calibration)
        self._calibration = calibration
        self._allow_samples = allow_samples or (limit is not None and limit.share == 1)
        self._limit = None if allow_samples else limit
        self._budget = budget
        self._rng = rng or _SystemRandom(PCG64())
        self._sign_key = sign_key
        self._answered: dict[int, tuple[Ask, bytes]] = {}

    def answer(self, ask: bytes | None = None) -> bytes:
        """Answer one question of the server.

        A step is answered once: asked again, it gets the same bytes, since a second answer with
        fresh noise, or to another question, would tell more.
        """
        asked = self._asked(ask)
        if asked.step not in self._answered:
            self._answered[asked.step] = asked, self._charged(asked)
        question, answer = self._answered[asked.step]
        if question != asked:
            raise WrongRoundError("server", "step", f"step {asked.step} asked another question")
        return answer

    def _asked(self, ask: bytes | None) -> Ask:
        """Read a question; the terms of the round imply the first one, and no later one is it."""
        id = self.plan.round.id
        first = Ask(id, 0, tuple(Begin() for _ in self.plan.tasks))
        if ask is None:
            return first
        asked = decode(ask, Ask, self.plan.kinds, "server")
        if asked.round != id:
            raise WrongRoundError(
                "server", "round", f"the question is of round {asked.round}, not {id}"
            )
        if len(asked.questions) != len(self.plan.tasks):
            raise WrongRoundError(
                "server",
                "questions",
                f"must be {len(self.plan.tasks)}, one for each threshold of the round, got "
                f"{len(asked.questions)}",
            )
        begins = any(isinstance(question, Begin) for question in asked.questions)
        if asked != first and (begins or asked.step < 1):
            raise WrongRoundError("server", "step", "the first question is asked in step 0 alone")
        if asked.step:
            self._check_schedule(asked)
        return asked

    def _check_schedule(self, asked: Ask) -> None:
        """Refuse a question that the method's dialogue does not ask in this step.

        Where the server loses an agent, its dialogue begins again without it: the quorum says how
        many it can lose.
        """
        round, cal = self.plan.round, self._calibration
        agents = len(round.agents) if round.roster is None else round.roster.count
        kinds = self.plan.method.schedule(agents, cal.n_classes or round.n_classes)[1:]
        again = (agents - round.quorum) * (1 + sum(often for _, often in kinds))
        steps, last = dict[type[Question], tuple[int, int]](), again
        for place, (kind, often) in enumerate(kinds, start=1):
            last += often
            steps[kind] = place, last
        ends = last if steps else 0
        for question in asked.questions:
            first, last = (1, ends) if question is None else steps.get(type(question), (1, 0))
            if not first <= asked.step <= last:
                planned = "; ".join(f"{k.kind} in steps {a} to {b}" for k, (a, b) in steps.items())
                raise WrongRoundError(
                    "server",
                    "step",
                    f"{round.method.name} with these settings asks {planned or 'nothing more'}, "
                    f"not {'an empty question' if question is None else question.kind} "
                    f"in step {asked.step}",
                )

    def _charged(self, asked: Ask) -> bytes:
        """Compute an answer, within the privacy budget where there is one."""
        if self._budget is None or not any(asked.questions):  # where no point is of the group
            return self._answer(asked)
        round = self.plan.round
        question = sha256(encode(round) + self.name.encode() + encode(asked)).hexdigest()
        return self._budget.answer(round.id, question, self.spends, lambda: self._answer(asked))

    @property
    def spends(self) -> float:
        """The epsilon of one answer: levels and columns add up, disjoint groups do not."""
        # not by the levels of the tasks: two that differ may be the same once divided by columns
        thresholds = len(self.plan.round.alphas) * self.plan.score.columns
        return float(Decimal(str(self.plan.method.spends)) * thresholds)

    def _answer(self, asked: Ask) -> bytes:
        """Compute an answer."""
        round = self.plan.round
        if self._limit is not None and self.spends > PRIVATE_EPSILON:
            self._limit.check(self.plan, self._calibration, asked.step + 1)
        answers = tuple(
            None if question is None else self._summary(question, task)
            for question, task in zip(asked.questions, self.plan.tasks, strict=True)
        )
        answer = Answer(
            round=round.id,
            terms=self.plan.terms,
            step=asked.step,
            agent=self.name,
            method=round.method.name,
            score=round.score.name,
            alphas=round.alphas,
            answers=answers,
        )
        if self._sign_key is not None:
            ask = encode(asked) if asked.step else b""
            answer = self._sign_key.sign(answer, self.plan, ask)
        return encode(answer)

    def _summary(self, question: Question, task: Task) -> Summary | None:
        """Answer one question for one task; nothing where there is no point of its group."""
        round, method = self.plan.round, self.plan.method
        cal = part_of(round, self._calibration.column(task.column), task.group)
        if task.group is not None and not cal.n and not method.hides_absence:
            return None
        summary = method.answer(cal, question, task.alpha, self._rng)
        if not isinstance(summary, Summary):
            raise InputError(f"only a Summary can leave an agent, got {type(summary).__name__}")
        if summary.reveals == "samples" and not self._allow_samples:
            raise InputError(
                f"{round.method.name} with these settings sends all scores of single people; "
                "allow it with {cure}, or choose settings that do not",
                cure=("allow_samples=True", "--allow-samples"),
            )
        return summary


class _SystemRandom(Random):
    """A generator whose bytes, from which private noise is made, come from the system itself."""

    def bytes(self, length: int) -> bytes:
        """Return bytes that nobody can predict, also from earlier ones."""
        return os.urandom(length)


__all__ = ["USUAL_LIMIT", "Agent", "DisclosureLimit", "localize", "thresholds"]
