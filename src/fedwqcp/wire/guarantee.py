"""What is proved of a released threshold."""

from __future__ import annotations

from enum import StrEnum


class Guarantee(StrEnum):
    """What is proved of a released threshold."""

    NONE = "none"
    """Nothing in finite samples."""
    MARGINAL_AGENT = "marginal-agent"
    """Coverage at an agent whose test points are exchangeable with its calibration points."""
    MARGINAL_MIXTURE = "marginal-mixture"
    """Coverage for a test point drawn from the mixture of agents."""
    MARGINAL_IID = "marginal-iid"
    """Coverage if the scores of all agents are independent and identically distributed."""
    TRAINING_CONDITIONAL = "training-conditional"
    """Coverage given the calibration data, with stated probability."""
    TARGET_SHIFT = "target-shift"
    """Approximate coverage at a target law, under an assumption on the shift."""
    ASYMPTOTIC = "asymptotic"
    """Coverage in the limit only."""
