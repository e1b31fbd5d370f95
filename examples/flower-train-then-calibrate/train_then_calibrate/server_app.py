"""The coordinator: federated averaging, then one more round."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedwqcp.federation.transport.flower import calibrate_as
from train_then_calibrate import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, then calibrate the model that came out."""
    config = context.run_config
    nodes = int(config["sites"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    trained = strategy.start(grid, ArrayRecord(task.initial()), num_rounds=int(config["rounds"]))

    # what a federation adds at its coordinator
    prefix = "calibration."
    terms = {key.removeprefix(prefix): config[key] for key in config if key.startswith(prefix)}
    result = calibrate_as(grid, terms, model=trained.arrays)

    print(f"used: {', '.join(result.release.used)}; stored by: {', '.join(result.stored)}")
