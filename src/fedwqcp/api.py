"""The front door: a round between agents of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedwqcp import methods, scores
from fedwqcp._validation import Floats, as_array, as_floats, checked, plain
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import as_alphas, new_id
from fedwqcp.federation.release import Release, keep_findings
from fedwqcp.federation.row_fingerprints import keep_fingerprints
from fedwqcp.federation.transport.local import (
    SeedLike,
    agreed_classes,
    calibrations,
    default_score,
    findings_of,
    one_round,
)
from fedwqcp.methods import Calibration, Method
from fedwqcp.methods._stored import StoredCalibration
from fedwqcp.methods.fcp import FCP
from fedwqcp.outputs import Outputs
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.scores import Rule, Score
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Target
from fedwqcp.words.findings import warn as warn_of


@checked
def calibrate(
    agents: Mapping[str, npt.ArrayLike | Calibration | Outputs | OutputBatches],
    *,
    alpha: float | Sequence[float],
    method: str | Method[Any] = "auto",
    score: str | Score | None = None,
    rule: Rule = "leq",
    by: Literal["label", "group"] | None = None,
    classes: Sequence[str] | None = None,
    target: Target = "own",
    key: str | None = None,
    rng: SeedLike | None = None,
    secure: bool | tuple[float, float] = False,
    allow_large_alpha: bool = False,
) -> Release:
    """Agree on thresholds between agents of this process.

    Parameters
    ----------
    agents : mapping of str to Outputs, OutputBatches, array_like or Calibration
        For each agent the `Outputs` of its model with labels, which are scored here, or
        `OutputBatches` where these do not fit into memory; or its scores, shape (n,); or its
        `Calibration`, scores with labels or features for methods that need them.
        An agent may be empty. Shape (n, columns) is for scores of several columns, which ``score``
        must then name.
    alpha : float or sequence of float
        Miscoverage level, or several: each gets a threshold of its own. 0.1 stands for 90 %
        coverage.
    method : str or Method, optional
        Name of a method, or a method with settings: ``methods.get("fedwq-cp", overflow="clip")``.
    score : str or Score, optional
        Where the scores come from, stored with the release so that it predicts. Without it
        `Outputs` are scored by randomised APS; scores count as the caller's own, without bounds.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set of labels; stored with the release. With ``"leq_top1"`` the
        most probable label is in every set, so that none is empty.
    by : {"label", "group"}, optional
        A threshold of its own for each class, or for each group that occurs in the data's
        ``groups``: coverage then holds within each, as the method promises it.
    classes : sequence of str, optional
        Names of the classes, in the order of every model's columns; by default those that a
        `Calibration` names. An agent whose `Calibration` names others, or another order, is
        refused by name. Sets and thresholds by label then use these names.
    target : "own", "mixture" or tuple of float, optional
        Whom each agent will predict: people like those it calibrated on, as deployed (the default),
        or people of all agents; or a distribution in numbers, as the method reads it. The wrong
        choice costs coverage, or makes sets larger. Methods that correct no shift give the same
        thresholds for every target; the release's ``assumption`` says so.
    key : str, optional
        Key of the uniforms of a randomised score; random by default. Where the scores come from
        ``score.of(..., u=uniforms(key, texts))``, pass the same key; ``texts`` are the ids as text,
        ``[str(i) for i in ids]``, as which a release reads them.
    rng : int, SeedSequence, BitGenerator or Generator, optional
        Source of the agents' noise, as `numpy.random.default_rng` takes it: an integer gives the
        same noise again, a generator goes on. By default from the operating system.
    secure : bool or tuple of float, optional
        Give the server sums of the agents' numbers alone, as a secure round does under masks; for
        methods that need no more. Scores without a finite range need one: ``secure=(low, high)``.
    allow_large_alpha : bool, optional
        Take levels above 0.5, which are refused otherwise: most often a coverage was meant.

    Returns
    -------
    Release
        The thresholds, what is proved of them, and what it cost.

    Raises
    ------
    InputError
        If an array, a name or a setting is wrong.

    Warns
    -----
    InfiniteThresholdWarning
        If a threshold is +inf, once for all agents: too few calibration points, most often.
    UnseenLabelsWarning
        If more than alpha of an agent's labels are of classes that no agent has enough points of.
    FindingWarning
        If a finite threshold excludes nothing, so that every set holds every label.
    FewPointsWarning
        If an agent has too few points to prove 1 - alpha, and borrows its threshold.
    LabelMismatchWarning
        If the data of an agent's `Outputs` rule out that the most probable class is useful, once
        for all agents: shuffled labels, columns in another order, labels that count from 1.

    Examples
    --------
    >>> release = calibrate({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.4]}, alpha=0.4)
    >>> round(release.threshold("a"), 3), str(release.guarantee), release.rounds
    (0.3, 'agent-floor, finite-sample', 1)

    From a model's outputs to sets:

    >>> cal = Outputs([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], labels=[1, 0, 1])
    >>> release = calibrate({"a": cal}, score="lac", alpha=0.4)
    >>> release.predict_set("a", [[0.1, 0.9], [0.45, 0.55]])[1]
    (0, 1)
    """
    alphas = as_alphas(alpha, allow_large=allow_large_alpha)
    chosen = methods.get(method) if isinstance(method, str) else method  # before any data are read
    key = new_id() if key is None else str(key)
    shown = {n: d.first() if isinstance(d, OutputBatches) else d for n, d in agents.items()}
    score = scores.get(score) if isinstance(score, str) else score or default_score(shown)
    with ExitStack() as opened:
        names = agreed_classes(shown, classes)
        cals = calibrations(agents, score, key, names, opened)
        release = one_round(
            cals,
            chosen,
            score=Custom() if score is None else score,
            alphas=alphas,
            rule=rule,
            by=by,
            classes=names,
            target=plain(target),
            key=key,
            rng=rng,
            secure=plain(secure),
        )
        keep_findings(release, findings := tuple(findings_of(release, agents, cals)))
    warn_of([f for f in findings if f.code not in ("no-points", "too-few-points")])
    if score is not None and not isinstance(score, Custom):  # of which nothing is measured here
        keep_fingerprints(release, {
            name: data if isinstance(data, Outputs) else cals[name]
            for name, data in agents.items()
            if not isinstance(cals[name], StoredCalibration)
        })  # fmt: skip
    return release


@checked
def federated_quantile(
    values: Mapping[str, npt.ArrayLike],
    q: float | Sequence[float],
    *,
    secure: bool = False,
) -> float | Floats:
    """Return a quantile of all agents' values together, exact in rank, from counts alone.

    Of N values it is the ceil(q N)-th smallest: what ``numpy.quantile(pooled, q,
    method="inverted_cdf")`` gives. The server asks how many values are at most each of a few
    numbers until one number is left. It learns the agents' sizes and counts, or with ``secure``
    their sums, and the result, which is one person's value.

    Parameters
    ----------
    values : mapping of str to array_like, shape (n,)
        For each agent its finite values; an agent may have none.
    q : float or sequence of float
        Between 0 and 1, both left out; several are found in the same round trips.
    secure : bool, optional
        Give the server sums of the counts alone, as a secure round does; needs three agents.

    Returns
    -------
    float or Floats
        One of the values; one for each q, in its order.

    Raises
    ------
    InputError
        If a value is not finite, q is not between 0 and 1, or there is no value.

    Notes
    -----
    It is a round of `fcp` with ``correction=False`` at alpha = 1 - q on the score ``custom``: an
    engine carries it whose agents bring a `Calibration` of their values. For prediction sets use
    `calibrate`: this quantile counts no test point and covers too little.

    Examples
    --------
    >>> federated_quantile({"a": [3, 1, 2], "b": [10], "c": [7, 5]}, 0.5)
    3.0
    >>> federated_quantile({"a": [3, 1, 2], "b": [10], "c": [7, 5]}, [0.1, 0.9], secure=True)
    array([ 1., 10.])
    """
    given = as_array(q, "q")
    levels = 1 - as_floats(given.ravel(), "q", (None,))
    if not levels.size or not (levels.min() > 0 and levels.max() < 1):
        raise InputError("q must be strictly between 0 and 1, and at least 1e-15")
    cals = {}
    for name, numbers in values.items():
        try:
            cals[name] = Calibration(as_floats(numbers, "values", (None,)))
        except InputError as error:
            raise error.within(f"agent {name!r}") from None
    if not sum(cal.n for cal in cals.values()):
        raise InputError("a quantile needs at least one value, got none of any agent")
    alphas = tuple(levels.tolist())
    release = one_round(
        cals,
        FCP(correction=False),
        score=Custom(),
        alphas=tuple(dict.fromkeys(alphas)),
        secure=(-1.0, 1.0) if secure else False,  # of counts no range is asked
    )
    name = next(iter(cals))
    thresholds = [float(release.threshold(name, alpha)) for alpha in alphas]
    return np.array(thresholds) if given.ndim else thresholds[0]
