"""The embedding kind."""
