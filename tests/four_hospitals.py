"""One run of the demo for all tests that read it: it takes a few seconds."""

from functools import cache

import fedwqcp as fw
from fedwqcp.demo.demo import calibrated
from fedwqcp.demo.hospitals import hospitals

SITES = cache(hospitals)


@cache
def release(method="auto"):
    """Return the demo's default round."""
    return calibrated(SITES(0), method, 0)


@cache
def two_levels():
    """Return a round at two levels, for a report of two views."""
    cals = {site.name: site.calibration for site in SITES(0)}
    return fw.calibrate(cals, method="split-cp", alpha=(0.1, 0.2), key="browser")
