"""The kind multiple choice."""
