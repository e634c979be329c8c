"""Whole runs: the preflight, all stages in sequence, and ablations."""
