"""Coverage and size of prediction sets: per agent, over agents, per class, per group, per size.

Every coverage comes with its exact Clopper-Pearson interval, and `band` says how far split
conformal coverage strays by chance alone. A `histogram` of scores has no bin with few people.
"""

from fedwqcp.metrics.agents import Across, AgentMetrics, across_agents, measure
from fedwqcp.metrics.groups import GroupRate, by_group
from fedwqcp.metrics.histogram import Histogram, histogram
from fedwqcp.metrics.rate import Rate, band
from fedwqcp.metrics.risk import AgentRisk, Risk, false_negatives, measure_risk
from fedwqcp.metrics.strata import Stratum, by_class, by_size

__all__ = [
    "Across",
    "AgentMetrics",
    "AgentRisk",
    "GroupRate",
    "Histogram",
    "Rate",
    "Risk",
    "Stratum",
    "across_agents",
    "band",
    "by_class",
    "by_group",
    "by_size",
    "false_negatives",
    "histogram",
    "measure",
    "measure_risk",
]
