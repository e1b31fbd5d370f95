"""What liars do to every method: rounds through the same messages as in the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fedwqcp import methods
from fedwqcp.arrays import Floats
from fedwqcp.errors import QuorumError
from fedwqcp.federation.agent import Agent, localize
from fedwqcp.federation.plan import Plan, choose_method, choose_score, new_id
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration
from fedwqcp.wire.round import Round
from fedwqcp_lab.evaluation import Measured, Scored, fits, method_of, prepare
from fedwqcp_lab.evaluation import code_versions as code
from fedwqcp_lab.experiment import MethodPlan, PresetPlan
from fedwqcp_lab.liars_forgery import KINDS, forged
from fedwqcp_lab.liars_record import NOBODY, Lied
from fedwqcp_lab.liars_rows import COMPONENTS, FEW, PLAIN, ROBUST
from fedwqcp_lab.unit import Setting, Unit

UNBOUNDED = 10_000_000
"""The default of a round's ``max_n``."""


@dataclass(frozen=True)
class _Unchecked(Plan):
    """The same plan at an agent that does not look at its own data before it answers."""

    def check(self, cal: Calibration) -> None:
        del cal  # a liar lets everything pass


def evaluate(
    unit: Unit, presets: Sequence[PresetPlan], alpha: float, most: int = 3
) -> tuple[Lied, ...]:
    """Try every lie on every method.

    Parameters
    ----------
    unit : Unit
        Saved model outputs.
    presets : sequence of PresetPlan
        Under which presets.
    alpha : float
        Miscoverage level.
    most : int, optional
        Largest number of liars.

    Returns
    -------
    tuple of Lied
        One for each preset, method, lie, number of liars and bound on sizes.
    """
    found: list[Lied] = []
    for preset in presets:
        scored = prepare(unit, preset)
        for plan in (*PLAIN, *ROBUST):
            if fits(plan, unit.setting.task, scored.score):
                found += _Trial(unit.setting, scored, plan, alpha).records(most)
    return tuple(found)


class _Trial:
    """One method on one unit under one preset."""

    def __init__(self, setting: Setting, scored: Scored, plan: MethodPlan, alpha: float) -> None:
        self._robust = plan in ROBUST
        plan = _fewer_than_half(plan, len(scored.calibrations))
        self._setting, self._scored, self._plan, self._alpha = setting, scored, plan, alpha
        known = methods.find(plan.method).score_range or scored.score.bounds(setting.n_classes)
        self._highest = known[1]
        self._honest = {name: _fit(cal, self._highest) for name, cal in scored.calibrations.items()}
        self._known: dict[tuple[str, bytes], Measured] = {}
        self._truth = self._round(self._honest, (), UNBOUNDED)

    def records(self, most: int) -> list[Lied]:
        """Return what every lie did."""
        everyone = tuple(self._honest)
        found = [self._record(NOBODY, [()], bounded=False)]
        for count in range(1, min(most, len(everyone) - 1) + 1):  # someone must be honest
            choices = list(combinations(everyone, count))
            method = methods.get(self._plan.method, **self._plan.settings)
            if method.corrects_shift_of == "features":  # densities are slow
                choices = choices[:: -(-len(choices) // FEW)]
            found += [self._record(kind, choices, bounded=False) for kind in KINDS]
            found.append(self._record("huge n", choices, bounded=True))
        return found

    def _record(self, lie: str, choices: Sequence[tuple[str, ...]], *, bounded: bool) -> Lied:
        """Return what one lie did, for every choice of the liars."""
        rows = [self._lied(lie, liars, bounded=bounded) for liars in choices]
        coverage, truthful, size, truthful_size, threshold, refused = zip(*rows, strict=True)
        setting = self._setting
        return Lied(
            dataset=setting.dataset,
            title=setting.title,
            status=setting.status,
            task=setting.task,
            seed=setting.seed,
            alpha=self._alpha,
            preset=self._scored.preset.name,
            method=self._plan.name,
            robust=self._robust,
            lie=lie,
            liars=len(choices[0]),
            bounded=bounded,
            coverage=coverage,
            truthful=truthful,
            size=size,
            truthful_size=truthful_size,
            threshold=threshold,
            refused=refused,
            code=code(),
        )

    def _lied(
        self, lie: str, liars: tuple[str, ...], *, bounded: bool
    ) -> tuple[float, float, float, float, float, int]:
        """Hold one round, and measure the honest agents with and without the lie."""
        told = self._honest
        if liars:
            told = forged(lie, told, liars, alpha=self._alpha, highest=self._highest)
        max_n = max(1, *(cal.n for cal in self._honest.values())) if bounded else UNBOUNDED
        thresholds, refused = self._round(told, liars, max_n) if liars else self._truth
        names = [name for name in self._honest if name not in liars]
        with_lie = [self._measured(name, thresholds[name]) for name in names]
        without = [self._measured(name, self._truth[0][name]) for name in names]
        return (
            min(m.hits / m.n for m in with_lie),
            min(m.hits / m.n for m in without),
            _rounded(np.mean([m.size for m in with_lie])),
            _rounded(np.mean([m.size for m in without])),
            _rounded(np.mean([np.mean(thresholds[name]) for name in names])),
            refused,
        )

    def _round(
        self, told: Mapping[str, Calibration], liars: Sequence[str], max_n: int
    ) -> tuple[dict[str, Floats], int]:
        """Hold a round; return the honest agents' thresholds, and how many liars were refused.

        Where refused liars leave too few agents for what the method is to withstand, the round is
        held again for fewer.
        """
        try:
            return self._held(self._plan, told, liars, max_n)
        except QuorumError:
            fewer = _fewer_than_half(self._plan, len(told) - len(liars))
            return self._held(fewer, told, liars, max_n)

    def _held(
        self, row: MethodPlan, told: Mapping[str, Calibration], liars: Sequence[str], max_n: int
    ) -> tuple[dict[str, Floats], int]:
        """Hold one round."""
        setting, scored = self._setting, self._scored
        round = Round(
            id=new_id(),
            method=choose_method(method_of(setting, row, scored)),
            score=choose_score(scored.score),
            alphas=(self._alpha,),
            agents=tuple(told),
            quorum=1,
            max_n=max_n,
            rule=scored.rule(row),
            n_classes=next(cal.n_classes for cal in told.values()),
        )
        plan = Plan.of(round)
        careless = _Unchecked(plan.round, plan.method, plan.score, plan.tasks)
        agents = {
            name: Agent(
                name,
                careless if name in liars else plan,
                cal,
                allow_samples=row.samples,
                limit=None,
            )
            for name, cal in told.items()
        }
        server = Server(plan)
        while not server.ended:
            for name, ask in server.asks().items():
                answer = agents[name].answer(ask if server.step else None)
                server.receive(answer, source=name, sender=name)
            server.close_step()
        release = server.release()
        honest = {name: cal for name, cal in told.items() if name not in liars}
        found = {name: localize(plan, release, name, 0, cal) for name, cal in honest.items()}
        return found, sum(name in release.refused for name in liars)

    def _measured(self, name: str, threshold: Floats) -> Measured:
        """Measure an agent's sets, once for each threshold."""
        key = name, np.asarray(threshold).tobytes()
        if key not in self._known:
            q = float(threshold) if np.ndim(threshold) == 0 else threshold
            rule = self._scored.rule(self._plan)
            self._known[key] = self._scored.boards[name].measure(q, rule)
        return self._known[key]


def _fit(cal: Calibration, highest: float) -> Calibration:
    """Return data that every method takes: sums in float32 may pass the end of a scale."""
    features = None if cal.features is None else cal.features[:, :COMPONENTS]
    return Calibration(np.minimum(cal.scores, highest), cal.labels, features, cal.n_classes)


def _rounded(value: np.floating) -> float:
    """Return a number with as many digits as tables can need."""
    return float(f"{value:.6g}")


def _fewer_than_half(plan: MethodPlan, agents: int) -> MethodPlan:
    """Ask a method to withstand no more Byzantine agents than so many agents can."""
    if "byzantine" not in plan.settings:
        return plan
    most = min(int(str(plan.settings["byzantine"])), (agents - 1) // 2)
    return replace(plan, settings={**plan.settings, "byzantine": most})
