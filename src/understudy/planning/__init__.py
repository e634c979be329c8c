"""Cost estimates of runs."""
