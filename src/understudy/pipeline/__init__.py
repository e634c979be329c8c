"""The whole way: preflight, every stage after the other, ablations."""
