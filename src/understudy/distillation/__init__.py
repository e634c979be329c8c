"""Methods, both of TinyBERT's stages, trials, and what the teacher says."""
