"""The ranking kind."""
