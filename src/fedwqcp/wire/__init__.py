"""Messages, their invariants and their bytes: the line that nothing private crosses."""
