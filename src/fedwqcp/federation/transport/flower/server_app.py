"""The coordinator's side: it drives a round over Flower's grid and hands over the release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from fedwqcp.errors import InputError
from fedwqcp.federation.secure import secure_round
from fedwqcp.federation.transport.flower.carrier import GridCarrier
from fedwqcp.federation.transport.session import Session, SessionResult, hand_over
from fedwqcp.federation.transport.settings import (
    RunConfig,
    Timeouts,
    nodes_of,
    round_of,
    secure_of,
    timeouts_of,
)
from fedwqcp.wire.messages import Round


def server_app(then: Callable[[SessionResult], None] | None = None) -> ServerApp:
    """Return a ServerApp that runs one round as its run configuration says.

    Parameters
    ----------
    then : callable, optional
        Called with the result.

    Returns
    -------
    ServerApp
        Ready to be named in an app's ``pyproject.toml``.
    """
    app = ServerApp()

    def _main(grid: Grid, context: Context) -> None:
        try:
            result = calibrate_as(grid, context.run_config)
        except InputError as error:  # Flower shows its text
            raise InputError(error.by_files) from None
        if then is not None:
            then(result)

    app.main()(_main)
    return app


def calibrate_as(
    grid: Grid, config: Mapping[str, object], *, model: ArrayRecord | None = None
) -> SessionResult:
    """Run a round as a run configuration says.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    config : mapping
        As `round_of` and `timeouts_of` read it; ``nodes`` ("st-mary=1234,...") says which node each
        agent must be, ``records`` where the record of the round goes ("": nowhere). With
        ``hand-over``, the id of a round there, only its release is handed over, to every site that
        comes online before the deadline.
    model : ArrayRecord, optional
        Parameters that go with the first question.

    Returns
    -------
    SessionResult
        The release, and who has it.
    """
    given, timeouts, nodes = RunConfig.of(config), timeouts_of(config), nodes_of(config, int)
    if given.hand_over:
        record = Path(given.records) / given.hand_over
        return hand_over(GridCarrier(grid, timeouts), record, timeouts, nodes)
    round = round_of(config)
    return calibrate(
        grid,
        round,
        timeouts=timeouts,
        nodes=nodes,
        model=model,
        record=Path(given.records) / round.id if given.records else None,
        secure=secure_of(config),
    )


def calibrate(
    grid: Grid,
    round: Round,
    *,
    timeouts: Timeouts | None = None,
    nodes: Mapping[str, int] | None = None,
    model: ArrayRecord | None = None,
    record: Path | None = None,
    secure: bool | tuple[float, float] = False,
) -> SessionResult:
    """Run a round over a grid: ask, admit, release, hand over.

    After training, call it in the same ``main`` with ``model=result.arrays``: the clients then
    compute the outputs that they are calibrated on with the parameters that were just trained.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    round : Round
        The terms.
    timeouts : Timeouts, optional
        Deadline and grace of each step; by default those of `Timeouts.of`.
    nodes : mapping of str to int, optional
        Which node each agent must be; by default nodes say which agent they are, and a name that
        two nodes claim is refused for both.
    model : ArrayRecord, optional
        Parameters that go with the first question.
    record : Path, optional
        Folder for the record of the round; it must not hold one yet.
    secure : bool or tuple of float, optional
        Add the agents' numbers under masks (SecAgg+), so that the server sees only sums; for
        methods that need no more. Scores without a finite range need one: ``(low, high)``.

    Returns
    -------
    SessionResult
        The release, and who has it.

    Raises
    ------
    QuorumError
        If too few agents sent a valid answer in time; the round can be run again under a new id.
    """
    timeouts = timeouts or Timeouts.of(len(round.agents))
    carrier = GridCarrier(grid, timeouts)
    if secure or round.secure:
        from fedwqcp.federation.transport.flower.secure_server import SecureSession  # loads SecAgg+

        round = secure_round(round, secure) if secure else round
        return SecureSession(carrier, round, timeouts, nodes, record).run(model)
    return Session(carrier, round, timeouts, nodes, record).run(model)
