"""Four real hospitals: their data, their models, and what each method gives them."""
