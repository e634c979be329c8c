"""The theoretical cost of an encoder's forward pass."""

from __future__ import annotations

from typing import Any

from understudy.models.families import family_of, own_sizes


def forward_flop(config: Any, length: float, *, num_layers: int | None = None) -> float:
    """Return the floating-point operations of a forward pass per token, for texts of a given length.

    Counts only matrix products, with two operations per multiply-add: the projections of queries, keys,
    values and outputs (8 H²), the feed-forward part (4 H I; 6 H I if it is gated), and attention itself
    (4 L H). Embeddings are lookups; norms, activations and heads are a few percent.

    Args:
        length: the mean number of tokens of a text.
        num_layers: how many layers are run. Defaults to all.
    """
    sizes = own_sizes(config)
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    num_products = 6 if family_of(config).is_gated else 4
    layer = 8 * hidden**2 + num_products * hidden * inner + 4 * length * hidden
    return float(layer * (num_layers or sizes["num_hidden_layers"]))
