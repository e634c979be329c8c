"""Capture of the representations that the objectives compare."""
