"""Records to tables and figures."""
