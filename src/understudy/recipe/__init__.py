"""The whole of a run as one frozen, checked object."""
