"""A hand-made record of a demo, for tests of what reads and writes records."""

from fedwqcp.demo.records import Record


def record(**changes):
    """Return a record; each field may be changed."""
    fields = {
        "experiment": "methods",
        "dataset": "digits",
        "task": "classification",
        "seed": 0,
        "alpha": 0.1,
        "method": "fedwq-cp",
        "agent": "S0",
        "model": "strong",
        "n": 40,
        "threshold": 0.8,
        "tested": 200,
        "covered": 180,
        "size": 1.25,
        "rounds": 1,
        "bytes_up": 216,
        "bytes_down": 100,
        "samples": False,
        "guarantee": "none",
        "assumption": "nothing",
        "config": {"method.overflow": "propagate"},
        "code": "fedwqcp 0",
        "seconds": 0.5,
    }
    return Record(**{**fields, **changes})
