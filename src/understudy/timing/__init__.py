"""Speed and size of models, side by side in one run."""
