"""Coverage and size of prediction sets: per agent, over agents, per class, per size.

Every coverage comes with its exact Clopper-Pearson interval, and `band` says how far split
conformal coverage strays by chance alone.
"""

from fedwqcp.metrics.agents import Across, AgentMetrics, across_agents, measure
from fedwqcp.metrics.rate import Rate, band
from fedwqcp.metrics.strata import Stratum, by_class, by_size

__all__ = [
    "Across",
    "AgentMetrics",
    "Rate",
    "Stratum",
    "across_agents",
    "band",
    "by_class",
    "by_size",
    "measure",
]
