"""The engine: transformers' Trainer with our order of rows and our defaults."""
