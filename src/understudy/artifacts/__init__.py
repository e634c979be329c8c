"""A student as an artifact: ONNX files, int8, what they need, and a card. `artifact` and `session` need no
torch."""
