"""The multi-label kind."""
