"""The differences between model families: one table, and `register_family` for your own.

A family is identified by `config.model_type`. One that is not in the table can still teach if it uses
transformers' attention interface; it needs an entry to be resized, cut, or read by hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import BertConfig

from understudy.models.settings import SIZES

# The student's family if the teacher's own does not support free shapes.
GENERIC = "bert"


@dataclass(frozen=True)
class LayerParts:
    """Names of the linear modules in a layer that normalises after both residual sums."""

    query: str
    key: str
    value: str
    output: str
    up: str
    down: str


@dataclass(frozen=True)
class AttentionHooks:
    """How to read queries and keys in a family that does not use transformers' attention interface.

    Attributes:
        query, key: names of the projections in the attention module.
        scaling: maps the attention module to the scale of its scores.
    """

    query: str
    key: str
    scaling: Callable[[Any], float]


@dataclass(frozen=True)
class Family:
    """An entry of the table.

    Attributes:
        name: `config.model_type`.
        parts: module names inside a layer, for cutting students from such a model.
        sizes: the family's own names for `SIZES`, if they differ.
        can_resize: whether the config accepts the four sizes, with no other size tied to them.
        positions_after_padding: whether positions are counted from the padding id.
        is_gated: whether the feed-forward part has a gate.
        hooks: how to read queries and keys, if the attention interface is not used.
        stacks: the names of layer lists in module names.
        untouched: substrings of parameter names that a cut copies whole.
    """

    name: str
    parts: LayerParts | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    can_resize: bool = True
    positions_after_padding: bool = False
    is_gated: bool = False
    hooks: AttentionHooks | None = None
    stacks: tuple[str, ...] = ("layer", "layers")
    untouched: tuple[str, ...] = ()


_BERT = LayerParts(
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
_DISTILBERT = LayerParts(
    "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "ffn.lin1", "ffn.lin2"
)
_MPNET = LayerParts(
    "attention.attn.q",
    "attention.attn.k",
    "attention.attn.v",
    "attention.attn.o",
    "intermediate.dense",
    "output.dense",
)


def _mpnet_scaling(module: Any) -> float:
    return float(module.attention_head_size**-0.5)


def _deberta_scaling(module: Any) -> float:
    # Content scores share their scale with the position terms added to them.
    terms = 1 + sum(name in module.pos_att_type for name in ("c2p", "p2c"))
    return float((module.attention_head_size * terms) ** -0.5)


_FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("bert", parts=_BERT),
        Family("roberta", parts=_BERT, positions_after_padding=True),
        Family("xlm-roberta", parts=_BERT, positions_after_padding=True),
        Family("xlm-roberta-xl", can_resize=False, positions_after_padding=True),
        Family("camembert", parts=_BERT, positions_after_padding=True),
        Family("electra", parts=_BERT),
        Family(
            "distilbert",
            parts=_DISTILBERT,
            sizes={
                "num_hidden_layers": "n_layers",
                "hidden_size": "dim",
                "intermediate_size": "hidden_dim",
                "num_attention_heads": "n_heads",
            },
        ),
        Family(
            "mpnet",
            parts=_MPNET,
            positions_after_padding=True,
            hooks=AttentionHooks("q", "k", _mpnet_scaling),
            untouched=("relative_attention_bias",),
        ),
        Family("modernbert", is_gated=True),
        Family("albert", stacks=("albert_layers",)),
        Family("deberta-v2", hooks=AttentionHooks("query_proj", "key_proj", _deberta_scaling)),
    )
}


def register_family(family: Family) -> None:
    """Add a model family, or replace an entry of the table.

    Examples:
        >>> register_family(Family("my-encoder", can_resize=True))
    """
    _FAMILIES[family.name] = family


def family_of(config: Any) -> Family:
    """Return the entry of a model's family, or a minimal one for an unknown family."""
    return _FAMILIES.get(config.model_type) or Family(config.model_type, can_resize=False)


def known_families(able: Callable[[Family], object]) -> str:
    """List the families that satisfy a condition, for messages."""
    return ", ".join(name for name, family in _FAMILIES.items() if able(family))


def stack_names() -> tuple[str, ...]:
    """Return all names of layer lists."""
    return tuple(dict.fromkeys(name for family in _FAMILIES.values() for name in family.stacks))


def own_sizes(config: Any) -> dict[str, int]:
    """Return a config's four sizes under their most common names."""
    names = family_of(config).sizes
    return {name: getattr(config, names.get(name, name)) for name in SIZES}


def named_sizes(config: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes under the names of a config's family."""
    names = family_of(config).sizes
    return {names.get(name, name): size for name, size in sizes.items()}


def num_positions(config: Any) -> int | None:
    """Return how many positions a model has; None if there is no limit."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions and family_of(config).positions_after_padding:
        return int(positions - config.pad_token_id - 1)
    return positions


def generic_config(teacher_config: Any, sizes: Mapping[str, Any]) -> BertConfig:
    """Return the config of a student of the generic family with its teacher's vocabulary."""
    return BertConfig(
        vocab_size=teacher_config.vocab_size,
        # Families that count from the padding id have two more than they use; harmless here.
        max_position_embeddings=teacher_config.max_position_embeddings,
        type_vocab_size=max(2, getattr(teacher_config, "type_vocab_size", 2)),
        pad_token_id=teacher_config.pad_token_id,
        **sizes,
    )
