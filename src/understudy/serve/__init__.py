"""Predictions from an artifact, without torch or transformers."""

from understudy.serve.predictor import Predictor

__all__ = ["Predictor"]
