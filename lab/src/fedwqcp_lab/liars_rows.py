"""The methods that liars are tried on."""

from __future__ import annotations

from fedwqcp_lab.experiment import MethodPlan

ROBUST = (
    MethodPlan(name="weighted-median-cp", method="weighted-median-cp"),
    MethodPlan(name="trimmed-mean-cp", method="trimmed-mean-cp", settings={"byzantine": 2}),
    MethodPlan(name="rob-fcp", method="rob-fcp", settings={"byzantine": 2}),
    MethodPlan(name="rob-fcp (liars unknown)", method="rob-fcp"),
    MethodPlan(name="guarded-median-cp", method="guarded-median-cp"),
    MethodPlan(
        name="guarded-median-cp (slack 0.2)", method="guarded-median-cp", settings={"slack": 0.2}
    ),
)
"""Methods that are meant to withstand liars, set up for two where they take a number."""

PLAIN = (
    MethodPlan(name="split-cp", method="split-cp"),
    MethodPlan(name="fedwq-cp", method="fedwq-cp"),
    MethodPlan(name="fedavgq-cp", method="fedavgq-cp"),
    MethodPlan(name="fcp", method="fcp"),
    MethodPlan(name="fedcp-qq", method="fedcp-qq"),
    MethodPlan(name="fedls-cp", method="fedls-cp"),
    MethodPlan(name="cphet", method="cphet", aim="own", samples=True, settings={"solver": "exact"}),
    MethodPlan(name="dp-fedcp", method="dp-fedcp", aim="training", settings={"solver": "exact"}),
)
"""The other methods, but ``private-fedwq-cp`` (FedWQ-CP with noise) and ``fed-crc`` (another risk).

CPhet aims at each agent's own law, in few components of the inputs.
"""

COMPONENTS = 4
"""Principal components that CPhet sees here: it is about lies, and 32 take seconds a round."""

FEW = 3
"""For CPhet, which stays slow, so many choices of the liars stand for all."""
