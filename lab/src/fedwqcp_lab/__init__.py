"""The laboratory of fedwqcp: datasets, networks, experiments, studies and their tables."""

__version__ = "0.1.0"
