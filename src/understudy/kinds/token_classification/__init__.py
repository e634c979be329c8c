"""The kind token classification."""
