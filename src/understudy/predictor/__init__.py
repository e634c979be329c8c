"""Predictions from an artifact, without torch or transformers."""

from understudy.predictor.predictor import Predictor

__all__ = ["Predictor"]
