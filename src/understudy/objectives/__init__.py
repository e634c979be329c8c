"""Losses: pure functions of tensors, each citing its equation."""
