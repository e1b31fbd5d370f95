"""The command line: parse, call one function, print.

What other command lines of the project (`fedwqcp-lab`) share with it is exported here.
"""

from fedwqcp.cli.output import AsJson, Output, run, without_types

__all__ = ["AsJson", "Output", "run", "without_types"]
