"""The passes over probabilities that every label score is a formula of."""
