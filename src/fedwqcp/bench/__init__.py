"""Experiments: methods side by side, as records."""
