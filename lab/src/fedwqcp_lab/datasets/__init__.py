"""Datasets: catalogue, download, file formats and splits; how rows are divided between agents."""
