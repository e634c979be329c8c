"""The data structures that capture passes to the objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

# B batch, L tokens, W whole width of all heads, H hidden size


@dataclass(frozen=True)
class QueryKey:
    """Queries and keys of one layer, heads side by side, as the model multiplies them.

    Scores of head n are `query @ keyᵀ · scaling` over its slice of the width. Whole queries and keys are kept
    instead of the L×L scores, so that memory is linear in the length and a layer can be regrouped into
    another number of heads.

    Attributes:
        num_heads: the model's own number of heads.
        scaling: the model's own scale, usually 1/√(head size).
    """

    query_BLW: Tensor
    key_BLW: Tensor
    num_heads: int
    scaling: float

    @property
    def width(self) -> int:
        return self.query_BLW.shape[-1]


@dataclass(frozen=True)
class Representations:
    """The representations from one forward pass of a model.

    Attributes:
        embeddings_BLH: the embedding layer's output; None if it was not captured.
        hidden: hidden states (B, L, H) of the chosen layers, in their order.
        query_key: queries and keys of the same layers.
        logits: by name: `logits`, or `start_logits` and `end_logits`; empty for a model without a head.
    """

    embeddings_BLH: Tensor | None
    hidden: tuple[Tensor, ...]
    query_key: tuple[QueryKey, ...]
    logits: dict[str, Tensor]

    def float(self) -> Representations:
        """Return the same in float32."""
        return Representations(
            None if self.embeddings_BLH is None else self.embeddings_BLH.float(),
            tuple(state.float() for state in self.hidden),
            tuple(
                replace(layer, query_BLW=layer.query_BLW.float(), key_BLW=layer.key_BLW.float())
                for layer in self.query_key
            ),
            {name: value.float() for name, value in self.logits.items()},
        )
