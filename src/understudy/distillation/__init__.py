"""Distillation methods, both of TinyBERT's stages, trials, and teacher predictions."""
