"""Federated averaging, then calibrated prediction sets in one more round."""
