"""One run of the demo for all tests that read it: it takes a few seconds."""

from functools import cache

from fedwqcp.demo.demo import run


@cache
def results():
    """Return the demo's default run."""
    return run()
