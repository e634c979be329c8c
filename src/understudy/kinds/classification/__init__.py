"""The classification kind."""
