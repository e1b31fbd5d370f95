"""Data of the demo, and how it is divided between agents."""
