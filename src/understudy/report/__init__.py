"""A self-contained HTML page per run."""
