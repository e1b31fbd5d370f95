"""Ways to carry messages: within a process, or as files in a folder."""
