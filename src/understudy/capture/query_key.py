"""Read queries and keys from each model family, without changing what the model computes.

Most families call transformers' attention interface: a function registered there records the queries and
keys of the requested layers and then attends as before. Others are read by hooks on their projections. In
both cases the model can still use any fused attention.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from understudy.capture.representations import QueryKey, Representations
from understudy.errors import ModelError
from understudy.models.families import AttentionHooks, family_of, known_families

# B batch, N heads, L tokens, D head size, W whole width of all heads

PREFIX = "understudy_"


@dataclass
class Recorder:
    """Queries and keys of one forward pass, by layer counted from 1."""

    wanted: frozenset[int]
    found: dict[int, QueryKey] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)
    num_layers: int = 0


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(layers: Sequence[int]) -> Iterator[Recorder]:
    """Record the given layers of a prepared model's forward passes while the context is active."""
    recorder = Recorder(frozenset(layers))
    token = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


def capture(model: nn.Module, inputs: Mapping[str, Tensor], layers: Sequence[int]) -> Representations:
    """Run one forward pass of a prepared model, or its distributed wrapper, and return its representations.

    Args:
        inputs: the model's inputs, without labels.
        layers: layers counted from 1; their order is kept.
    """
    with recording(layers) as recorder:
        output = model(**inputs, output_hidden_states=True, return_dict=True)
    missing = sorted(set(layers) - set(recorder.found))
    if missing:
        name = type(getattr(model, "module", model)).__name__
        raise ModelError(
            f"{name} passed {recorder.num_layers} layers, and layers {missing} were wanted. Was it "
            "prepared with prepare_capture, and does it have that many layers?"
        )
    hidden = output.hidden_states
    return Representations(
        embeddings_BLH=hidden[0],
        hidden=tuple(hidden[layer] for layer in layers),
        query_key=tuple(recorder.found[layer] for layer in layers),
        logits={name: output[name] for name in output if name.endswith("logits")},
    )


def prepare_capture(model: PreTrainedModel) -> None:
    """Make a model's queries and keys readable. Its outputs do not change.

    Raises:
        ModelError: if neither way works for the family; the message says what is needed.
    """
    hooks = family_of(model.config).hooks
    if hooks is not None:
        _hook_projections(model, hooks)
        return
    base = model.config._attn_implementation
    if not base.startswith(PREFIX) and model._can_set_attn_implementation():
        _register(base)
        model.set_attn_implementation(PREFIX + base)
    if not _attends(model):
        raise ModelError(
            f"queries and keys of {type(model).__name__} ({model.config.model_type}) cannot be read: it does "
            "not call transformers' attention interface, and its projections are not known (known: "
            f"{known_families(lambda one: one.hooks)}). Name them with register_family."
        )


def _attends(model: PreTrainedModel) -> bool:
    """Check whether our function is called, by running two tokens through the encoder."""
    tokens = torch.full((1, 2), model.config.vocab_size - 1, device=model.device)
    training = model.training
    with recording([]) as recorder, torch.no_grad():
        model.train(False).base_model(input_ids=tokens, attention_mask=torch.ones_like(tokens))
    model.train(training)
    return recorder.num_layers > 0


def _register(base: str) -> None:
    """Register our function over `base`, together with the mask function.

    Without a mask function under the same name the padding mask would be silently dropped.
    """
    name = PREFIX + base

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *arguments: Any, **options: Any
    ) -> Any:
        recorder = _RECORDER.get()
        if recorder is not None:
            recorder.num_layers += 1
            if recorder.num_layers in recorder.wanted:
                scaling = options.get("scaling") or query.shape[-1] ** -0.5
                recorder.found[recorder.num_layers] = QueryKey(
                    _side_by_side(query), _side_by_side(key), query.shape[1], scaling
                )
        return _original(base, module)(module, query, key, value, *arguments, **options)

    ALL_ATTENTION_FUNCTIONS.register(name, attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS[base])


def _original(base: str, module: nn.Module) -> Callable[..., Any]:
    if base == "eager":  # each family has its own
        eager: Callable[..., Any] = sys.modules[type(module).__module__].eager_attention_forward
        return eager
    function: Callable[..., Any] = ALL_ATTENTION_FUNCTIONS[base]
    return function


def _side_by_side(heads_BNLD: Tensor) -> Tensor:
    return heads_BNLD.transpose(1, 2).flatten(2)


def _hook_projections(model: PreTrainedModel, hooks: AttentionHooks) -> None:
    """Hook the projections of every layer; layers are counted in the order of the model."""
    modules = [
        module for module in model.modules() if hasattr(module, hooks.query) and hasattr(module, hooks.key)
    ]
    for layer, module in enumerate(modules, start=1):
        query, key = getattr(module, hooks.query), getattr(module, hooks.key)
        if not query._forward_hooks:  # skip if already prepared
            query.register_forward_hook(_keep_query(layer))
            key.register_forward_hook(_keep_pair(layer, module, hooks.scaling))


def _keep_query(layer: int) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: Any, query_BLW: Tensor) -> None:
        recorder = _RECORDER.get()
        # Position embeddings may pass through the same module later, so only the first call counts.
        if recorder is not None and layer in recorder.wanted:
            recorder.queries.setdefault(layer, query_BLW)

    return hook


def _keep_pair(layer: int, module: Any, scaling: Callable[[Any], float]) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: Any, key_BLW: Tensor) -> None:
        recorder = _RECORDER.get()
        if recorder is None:
            return
        recorder.num_layers = max(recorder.num_layers, layer)
        if layer in recorder.wanted and layer not in recorder.found:
            recorder.found[layer] = QueryKey(
                recorder.queries[layer], key_BLW, module.num_attention_heads, scaling(module)
            )

    return hook
