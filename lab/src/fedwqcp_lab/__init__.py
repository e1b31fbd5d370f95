"""The laboratory of fedwqcp: datasets, networks, experiments, studies and their tables.

The path of an experiment, such as ``fedwqcp-lab reproduce``: `cli` reads the settings
(`experiment`) and calls `pipeline.run`. This trains what is missing (`training`), saves the model
outputs of each dataset and seed (`unit`), evaluates all methods on them in worker processes
(`evaluation`) and appends records (`results`). Tables and figures are made of the records alone:
`comparison` sums them up beside the published figures, `tables` and `figures` write them.
"""

__version__ = "0.1.0"
