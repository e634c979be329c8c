"""The published code and other tools, each in a process and an environment of its own."""
