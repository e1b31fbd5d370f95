"""Files of model outputs: what an agent reads, as arrays."""
