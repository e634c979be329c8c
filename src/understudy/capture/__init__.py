"""What a forward pass leaves for the objectives to compare."""
