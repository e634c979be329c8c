"""How much arithmetic an encoder does, on paper."""

from __future__ import annotations

from typing import Any

from understudy.models.families import family_of, own_sizes


def forward_flop(config: Any, length: float, *, num_layers: int | None = None) -> float:
    """Floating point operations of a forward pass, for each token of texts of a length.

    Matrix products alone, two operations for each multiplication that is added: projections of queries,
    keys, values and outputs (8 H²), the feed-forward part (4 H I; 6 H I where it is gated), and attention
    itself (4 L H). Embeddings are looked up; norms, activations and heads are a few percent.

    Args:
        length: the mean number of tokens of a text.
        num_layers: as many as are run; all where not given.
    """
    sizes = own_sizes(config)
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    num_products = 6 if family_of(config).is_gated else 4
    layer = 8 * hidden**2 + num_products * hidden * inner + 4 * length * hidden
    return float(layer * (num_layers or sizes["num_hidden_layers"]))
