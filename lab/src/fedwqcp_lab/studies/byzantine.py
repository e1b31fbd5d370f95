"""Byzantine agents: what attacks do to every method, through the same messages as in the field.

One, two and three agents are Byzantine. They run the honest program on forged scores, so every
message is well formed and all answers of an agent agree with one another, whatever the method asks;
labels and features stay the agent's own. The study reads model outputs that an experiment saved.
Its records become tables and a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError, QuorumError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method, choose_score, new_id
from fedwqcp.federation.predict import localize
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import local
from fedwqcp.files import write_atomic
from fedwqcp.methods import Calibration
from fedwqcp.quantile import conformal_quantile
from fedwqcp.report.figures import method_style, new_figure, require_matplotlib, save
from fedwqcp.wire.messages import MAX_N, Round
from fedwqcp_lab import unit as units
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.datasets.partition import Floats
from fedwqcp_lab.evaluation import (
    Scored,
    SetMetrics,
    code_versions,
    fits,
    limited,
    method_of,
    prepare,
    record_head,
    target_of,
)
from fedwqcp_lab.experiment import MethodPlan, PresetPlan, embedded, paper
from fedwqcp_lab.pipeline import Folder, workers
from fedwqcp_lab.results import Journal, MethodRecord, make_out
from fedwqcp_lab.unit import Unit, UnitSetting

PRESETS = ("sound", "paper")
"""The presets that the study uses, in this order."""

VERSION = 2
"""Version of the records; a file of another version is refused."""

ATTACKS = ("too high", "too low", "huge n", "colluding", "copying")
"""What Byzantine agents do.

``too high``: every score is the largest that admission lets pass. ``too low``: every score is the
smallest of the agent's range of residuals or probabilities, 0. ``huge n``: the same, `TIMES` as
many. ``colluding``: all halve their scores alike, so that each is confirmed by the others.
``copying``: all send what the honest agent with the smallest threshold sends.
"""

NOBODY = "nobody"
"""The attack of a round where everyone is honest."""

TIMES = 100
"""How many times its own size an agent claims under ``huge n``."""

FAR = 1000.0
"""How many times the largest score of all is claimed where a score has no upper bound."""

ROBUST = (
    MethodPlan(name="weighted-median-cp", method="weighted-median-cp"),
    MethodPlan(name="trimmed-mean-cp", method="trimmed-mean-cp", settings={"byzantine": 2}),
    MethodPlan(name="rob-fcp", method="rob-fcp", settings={"byzantine": 2}),
    MethodPlan(name="rob-fcp (number unknown)", method="rob-fcp"),
    MethodPlan(name="guarded-median-cp", method="guarded-median-cp"),
    MethodPlan(
        name="guarded-median-cp (slack 0.2)", method="guarded-median-cp", settings={"slack": 0.2}
    ),
)
"""Methods that are meant to withstand Byzantine agents, set up for two where they take a number."""

PLAIN = (
    *(
        MethodPlan(name=name, method=name)
        for name in ("split-cp", "fedwq-cp", "fedavgq-cp", "fcp", "fedcp-qq", "fedls-cp")
    ),
    MethodPlan(name="cphet", method="cphet", target="own"),
    MethodPlan(name="dp-fedcp", method="dp-fedcp", target="training", settings={"solver": "exact"}),
)
"""The other methods, but ``private-fedwq-cp`` (FedWQ-CP with noise) and ``fed-crc`` (another risk).

CPhet aims at each agent's own distribution, in few components of the inputs.
"""

COMPONENTS = 4
"""Principal components that CPhet sees here: 32 take seconds a round."""

FEW = 3
"""Choices of agents that stand for all, for methods that estimate densities and stay slow."""

LEGEND = """\
Six agents, of whom one, two or three are Byzantine. A change is the coverage of the worst honest
agent less what the worst of the same agents has without an attack; over every choice of the
Byzantine agents and all seeds. CPhet: over three choices."""

KEPT = 0.02
"""How far the worst honest agent's coverage may move for a method to have kept it."""

BOUNDED = ", max_n set"
"""What is added to an attack's name where sizes were bounded."""

FIGURE_METHODS = (
    "fedwq-cp",
    "fcp",
    "weighted-median-cp",
    "trimmed-mean-cp",
    "rob-fcp",
    "guarded-median-cp",
)
"""The methods of the figure."""

AttackKey: TypeAlias = tuple[str, int, str, str, str, int, bool]
"""Dataset, seed, preset, method, attack, number of Byzantine agents, whether sizes were bounded."""


@dataclass(frozen=True, kw_only=True)
class AttackResult(MethodRecord):
    """What one attack did, for every choice of the Byzantine agents.

    Parameters
    ----------
    robust : bool
        Whether the method is meant to withstand Byzantine agents.
    attack : str
        The attack; `NOBODY` for the honest round.
    byzantine : int
        How many agents were Byzantine.
    bounded : bool
        Whether the round's ``max_n`` was the largest honest size, not the default.
    coverage : tuple of float
        Coverage of the worst honest agent, for each choice.
    truthful : tuple of float
        The same without the attack: the worst of the same agents.
    size, truthful_size : tuple of float
        Mean size of the honest agents' sets, with and without the attack.
    threshold : tuple of float
        Mean threshold of the honest agents.
    refused : tuple of int
        How many Byzantine agents the server refused.
    code : str
        Versions of the software.
    version : int
        Version of the format.
    """

    robust: bool
    attack: str
    byzantine: int
    bounded: bool
    coverage: tuple[float, ...]
    truthful: tuple[float, ...]
    size: tuple[float, ...]
    truthful_size: tuple[float, ...]
    threshold: tuple[float, ...]
    refused: tuple[int, ...]
    code: str
    version: int = VERSION

    def __post_init__(self) -> None:
        lists = (self.truthful, self.size, self.truthful_size, self.threshold, self.refused)
        if not self.coverage or any(len(each) != len(self.coverage) for each in lists):
            raise InputError(
                "must be one for each choice of Byzantine agents, as all lists", field="coverage"
            )

    @property
    def key(self) -> AttackKey:
        """What no two records share."""
        row = self.dataset, self.seed, self.preset, self.method
        return (*row, self.attack, self.byzantine, self.bounded)

    @property
    def changes(self) -> tuple[float, ...]:
        """How far the attack moved the worst honest agent's coverage."""
        return tuple(a - b for a, b in zip(self.coverage, self.truthful, strict=True))


def run(
    outputs: Path,
    out: Path,
    *,
    datasets: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    on_step: Callable[[str, float], None] | None = None,
) -> tuple[AttackResult, ...]:
    """Try every attack on every method, on saved model outputs, and write the records."""
    found = saved(outputs, datasets, seeds)
    records: list[AttackResult] = []
    with workers(evaluate_saved, jobs=jobs) as pool:
        for folder in found:
            pool.submit(folder)
        for done, made in enumerate(pool.finished(wait=True), 1):
            records += made
            if on_step is not None:
                on_step(f"{made[0].dataset}: seed {made[0].seed} done", done / len(found))
    make_out(out)
    journal_of(out).write_compressed(records)
    return tuple(records)


def saved(
    outputs: Path, datasets: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> tuple[Path, ...]:
    """Return the folders of the units whose model outputs are there."""
    folder = Folder(outputs, outputs)
    known = [
        (experiment, plan.name)
        for experiment in (paper(), embedded())
        for plan in experiment.datasets
    ]
    found = tuple(
        path
        for experiment, name in known
        for seed in experiment.seeds
        if (datasets is None or name in datasets) and (seeds is None or seed in seeds)
        if units.found(path := folder.unit(experiment, (name, seed)))
    )
    if not found:
        raise InputError(
            f"{outputs} must hold model outputs of the datasets and seeds asked for: make them "
            "with fedwqcp-lab reproduce --quick, and pass its OUT/outputs"
        )
    return found


def evaluate_saved(path: Path) -> tuple[AttackResult, ...]:
    """Try every attack on every method, on one unit's saved model outputs."""
    experiment = paper()
    known = {preset.name: preset for preset in experiment.presets}
    presets = [known[name] for name in PRESETS]
    return evaluate(units.load(path), presets, experiment.alpha)


def evaluate(
    unit: Unit, presets: Sequence[PresetPlan], alpha: float, most: int = 3
) -> tuple[AttackResult, ...]:
    """Try every attack on every method, with up to ``most`` Byzantine agents."""
    found: list[AttackResult] = []
    for preset in presets:
        scored = prepare(unit, preset)
        for plan in (*PLAIN, *ROBUST):
            if fits(plan, unit.setting.task, scored.score):
                found += _Trial(unit.setting, scored, plan, alpha).records(most)
    return tuple(found)


def attacked(
    attack: str,
    honest: Mapping[str, Calibration],
    byzantine: Sequence[str],
    *,
    alpha: float,
    highest: float,
) -> dict[str, Calibration]:
    """Return the calibration data that every agent runs the honest program on."""
    if attack not in ATTACKS:
        raise InputError(f"an attack must be one of {', '.join(ATTACKS)}, got {attack!r}")
    if attack == "copying":
        others = [name for name in honest if name not in byzantine and honest[name].n]
        low = min(others, key=lambda name: conformal_quantile(honest[name].scores, alpha, "clip"))
        return {name: honest[low] if name in byzantine else cal for name, cal in honest.items()}
    if highest == inf:
        highest = FAR * max(float(cal.scores.max()) for cal in honest.values() if cal.n)
    sent, times = dict(honest), TIMES if attack == "huge n" else 1
    for name in byzantine:
        cal, scores = honest[name], np.zeros(honest[name].n)
        if attack == "too high":
            scores = np.full(cal.n, highest)
        elif attack == "colluding":
            scores = cal.scores / 2
        sent[name] = Calibration(
            np.tile(scores, times),
            None if cal.labels is None else np.tile(cal.labels, times),
            None if cal.features is None else np.tile(cal.features, (times, 1)),
            cal.n_classes,
        )
    return sent


def journal_of(folder: Path) -> Journal[AttackResult]:
    """Return the records of a study in a folder."""
    return Journal(folder / "records.jsonl", AttackResult)


@dataclass(frozen=True)
class _Unchecked(Plan):
    """The plan of a Byzantine agent, which does not check its own data before it answers."""

    def check(self, cal: Calibration) -> None:
        del cal  # everything passes


class _Trial:
    """One method on one unit under one preset."""

    def __init__(
        self, setting: UnitSetting, scored: Scored, plan: MethodPlan, alpha: float
    ) -> None:
        self._robust = plan in ROBUST
        plan = _fewer_than_half(plan, len(scored.calibrations))
        self._setting, self._scored, self._plan, self._alpha = setting, scored, plan, alpha
        traits = methods.get(plan.method, **plan.settings).traits
        self._highest = (traits.score_range or scored.score.bounds(setting.n_classes))[1]
        cals = scored.calibrations.items()
        self._honest = {name: limited(cal, self._highest, COMPONENTS) for name, cal in cals}
        self._known: dict[tuple[str, bytes], SetMetrics] = {}
        self._slow = traits.corrects_shift_of == "features"  # densities
        self._truth = self._round(self._honest, (), MAX_N)

    def records(self, most: int) -> list[AttackResult]:
        """Return what every attack did."""
        everyone = tuple(self._honest)
        found = [self._record(NOBODY, [()], bounded=False)]
        for count in range(1, min(most, len(everyone) - 1) + 1):  # someone must be honest
            choices = list(combinations(everyone, count))
            if self._slow:
                choices = choices[:: -(-len(choices) // FEW)]
            found += [self._record(attack, choices, bounded=False) for attack in ATTACKS]
            found.append(self._record("huge n", choices, bounded=True))
        return found

    def _record(
        self, attack: str, choices: Sequence[tuple[str, ...]], *, bounded: bool
    ) -> AttackResult:
        """Return what one attack did, for every choice of the Byzantine agents."""
        rows = [self._attack(attack, agents, bounded=bounded) for agents in choices]
        coverage, truthful, size, truthful_size, threshold, refused = zip(*rows, strict=True)
        return AttackResult(
            **record_head(self._setting, self._scored, self._plan, self._alpha),
            robust=self._robust,
            attack=attack,
            byzantine=len(choices[0]),
            bounded=bounded,
            coverage=coverage,
            truthful=truthful,
            size=size,
            truthful_size=truthful_size,
            threshold=threshold,
            refused=refused,
            code=code_versions(),
        )

    def _attack(
        self, attack: str, byzantine: tuple[str, ...], *, bounded: bool
    ) -> tuple[float, float, float, float, float, int]:
        """Hold one round, and measure the honest agents with and without the attack."""
        sent = self._honest
        if byzantine:
            sent = attacked(attack, sent, byzantine, alpha=self._alpha, highest=self._highest)
        max_n = max(1, *(cal.n for cal in self._honest.values())) if bounded else MAX_N
        thresholds, refused = self._round(sent, byzantine, max_n) if byzantine else self._truth
        names = [name for name in self._honest if name not in byzantine]
        under_attack = [self._measured(name, thresholds[name]) for name in names]
        without = [self._measured(name, self._truth[0][name]) for name in names]
        return (
            min(m.hits / m.n_test for m in under_attack),
            min(m.hits / m.n_test for m in without),
            _rounded(np.mean([m.size for m in under_attack])),
            _rounded(np.mean([m.size for m in without])),
            _rounded(np.mean([np.mean(thresholds[name]) for name in names])),
            refused,
        )

    def _round(
        self, sent: Mapping[str, Calibration], byzantine: Sequence[str], max_n: int
    ) -> tuple[dict[str, Floats], int]:
        """Hold a round; return the honest agents' thresholds, and how many agents were refused.

        Where refusals leave too few agents for what the method is to withstand, the round is held
        again for fewer.
        """
        try:
            return self._held(self._plan, sent, byzantine, max_n)
        except QuorumError:
            fewer = _fewer_than_half(self._plan, len(sent) - len(byzantine))
            return self._held(fewer, sent, byzantine, max_n)

    def _held(
        self, row: MethodPlan, sent: Mapping[str, Calibration], byzantine: Sequence[str], max_n: int
    ) -> tuple[dict[str, Floats], int]:
        """Hold one round."""
        setting, scored = self._setting, self._scored
        round = Round(
            id=new_id(),
            method=choose_method(method_of(setting, row, scored)),
            score=choose_score(scored.score),
            alphas=(self._alpha,),
            agents=tuple(sent),
            quorum=1,
            max_n=max_n,
            rule=scored.rule(row),
            n_classes=next(cal.n_classes for cal in sent.values()),
            target=target_of(setting, row),
        )
        plan = Plan.of(round)
        unchecked = _Unchecked(plan.round, plan.method, plan.score, plan.tasks)
        agents = {
            name: Agent(name, unchecked if name in byzantine else plan, cal, limit=None)
            for name, cal in sent.items()
        }
        release = local.run(Server(plan), agents, strict=False)
        honest = {name: cal for name, cal in sent.items() if name not in byzantine}
        found = {name: localize(plan, release, name, 0, cal) for name, cal in honest.items()}
        return found, sum(name in release.refused for name in byzantine)

    def _measured(self, name: str, threshold: Floats) -> SetMetrics:
        """Measure an agent's sets, once for each threshold."""
        key = name, np.asarray(threshold).tobytes()
        if key not in self._known:
            q = float(threshold) if np.ndim(threshold) == 0 else threshold
            rule = self._scored.rule(self._plan)
            self._known[key] = self._scored.test_sets[name].measure(q, rule)
        return self._known[key]


def _rounded(value: np.floating) -> float:
    """Return a number with as many digits as tables can need."""
    return float(f"{value:.6g}")


def _fewer_than_half(plan: MethodPlan, agents: int) -> MethodPlan:
    """Ask a method to withstand no more Byzantine agents than its agents can."""
    if "byzantine" not in plan.settings:
        return plan
    most = min(int(str(plan.settings["byzantine"])), (agents - 1) // 2)
    return replace(plan, settings={**plan.settings, "byzantine": most})


def all_tables(records: Sequence[AttackResult]) -> dict[str, str]:
    """Return every table by its heading."""
    found = {}
    for preset in sorted({record.preset for record in records}, reverse=True):
        found[f"No attack, preset `{preset}`"] = cost(records, preset)
        for byzantine in sorted({record.byzantine for record in records if record.byzantine}):
            where = f"{byzantine} of six, preset `{preset}`"
            found[f"Coverage, {where}"] = effect(records, preset, byzantine)
            found[f"Size, {where}"] = sizes(records, preset, byzantine)
            found[f"Robust methods by dataset, {where}"] = coverage_by_dataset(
                records, preset, byzantine
            )
    return found


def write_tables(records: Sequence[AttackResult], out: Path) -> tuple[Path, ...]:
    """Write ``tables.md`` and ``two-byzantine-agents.svg``."""
    parts = ["# Effect of Byzantine agents", LEGEND]
    for heading, table in all_tables(records).items():
        parts += [f"## {heading}", table]
    page = out / "tables.md"
    write_atomic(page, ("\n\n".join(parts) + "\n").encode())
    return page, draw_attacks(records, "sound", 2, out / "two-byzantine-agents.svg")


def attacks_of(records: Iterable[AttackResult]) -> list[str]:
    """Return the attacks in the order of the tables; a bounded one follows the same without."""
    order = ("too high", "too low", "huge n", f"huge n{BOUNDED}", "colluding", "copying")
    there = {_attack(record) for record in records}
    return [name for name in order if name in there]


def cost(records: Sequence[AttackResult], preset: str) -> str:
    """Return what every method gives when everyone is honest."""
    own = [r for r in records if r.attack == NOBODY and r.preset == preset]
    datasets = _titles(own)
    rows = [["method", *(f"{title}: {what}" for title in datasets for what in ("worst", "size"))]]
    for method in _methods(own):
        row = [method]
        for title in datasets:
            here = [r for r in own if (r.method, r.display_title) == (method, title)]
            row.append(_number([r.coverage[0] for r in here], "{:.3f}"))
            row.append(_number([r.size[0] for r in here], "{:.2f}"))
        rows.append(row)
    return markdown_table(rows)


def effect(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how far attacks moved the worst honest agent's coverage."""

    def _cell(here: Sequence[AttackResult]) -> str:
        changes = _pooled(here)
        return f"{_signed(median(changes))} ({_signed(min(0.0, *changes))})"

    return _by_attack(records, preset, byzantine, _cell)


def sizes(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how much larger or smaller attacks made the honest agents' sets."""

    def _cell(here: Sequence[AttackResult]) -> str:
        pairs = [pair for r in here for pair in zip(r.size, r.truthful_size, strict=True)]
        ratios = [_ratio(*pair) for pair in pairs]
        return f"{median(ratios):.2f} ({max(ratios):.2f})"

    return _by_attack(records, preset, byzantine, _cell)


def _by_attack(
    records: Sequence[AttackResult],
    preset: str,
    byzantine: int,
    cell: Callable[[Sequence[AttackResult]], str],
) -> str:
    """Return a table with a row for each method and a column for each attack."""
    own = [r for r in records if (r.preset, r.byzantine) == (preset, byzantine)]
    attacks = attacks_of(own)
    rows = [["method", *attacks]]
    for method in _methods(own):
        here = [r for r in own if r.method == method]
        rows.append(
            [method, *(cell([r for r in here if _attack(r) == attack]) for attack in attacks)]
        )
    return markdown_table(rows)


def coverage_by_dataset(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how far attacks move the worst honest agent's coverage, by robust method and dataset.

    In bold where a single choice of Byzantine agents moves it by more than `KEPT`.
    """
    own = [r for r in records if (r.preset, r.byzantine) == (preset, byzantine) and r.robust]
    attacks = attacks_of(own)
    rows = [["method", "dataset", *attacks]]
    for method, title in product(_methods(own), _titles(own)):
        row = [method, title]
        for attack in attacks:
            here = [r for r in own if (r.method, r.display_title) == (method, title)]
            changes = _pooled(r for r in here if _attack(r) == attack)
            mark = "" if max(map(abs, changes)) <= KEPT else "**"
            ends = f"{_signed(min(changes))} to {_signed(max(changes))}"
            row.append(f"{mark}{_signed(median(changes))}{mark} ({ends})")
        rows.append(row)
    return markdown_table(rows)


def pooled_coverage(records: Iterable[AttackResult], method: str, attack: str) -> list[float]:
    """Return the worst honest agent's coverage for every seed and choice of Byzantine agents."""
    own = (r for r in records if r.method == method and _attack(r) == attack)
    return [value for record in own for value in record.coverage]


def _methods(records: Iterable[AttackResult]) -> list[str]:
    """Return the methods, those that are not meant to withstand attacks first."""
    return [method for _, method in sorted({(r.robust, r.method) for r in records})]


def _titles(records: Iterable[AttackResult]) -> list[str]:
    return sorted({r.display_title for r in records})


def _attack(record: AttackResult) -> str:
    """Return the name of an attack, with its bound."""
    return record.attack + (BOUNDED if record.bounded else "")


def _pooled(records: Iterable[AttackResult]) -> list[float]:
    """Return the changes of all choices of Byzantine agents."""
    return [change for record in records for change in record.changes]


def _ratio(size: float, truthful: float) -> float:
    """Return how many times as large sets are."""
    if size == truthful:
        return 1.0
    return inf if truthful == 0 else size / truthful


def _number(values: Sequence[float], form: str) -> str:
    """Write the median of some values."""
    return form.format(median(values)) if values else ""


def _signed(value: float) -> str:
    """Write a change; what rounds to nothing has no sign."""
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text


def draw_attacks(records: Sequence[AttackResult], preset: str, byzantine: int, path: Path) -> Path:
    """Draw the worst honest agent's coverage under every attack, one panel for each dataset."""
    require_matplotlib()
    from matplotlib.lines import Line2D

    own = [r for r in records if r.preset == preset and r.byzantine == byzantine and not r.bounded]
    titles = _titles(own)
    with new_figure(3.6 * len(titles), 3.6) as figure:
        panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for panel, title in zip(panels, titles, strict=True):
            _panel(panel, [r for r in own if r.display_title == title])
            panel.set_title(title, loc="left", fontweight="bold")
        panels[0].set_ylabel("coverage of the worst honest agent")
        handles = [
            Line2D([], [], label=name, linestyle="none", markersize=5.0, **method_style(place))
            for place, name in enumerate(FIGURE_METHODS)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
        return save(figure, path)


def _panel(panel: Any, records: Sequence[AttackResult]) -> None:
    """Draw one dataset: the median, and a line from the lowest to the highest coverage."""
    panel.axhline(1 - records[0].alpha, color="0.35", linestyle="--", linewidth=1)
    attacks = attacks_of(records)
    for place, method in enumerate(FIGURE_METHODS):
        for at, attack in enumerate(attacks):
            found = pooled_coverage(records, method, attack)
            if not found:
                continue
            x = at + (place - (len(FIGURE_METHODS) - 1) / 2) * 0.15
            style = method_style(place)
            panel.plot([x, x], [min(found), max(found)], color=style["color"], linewidth=1.2)
            panel.plot([x], [median(found)], linestyle="none", markersize=5.0, **style)
    panel.set_xticks(range(len(attacks)), attacks, rotation=30, ha="right")
    panel.set_ylim(-0.02, 1.02)
