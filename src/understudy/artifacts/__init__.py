"""Students as artifacts: ONNX files, int8, a tokenizer and a model card.

`artifact` and `session` do not need torch.
"""
