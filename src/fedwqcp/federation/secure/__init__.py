"""Rounds on masked sums, in which the server hears no agent's own numbers."""
