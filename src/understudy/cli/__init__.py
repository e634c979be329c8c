"""The command line: one small module per command, which parses, calls and prints."""

from understudy.cli.app import main

__all__ = ["main"]
