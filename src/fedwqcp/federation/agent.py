"""An agent: it holds the calibration data, and only summaries leave it."""

from __future__ import annotations

import os
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256

from numpy.random import PCG64
from numpy.random import Generator as Random

from fedwqcp.errors import DisclosureError, InputError, WrongRoundError
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.disclosure_limit import (
    PRIVATE_EPSILON,
    USUAL_LIMIT,
    DisclosureLimit,
    too_little_noise,
)
from fedwqcp.federation.plan import Plan, Task, part_of
from fedwqcp.federation.privacy_budget import LEAST_EPSILON, Budget
from fedwqcp.federation.signing import SigningKey
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import Kinds, decode, encode
from fedwqcp.wire.messages import Ask, Begin, Question, Round, Summary, unknown_agent
from fedwqcp.wire.release import ReleaseRecord


class Agent:
    """The side of the dialogue that holds the data.

    Parameters
    ----------
    name : str
        Its name in the roster.
    round : Round or Plan
        The terms as it received them, or the plan made of them.
    calibration : Calibration
        Its data; they stay here.
    allow_samples : bool, optional
        Whether scores of single people may leave without a limit, as many as the round asks for.
    limit : DisclosureLimit or None, optional
        How many may leave otherwise; None where agents are only simulated.
    budget : Budget, optional
        Differential privacy that its data may spend. With it only private methods are answered;
        what they spend is on disk before the answer leaves.
    ledger : DisclosureLedger, optional
        What was told of its data in all rounds; with it the limit holds over all of them.
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
        ledger: DisclosureLedger | None = None,
        rng: Random | None = None,
        sign_key: SigningKey | None = None,
    ) -> None:
        self.name = name
        self.plan = round if isinstance(round, Plan) else Plan.of(round)
        if not self.plan.round.expects(name):
            raise InputError(unknown_agent(name, self.plan.round.agents))
        if sign_key is not None:
            sign_key.check(self.plan.round, name)
        elif self.plan.round.signed:
            raise InputError(
                "this round takes signed answers alone",
                cure=(
                    "pass this agent's key, sign_key=SigningKey(path)",
                    "pass this agent's key with --sign-key",
                ),
            )
        self.plan.check(calibration)
        self._rng = rng or _SystemRandom(PCG64())
        most = self.plan.round.max_n
        if self.plan.traits.private and calibration.n > most:  # to refuse would tell of the size
            calibration = calibration.take(self._rng.choice(calibration.n, most, replace=False))
        self._calibration = calibration
        self._limit = None if allow_samples else limit
        self._budget = budget
        self._ledger = ledger if budget is None else None  # a budget counts for itself
        self._sign_key = sign_key
        self._answered: dict[int, tuple[Ask, bytes]] = {}

    def answer(self, ask: bytes | None = None) -> bytes:
        """Answer one question of the server.

        A step is answered once: asked again, it gets the same bytes, since a second answer with
        fresh noise, or to another question, would reveal more.
        """
        asked = self._asked(ask)
        if asked.step not in self._answered:
            self._answered[asked.step] = asked, self._charged(asked)
        question, answer = self._answered[asked.step]
        if question != asked:
            raise WrongRoundError("server", "step", f"step {asked.step} asked another question")
        return answer

    def _asked(self, ask: bytes | None) -> Ask:
        """Read a question; the terms imply the first one, which no later step may ask again."""
        id, first = self.plan.round.id, self.plan.first_ask
        asked = first if ask is None else _read(ask, self.plan.kinds)
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
        begins = Begin in map(type, asked.questions)
        if asked is not first and asked != first and (begins or asked.step < 1):
            raise WrongRoundError("server", "step", "the first question is asked in step 0 alone")
        self._check_schedule(asked)
        return asked

    def _check_schedule(self, asked: Ask) -> None:
        """Refuse a question that the method's dialogue does not ask in this step.

        Where the server loses an agent, its dialogue begins again without it: the quorum says how
        many it can lose.
        """
        round, cal = self.plan.round, self._calibration
        agents = len(round.agents) if round.roster is None else round.roster.count
        schedule = self.plan.method.schedule(agents, cal.n_classes or round.n_classes)
        if not asked.step and schedule:
            return
        if not asked.step:
            raise InputError(
                f"{round.method.name} with these settings sends nothing: predict with the agent's "
                "own calibration data",
                cure=("", "`agent predict --calibration` takes them when the round is closed"),
            )
        last = (agents - round.quorum) * sum(often for _, often in schedule)
        steps = dict[type[Question], tuple[int, int]]()
        for step, (kind, often) in enumerate(schedule[1:], start=1):
            last += often
            steps[kind] = step, last
        ends = last if steps else 0
        for question in asked.questions:
            first, last = (1, ends) if question is None else steps.get(type(question), (1, 0))
            if not first <= asked.step <= last:
                what = "nothing" if question is None else question.kind
                raise WrongRoundError(
                    "server",
                    "step",
                    f"{round.method.name} with these settings never asks {what} in step "
                    f"{asked.step}",
                )

    def _charged(self, asked: Ask) -> bytes:
        """Compute an answer, within the privacy budget where there is one."""
        if self._budget is None or not any(asked.questions):  # None asks nothing, and costs nothing
            return self._answer(asked)
        round = self.plan.round
        question = sha256(encode(round) + self.name.encode() + encode(asked)).hexdigest()
        return self._budget.answer(round.id, question, self.spends, lambda: self._answer(asked))

    @property
    def spends(self) -> float:
        """The epsilon of one answer: levels, columns and the groups of a point add up.

        At least `LEAST_EPSILON`, so that questions that cost next to nothing cannot add up.
        """
        # by the levels of the round: of the tasks, two may be equal once divided by the columns
        round = self.plan.round
        thresholds = len(round.alphas) * self.plan.score.columns * round.max_groups
        return max(LEAST_EPSILON, float(Decimal(str(self.plan.traits.spends)) * thresholds))

    def _answer(self, asked: Ask) -> bytes:
        private = self.plan.traits.private
        # a site that set a budget has said what private answers may tell
        limit = None if private and self._budget is not None else self._limit
        if limit is not None and not private:
            limit.check(self.plan, self._calibration, asked.step + 1)
        if limit is not None and private and self.spends > PRIVATE_EPSILON:
            raise too_little_noise(self.spends)
        pairs = zip(asked.questions, self.plan.tasks, strict=True)
        answers = tuple([None if q is None else self._summary(q, task) for q, task in pairs])
        if self._ledger is not None and any(asked.questions):
            self._ledger.charge(
                self.plan,
                self._calibration,
                asked,
                answers,
                limit=limit,
                epsilon=self.spends,
            )
        if limit is not None and private:
            answers = self._without_small_groups(answers, limit.min_class)
        answer = self.plan.answer(self.name, answers, asked.step)
        if self._sign_key is not None:
            ask = encode(asked) if asked.step else b""
            answer = self._sign_key.sign(answer, self.plan, ask)
        return encode(answer)

    def _without_small_groups(
        self, answers: tuple[Summary | None, ...], least: int
    ) -> tuple[Summary | None, ...]:
        """Leave out groups whose private sizes do not show that they have so many points.

        Where a round has none, it may name one class alone: it is refused after it was charged.
        """
        sized = [
            (task.group, answer)
            for task, answer in zip(self.plan.tasks, answers, strict=True)
            if answer is not None
        ]
        small = {group for group, answer in sized if any(n < least for n in answer.sizes())}
        if None in small:
            raise DisclosureError(f"this private round is of fewer than {least} points")
        return tuple(
            None if task.group in small else answer
            for task, answer in zip(self.plan.tasks, answers, strict=True)
        )

    def _summary(self, question: Question, task: Task) -> Summary | None:
        """Answer one question for one task; nothing where there is no point of its group."""
        round, method = self.plan.round, self.plan.method
        cal = part_of(round, self._calibration.column(task.column), task.group)
        if task.group is not None and not cal.n and not method.traits.private:
            return None
        summary = method.answer(cal, question, task.alpha, self._rng)
        if not isinstance(summary, Summary):
            raise InputError(f"only a Summary can leave an agent, got {type(summary).__name__}")
        return summary


def check_answered(release: ReleaseRecord, agent: str, cal: Calibration) -> None:
    """Refuse data that would not have given the answer that an agent sent: no promise is theirs."""
    plan = Plan.of(release.round)
    local = plan.traits.predicts_from_own_data
    if not local or release.rounds != 1 or release.round.signed or release.census:
        return
    sent, size = release.record(agent), len(Agent(agent, plan, cal, limit=None).answer())
    if sent.status == "used" and size != sent.bytes_up:
        raise InputError(
            f"is not what {agent} answered the round with, so nothing is promised with it: name "
            "the file that answered, or open a new round for other data",
            field="--calibration",
        )


@lru_cache(maxsize=1)
def _read(ask: bytes, kinds: Kinds) -> Ask:
    """Read a question; agents of one process that are all asked the same share what is read."""
    return decode(ask, Ask, kinds, "server")


class _SystemRandom(Random):
    """A generator whose bytes, from which private noise is made, come from the system itself."""

    def bytes(self, length: int) -> bytes:
        """Return bytes that nobody can predict, also from earlier ones."""
        return os.urandom(length)
