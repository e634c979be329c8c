"""The regression kind."""
