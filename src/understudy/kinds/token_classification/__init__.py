"""The token-classification kind."""
