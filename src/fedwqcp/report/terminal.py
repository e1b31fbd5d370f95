"""What the terminal shows: the thresholds of a round, bars of rates, the demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf
from statistics import fmean
from textwrap import wrap
from typing import Literal

from fedwqcp.demo.demo import ACTS, FEW, SIMULATED, MethodResult, Results, Spread
from fedwqcp.federation.release import Release
from fedwqcp.methods import AtLeast, Proposal, RobustSharedThreshold, RobustThreshold
from fedwqcp.quantile import least_sample
from fedwqcp.registry import typed
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.theory.rules import RULES
from fedwqcp.wire.messages import Number, PerAgentThresholds

_SIGNS = ("·", "─", "●", "┃", "◂")


PLAIN = (".", "-", "o", "|", "<")
"""Nothing, the interval, the rate, what was asked for, and a rate further to the left."""


_REACH = 0.25
"""How far below what was asked for a scale begins at most."""


@dataclass(frozen=True)
class LevelThresholds:
    """The thresholds of one level, and of one group where there are any; it prints as a line.

    ``whose`` says whether all agents have this threshold, each was sent one, or each finds its own.
    ``thresholds`` are those that all share, one for each column of the score (a number, or one for
    each label); ``proposed`` a value near which agents find their own; ``at_least`` a value that
    agents raise to their own. ``left_out`` are used agents that the thresholds do not rest on.
    ``loss`` is the most coverage that Byzantine agents cost (1 says nothing), ``withstands`` how
    many of them are withstood, where the method says so.
    """

    alpha: float
    group: str | None
    whose: Literal["all", "each", "own"]
    thresholds: tuple[Number, ...] = ()
    proposed: tuple[float, ...] = ()
    at_least: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()
    why: str = ""
    loss: float | None = None
    withstands: int | None = None

    def __str__(self) -> str:
        group = "" if self.group is None else f", {self.group}"
        return f"alpha={self.alpha:g}{group}: " + "; ".join((self._sentence(), *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was left out, what the loss means, how many Byzantine agents are withstood."""
        out = [f"left out: {', '.join(self.left_out)} ({self.why})"] if self.left_out else []
        if self.withstands is not None:
            agents = "agent" if self.withstands == 1 else "agents"
            out.append(f"withstands {self.withstands} Byzantine {agents}")
        return (*out, *([] if self.loss is None else [_loss_note(self.loss)]))

    def _sentence(self) -> str:
        """Say what the threshold is."""
        if self.whose == "each":
            return "one threshold for each agent"
        if self.thresholds:
            return f"threshold {_joined(self.thresholds)} for all agents"
        if self.proposed:
            return (
                f"each agent's own threshold: it takes the proposed {_joined(self.proposed)} only "
                "as far as its own data allow"
            )
        if self.at_least:
            return f"threshold {_joined(self.at_least)}, or an agent's own where that is higher"
        return "each agent's own threshold"


def released(release: Release) -> tuple[LevelThresholds, ...]:
    """Return what came out at every level and in every group."""
    round = release.round
    names = [f"{round.by} {name}" for name in round.group_names]
    return tuple(
        _released(release, alpha, name, release.tasks_of(alpha, place))
        for alpha in round.alphas
        for place, name in enumerate(names or (None,))
    )


def always_left_out(found: Sequence[LevelThresholds]) -> frozenset[str]:
    """Return the agents that no threshold of a round rests on."""
    return frozenset.intersection(*(frozenset(each.left_out) for each in found))


@dataclass(frozen=True)
class Scale:
    """The scale of all bars of a table: values at its first and last column, and the nominal."""

    left: float
    right: float
    nominal: float
    width: int = 28
    ascii: bool = False

    def bar(self, low: float, rate: float, high: float) -> str:
        """Draw one rate.

        >>> Scale(0.8, 1.0, 0.9, width=21, ascii=True).bar(0.92, 0.95, 0.97)
        '..........|.---o--...'
        """
        nothing, line, dot, mark, less = PLAIN if self.ascii else _SIGNS
        signs = [nothing] * self.width
        for at in range(self._at(low), self._at(high) + 1):
            signs[at] = line
        signs[self._at(self.nominal)] = mark
        signs[self._at(rate)] = dot if rate >= self.left else less
        return "".join(signs)

    def _at(self, value: float) -> int:
        """Return the column of a value."""
        share = (value - self.left) / (self.right - self.left)
        return round(min(1.0, max(0.0, share)) * (self.width - 1))


def scale(rates: Iterable[float], nominal: float, *, ascii: bool = False) -> Scale:
    """Return a scale for rates around what was asked for; one outlier hides nothing (`_REACH`)."""
    values = (*rates, nominal)
    left = max(0.0, nominal - _REACH, (ceil(min(values) * 20 - 1e-9) - 1) / 20)
    right = min(1.0, (floor(max(values) * 20 + 1e-9) + 1) / 20)
    return Scale(left, right, nominal, ascii=ascii)


def demo_text(results: Results) -> str:
    """Return the demo on one screen: at most 45 lines of 80 columns with the five methods."""
    level = f"{100 * (1 - results.alpha):g}"
    lines = [
        "Four hospitals, one question: does the patient have heart disease?",
        f"Each asks for sets that hold the true answer for {level} % of its patients.",
        "",
        f"{'hospital':<14}{'patients':>8}{'disease':>9}  {'model':<21}"
        f"{'train':>6}{'calibrate':>11}{'test':>6}",
    ]
    for site in results.sites:
        lines.append(
            f"{site.name:<14}{site.patients:>8}{100 * site.share:>7.0f} %  {site.model:<21}"
            f"{site.trained:>6}{site.calibration:>11}{site.test:>6}"
        )
    for text in ("", _sent(results), "", _legend(results, level)):
        lines += wrap(text, 80) or [""]
    lines.append(
        f"{'':<18}{''.join(f'{site.name:<13}' for site in results.sites)}{'one answer':>10}"
    )
    for method in dict.fromkeys(f.method for f in results.of("four")):
        lines += _method_lines(results, method)
    for name, why in results.skipped.items():
        lines.append(f"{name} left out: {why if len(why) <= 58 else f'{why[:55]}...'}")
    for text in (
        "",
        _few(results),
        _joins(results),
        _clinics(results),
        "",
        advised(results),
        closing(results),
    ):
        lines += wrap(text, 80) or [""]
    return "\n".join(lines)


def advised(results: Results, act: str = "four") -> str:
    """Say what the library advised from what was sent, and what decided."""
    advice = results.advice(act)
    return f"Advised from what was sent: {advice.method} ({RULES[advice.code]})."


def closing(results: Results) -> str:
    """Say what to use at the four hospitals, and why.

    That is what was advised, unless its mean coverage over many splits misses what was asked for
    at a hospital by more than a point and another method's does not. Of several such methods it is
    the one with most single answers, and of equal ones the one that sends least.
    """
    nominal, rows = 1 - results.alpha, _spreads(results)
    holding = {name: own for name, own in rows.items() if min(s.mean for s in own) > nominal - 0.01}
    found = results.of("four", "auto")[0]
    if not rows or not holding or "auto" in holding:
        use = f"Use {found.chosen} here{_settings(results)}, because it was advised"
        silent = [name for name in holding if name != "auto" and not _sent_by(results, name)]
        if "auto" not in holding or not silent:
            return f"{use} and {_measured(rows['auto'])}." if rows else f"{use}."
        other, own = holding[silent[0]], rows["auto"]
        covered = _percents(s.mean for s in other)
        more = fmean(s.one for s in other) > fmean(s.one for s in own)
        varies = fmean(s.sd for s in other) > fmean(s.sd for s in own)
        return (
            f"{use} and {_measured(own)}. {silent[0]}, which sends nothing, covers {covered} %"
            f"{' with one answer more often' if more else ''}{', and varies more' * varies}."
        )
    best = max(
        holding,
        key=lambda name: (
            round(fmean(s.one for s in holding[name]), 2),
            -_sent_by(results, name),
        ),
    )
    worst = min(rows["auto"], key=lambda s: s.mean)
    sent = "" if _sent_by(results, best) else " and sends nothing"
    return (
        f"Use {best} here, because {_measured(holding[best])}{sent}, where {found.chosen} leaves "
        f"{worst.agent} at {100 * worst.mean:.0f} %. Federate where a hospital has too few "
        "patients."
    )


def _settings(results: Results) -> str:
    """Name the settings that the advice has, in brackets; nothing where it has none."""
    settings = results.advice("four").settings
    named = ", ".join(f"{name}={typed(value)}" for name, value in settings.items())
    return f" ({named})" if named else ""


def _spreads(results: Results) -> dict[str, list[Spread]]:
    """Return what is known over many splits of every method at the four hospitals."""
    methods = dict.fromkeys(f.method for f in results.of("four"))
    return {name: spreads for name in methods if (spreads := results.spreads("four", name))}


def _sent_by(results: Results, method: str) -> int:
    """Return the most bytes that a hospital sent."""
    return max(f.bytes_up for f in results.of("four", method))


def _measured(own: Sequence[Spread]) -> str:
    """Say what a method covers over many splits."""
    return f"over {own[0].splits} splits it covers {_percents(s.mean for s in own)} %"


def _percents(shares: Iterable[float]) -> str:
    """Write shares in whole per cent."""
    return ", ".join(f"{100 * share:.0f}" for share in shares)


def spread_table(spread: Sequence[Spread]) -> str:
    """Return coverage over many splits as Markdown: mean ± sd, and where nine splits of ten lie."""
    lines = []
    for act, title in ACTS.items():
        own = [s for s in spread if s.act == act]
        if not own:
            continue
        agents = list(dict.fromkeys(s.agent for s in own))
        lines += ["", f"**{title}**, {own[0].splits} splits", ""]
        lines += [f"| method | {' | '.join(agents)} |", "|---" * (len(agents) + 1) + "|"]
        for method in dict.fromkeys(s.method for s in own):
            cells = [_spread_cell(s) for s in own if s.method == method]
            lines.append(f"| `{method}` | {' | '.join(cells)} |")
    simulated = [s for s in spread if s.act == "simulated"]
    if simulated:
        lines += ["", f"**{SIMULATED}**, {simulated[0].splits:,} new sites", ""]
        lines += [
            "| method | coverage at a new site | new sites covered as asked for |",
            "|---|---|---|",
        ]
        lines += [f"| `{s.method}` | {' | '.join(simulated_cells(s))} |" for s in simulated]
    return "\n".join(lines).strip()


def simulated_cells(spread: Spread) -> tuple[str, str]:
    """Write the coverage at simulated new sites, and at how many of them it is as asked for."""
    return _spread_cell(spread), f"{100 * (spread.enough or 0.0):.1f} %"


def _spread_cell(s: Spread) -> str:
    """Write mean ± sd, and where nine splits of ten lie."""
    return f"{100 * s.mean:.1f} ± {100 * s.sd:.1f} ({100 * s.low:.0f} to {100 * s.high:.0f})"


def percent(found: MethodResult) -> str:
    """Write a coverage with its exact interval, in per cent."""
    rate = found.rate
    return f"{100 * rate.coverage:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def row_name(found: MethodResult) -> str:
    """Name a method; of ``auto``, also the method that was advised."""
    return f"auto: {found.chosen}" if found.method == "auto" else found.method


def _sent(results: Results) -> str:
    """Say what left each hospital."""

    def span(method: str) -> str:
        sizes = [f.bytes_up for f in results.of("four", method)]
        return f"{min(sizes)} to {max(sizes)} bytes"

    return (
        f"What left a hospital: with FedWQ-CP a threshold and a count, {span('fedwq-cp')}; with "
        f"the advised method, assessment included, {span('auto')}. No patient, no model."
    )


def _legend(results: Results, level: str) -> str:
    """Explain the table above it."""
    splits = (
        f"; below it mean ± sd over {results.spread[0].splits} splits" if results.spread else ""
    )
    return (
        f"Coverage in % of a hospital's own test patients [exact 95 % interval]{splits}. "
        f"* the interval lies below {level}; the draw of calibration patients can do that too."
    )


def _method_lines(results: Results, method: str) -> list[str]:
    """Return one method: this split, and many."""
    own = results.of("four", method)
    one = sum(f.one for f in own) / sum(f.tested for f in own)
    cells = [percent(f) + "*" * (f.rate.high < 1 - results.alpha) for f in own]
    lines = [_row(row_name(own[0])[:17], cells, f"{100 * one:.0f} %")]
    if known := results.spreads("four", method):
        cells = [f"{100 * s.mean:.0f} ± {100 * s.sd:.0f}" for s in known]
        one = fmean(s.one for s in known)  # every hospital alike
        lines.append(_row(f"  {known[0].splits} splits", cells, f"{100 * one:.0f} %"))
    return lines


def _few(results: Results) -> str:
    """Say what each method does where one hospital has too few calibration patients."""
    name, n = FEW
    found = results.of("few", agent=name)
    useless = [row_name(f) for f in found if f.all == f.tested]
    said = [f"{' and '.join(useless)} give both answers to everyone"] if useless else []
    said += [
        f"{row_name(f)} covers {percent(f)}, one answer for {100 * f.one / f.tested:.0f} %"
        for f in found
        if f.all < f.tested
    ]
    return (
        f"{name} with {n} calibration patients ({least_sample(results.alpha)} are needed): "
        f"{'; '.join(said)}."
    )


def _joins(results: Results) -> str:
    """Say what can be promised to a hospital that joins without labels."""
    said = []
    for method in ("fedwq-cp", "max-cp"):
        means = [s.mean for s in results.spreads("joins", method)]
        found = [f.rate.coverage for f in results.of("joins", method)]
        said.append(f"{method} {_percents(means or found)} %")
    where = "over the splits" if results.spread else "on this split"
    all_ = "; three give both answers to everyone" if newcomer_excludes_nothing(results) else ""
    return (
        f"A newcomer without labels: new-agent-cp needs {least_sample(results.alpha)} exchangeable "
        f"hospitals{all_}. Others promise nothing; {where} they cover each in "
        f"turn: {'; '.join(said)}."
    )


def newcomer_excludes_nothing(results: Results) -> bool:
    """Tell whether the three other hospitals are too few for new-agent-cp."""
    return all(f.all == f.tested for f in results.of("joins", "new-agent-cp"))


def _clinics(results: Results) -> str:
    """Say what came of the regression."""
    said = []
    for method in dict.fromkeys(f.method for f in results.of("clinics")):
        own = results.of("clinics", method)
        covered = _percents(f.rate.coverage for f in own)
        length = fmean(f.size or inf for f in own)
        said.append(f"{row_name(own[0])} {covered} %, length {length:.0f}")
    return (
        f"Regression (scikit-learn's diabetes data, {len(results.clinics)} clinics by age): "
        f"{'; '.join(said)}."
    )


def _row(name: str, cells: Sequence[str], last: str) -> str:
    """Write one line of the table."""
    return f"{name:<18}{''.join(f'{cell:<13}' for cell in cells)}{last:>10}".rstrip()


def _released(release: Release, alpha: float, group: str | None, tasks: range) -> LevelThresholds:
    """Sum up the outcomes of one level and group, one for each column of the score."""
    outcomes = [release.outcomes[task] for task in tasks]
    robust = [outcome for outcome in outcomes if isinstance(outcome, RobustThreshold)]
    out = dict.fromkeys(name for task in tasks for name in _left_out(release, task))
    why = "unlike the others, or a copy of another" if robust else "sent +inf; overflow=exclude"
    values = [outcome.threshold(None) for outcome in outcomes if outcome.same_for_all]
    common = tuple(value for value in values if value is not None)
    return LevelThresholds(
        alpha=alpha,
        group=group,
        whose="all" if common else "each" if isinstance(outcomes[0], PerAgentThresholds) else "own",
        thresholds=common,
        proposed=tuple(outcome.value for outcome in outcomes if isinstance(outcome, Proposal)),
        at_least=tuple(outcome.value for outcome in outcomes if isinstance(outcome, AtLeast)),
        left_out=tuple(out),
        why=why if out else "",
        loss=max((outcome.loss for outcome in robust), default=None),
        withstands=min(
            (
                outcome.withstands
                for outcome in outcomes
                if isinstance(outcome, RobustSharedThreshold)
            ),
            default=None,
        ),
    )


def _left_out(release: Release, task: int) -> Iterator[str]:
    """Name the used agents that an outcome does not rest on.

    A public release does not tell who has no point of a group, so that places there have no names.
    """
    outcome = release.outcomes[task]
    named = release.round.by is None or bool(release.received)
    if isinstance(outcome, RobustThreshold) and named:
        yield from (n for n in release.used if release.position(n, task) in outcome.left_out)
    yield from excluded(release, task)


def _joined(values: Sequence[Number]) -> str:
    """Write thresholds: of several columns each, of several labels their range."""
    return " and ".join(
        f"{_number(min(value))} to {_number(max(value))}, by label,"
        if isinstance(value, tuple)
        else _number(value)
        for value in values
    )


def _number(value: float) -> str:
    """Write a threshold."""
    return "+inf (it excludes nothing)" if value == inf else f"{value:.6g}"


def _loss_note(loss: float) -> str:
    """Say what the loss of a robust threshold means."""
    if loss == 1:
        return "loss 1: the bound on what Byzantine agents cost says nothing at this sample size"
    return (
        f"loss {loss:.3g}: if honest scores share one distribution, Byzantine agents cost at most "
        "so much coverage, with probability 0.95"
    )
