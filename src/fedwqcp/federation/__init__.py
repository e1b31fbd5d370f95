"""Agents, the server, and what carries messages between them."""
