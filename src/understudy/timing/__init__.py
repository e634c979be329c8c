"""Speed and size of models, measured side by side."""
