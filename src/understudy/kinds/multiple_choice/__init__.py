"""The multiple-choice kind."""
