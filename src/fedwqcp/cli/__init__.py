"""The command line: parse, call one function, print.

What other command lines of the project (`fedwqcp-lab`) share with it is exported here.
"""

from fedwqcp.cli.output import AsJson, Output, run, with_help

__all__ = ["AsJson", "Output", "run", "with_help"]
