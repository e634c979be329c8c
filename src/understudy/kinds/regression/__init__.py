"""The kind regression."""
