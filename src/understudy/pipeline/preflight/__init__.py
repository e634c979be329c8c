"""What would fail in hours, found in seconds."""
