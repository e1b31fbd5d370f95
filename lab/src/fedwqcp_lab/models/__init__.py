"""Models of the paper's agents, trained many at once (torch)."""
