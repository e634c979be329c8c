"""The training engine: transformers' Trainer with our row order and defaults."""
