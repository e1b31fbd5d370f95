"""Text for people: the one place where findings, verdicts and guarantees become sentences."""
