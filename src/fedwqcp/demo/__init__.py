"""The main job on data that needs no download: every method side by side."""
