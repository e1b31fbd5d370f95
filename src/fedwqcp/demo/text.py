"""The demo in words: what the terminal shows of it, and sentences that its page shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import fmean
from textwrap import wrap

from fedwqcp.demo.demo import ACTS, FEW, SIMULATED, MethodResult, Results, Spread
from fedwqcp.quantile import least_sample
from fedwqcp.registry import typed
from fedwqcp.theory.method_choice import RULES


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
        lines += wrap(text, 80, break_on_hyphens=False) or [""]
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
        lines += wrap(text, 80, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def advised(results: Results, act: str = "four") -> str:
    """Say what the library advised from what was sent, and what decided."""
    advice = results.advice(act)
    return f"Advised from what was sent: {advice.method} ({RULES[advice.code]})."


def closing(results: Results) -> str:
    """Say what to use at the four hospitals, with its guarantee, and why.

    That is what was advised, unless its mean coverage over many splits misses what was asked for
    at a hospital by more than a point and another method's does not. Of several such methods it is
    the one with most single answers, and of equal ones the one that sends least.
    """
    nominal, rows = 1 - results.alpha, _spreads(results)
    holding = {name: own for name, own in rows.items() if min(s.mean for s in own) > nominal - 0.01}
    found = results.of("four", "auto")[0]
    if not rows or not holding or "auto" in holding:
        said = f"Use {found.chosen} here{_settings(results)}, as advised. "
        said += f"Guarantee: {found.guarantee}"
        if rows:  # in another split, another method may have been advised
            said += f"; {_measured(rows['auto'], 'what was advised')}"
        silent = [name for name in holding if name != "auto" and not _sent_by(results, name)]
        if "auto" not in holding or not silent:
            return f"{said}."
        other, own = holding[silent[0]], rows["auto"]
        covered = _percents(s.mean for s in other)
        more = fmean(s.one for s in other) > fmean(s.one for s in own)
        varies = fmean(s.sd for s in other) > fmean(s.sd for s in own)
        proved = results.of("four", silent[0])[0].guarantee
        return (
            f"{said}. {silent[0]}, which sends nothing, covers {covered} %"
            f"{' with one answer more often' * more}{', but varies more' * varies}. "
            f"Guarantee: {proved}. Both assume new patients like the calibration patients."
        )
    best = max(
        holding,
        key=lambda name: (round(fmean(s.one for s in holding[name]), 2), -_sent_by(results, name)),
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


def _measured(own: Sequence[Spread], what: str = "it") -> str:
    return f"over {own[0].splits} splits {what} covers {_percents(s.mean for s in own)} %"


def _percents(shares: Iterable[float]) -> str:
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
        f"A hospital sent: with FedWQ-CP a threshold and a count, {span('fedwq-cp')}; with "
        f"the advised method, assessment included, {span('auto')}. No patient, no model."
    )


def _legend(results: Results, level: str) -> str:
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
    cells = [_starred(f, 1 - results.alpha) for f in own]
    lines = [_row(row_name(own[0])[:17], cells, f"{100 * one:.0f} %")]
    if known := results.spreads("four", method):
        cells = [f"{100 * s.mean:.0f} ± {100 * s.sd:.0f}" for s in known]
        one = fmean(s.one for s in known)  # every hospital alike
        lines.append(_row(f"  {known[0].splits} splits", cells, f"{100 * one:.0f} %"))
    return lines


def _starred(found: MethodResult, nominal: float) -> str:
    """Write a coverage, with a star where its interval lies below what was asked for."""
    if found.rate.high >= nominal:
        return percent(found)
    end = f"{100 * found.rate.high:.0f}"
    if float(end) < 100 * nominal:
        return f"{percent(found)}*"
    return percent(found).replace(f" {end}]", f"<{end}]*")  # rounded, it would not lie below


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
    said = []
    for method in dict.fromkeys(f.method for f in results.of("clinics")):
        own = results.of("clinics", method)
        covered = _percents(f.rate.coverage for f in own)
        length = fmean(f.size or inf for f in own)
        said.append(f"{row_name(own[0])} {covered} %, length {length:.0f}")
    return f"Regression (diabetes data, {len(results.clinics)} clinics by age): {'; '.join(said)}."


def _row(name: str, cells: Sequence[str], last: str) -> str:
    return f"{name:<18}{''.join(f'{cell:<13}' for cell in cells)}{last:>10}".rstrip()
