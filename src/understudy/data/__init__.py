"""Load files and hub datasets as checked, encoded, memory-mapped rows."""
