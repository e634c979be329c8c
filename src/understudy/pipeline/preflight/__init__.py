"""Checks that find in seconds what would otherwise fail after hours."""
