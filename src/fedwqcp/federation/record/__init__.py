"""What a round leaves behind: its record, its release, and their recomputation."""
