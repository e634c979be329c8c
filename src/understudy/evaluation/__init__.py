"""Official metrics, their uncertainty, and the scoring and comparison of models."""
