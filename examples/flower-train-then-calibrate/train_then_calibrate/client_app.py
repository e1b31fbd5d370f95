"""A site: it trains as before, and answers the round with the model that was trained."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedwqcp.federation.transport.flower import answer_with
from train_then_calibrate import task

app = ClientApp()


def data(context: Context):
    """Return this site's rows."""
    sites = int(context.run_config["sites"])
    return task.load(int(context.node_config["partition-id"]), sites)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on this site's rows: nothing here knows of calibration."""
    (images, labels), _ = data(context)
    trained = task.train(message.content["arrays"].to_numpy_ndarrays(), images, labels)
    metrics = MetricRecord({"num-examples": len(labels)})
    content = RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics})
    return Message(content, reply_to=message)


def outputs(context: Context):
    """Return what the trained model says of rows that it was not trained on."""
    _, (images, labels) = data(context)
    parameters = context.state["fedwqcp.model"].to_numpy_ndarrays()
    return task.probabilities(parameters, images), labels


answer_with(app, outputs)  # the one line that a federation adds at its sites
