"""From files and hub names to checked, encoded, memory-mapped rows."""
