"""Studies beside the comparison of the paper: one file each."""
