"""A classifier with one output, which also reads rows of several passages."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as CLASSES

from understudy.data.encode import ENCODER_INPUTS
from understudy.errors import ModelError
from understudy.objectives.ranking import relevance_loss

# B rows, P passages of each, L tokens


def scorer_class(config: Any) -> Any:
    """Return the classifier class of a config, for pairs and for rows of several passages."""
    if type(config) not in CLASSES:
        raise ModelError(f"there is no classifier for {config.model_type} in transformers.")
    return _scorer(CLASSES[type(config)])


@functools.cache
def _scorer(base: Any) -> Any:
    """Return a subclass with the name of its base, so that it is saved as such."""

    class Scorer(base):  # type: ignore[misc]
        @functools.wraps(base.forward)
        def forward(self, input_ids: Tensor, labels: Tensor | None = None, **options: Any) -> Any:
            given = {"input_ids": input_ids, **options}
            given |= {name: given[name].flatten(0, -2) for name in ENCODER_INPUTS if name in given}
            output = super().forward(**{**given, "return_dict": True})
            if input_ids.ndim == 3:
                output["logits"] = output["logits"].view(input_ids.shape[:2])  # BP
            if labels is not None:
                output["loss"] = relevance_loss(output["logits"], labels).mean()
            return output

    Scorer.__name__ = Scorer.__qualname__ = base.__name__
    Scorer.__module__ = base.__module__
    return Scorer
