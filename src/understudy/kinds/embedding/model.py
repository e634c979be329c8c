"""An encoder whose output is one vector for each text, saved as sentence-transformers saves it."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import MODEL_MAPPING

from understudy.data.encode import ENCODER_INPUTS
from understudy.errors import ModelError
from understudy.kinds.embedding.pooling import DENSE, Pooling, read_dense, write_modules

# B texts, L tokens, H hidden size, D width of the vectors

_HEADS = (r"pooler\.", r"^cls\.", r"^lm_head\.", r"^classifier\.")  # other checkpoints' heads, not used here
_WEIGHTS = f"{DENSE}/model.safetensors"
OUTSIDE = "projection."  # prefix of the parameters that are not the encoder's


def pooled_class(config: Any) -> Any:
    """Return the encoder class of a config, with pooling behind it."""
    if type(config) not in MODEL_MAPPING:
        raise ModelError(f"there is no encoder for {config.model_type} in transformers.")
    return _pooled(MODEL_MAPPING[type(config)])


def has_pooler(encoder_class: Any) -> bool:
    """Return whether an encoder has BERT's pooler by default."""
    return "add_pooling_layer" in inspect.signature(encoder_class.__init__).parameters


@functools.cache
def _pooled(base: Any) -> Any:
    """Return a subclass with the name of its base, so that it is saved under that name.

    Its output has `logits`: the vectors, one for each text of a row.
    """

    class Pooled(base):  # type: ignore[misc]
        _keys_to_ignore_on_load_missing: ClassVar[list[str]] = [
            *(base._keys_to_ignore_on_load_missing or ()),
            rf"^{OUTSIDE}",
        ]
        _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [
            *(base._keys_to_ignore_on_load_unexpected or ()),
            *_HEADS,
        ]

        beside_encoder = (OUTSIDE,)

        def __init__(self, config: Any, **_: Any) -> None:
            # BERT's own pooler would learn nothing here.
            super().__init__(config, **({"add_pooling_layer": False} if has_pooler(base) else {}))
            pooling = Pooling(**config.pooling)
            self.projection = None
            if pooling.dense:
                self.projection = nn.Linear(config.hidden_size, pooling.dimension, bias=pooling.bias)
            self.post_init()

        @functools.wraps(base.forward)
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            shape = input_ids.shape  # BL, or B2L for pairs
            given = {"input_ids": input_ids, "attention_mask": attention_mask, **options}
            given.pop("labels", None)  # scores of pairs, which no loss reads
            given |= {name: given[name].flatten(0, -2) for name in ENCODER_INPUTS if name in given}
            output = super().forward(**{**given, "return_dict": True})
            vectors_BD = embed(
                output["last_hidden_state"],
                given["attention_mask"],
                Pooling(**self.config.pooling),
                self.projection,
            )
            output["logits"] = vectors_BD if len(shape) == 2 else vectors_BD.view(*shape[:-1], -1)
            return output

        @classmethod
        def from_pretrained(cls, name: str | Path, **options: Any) -> Any:
            """Load an encoder, and the Dense layer of a sentence-transformers model."""
            model = super().from_pretrained(name, **options)
            saved = read_dense(str(name), revision=options.get("revision"))
            shape = None if model.projection is None else model.projection.weight.shape
            if saved is not None and saved["weight"].shape == shape:  # otherwise a student's new layer
                model.projection.load_state_dict(saved)
            return model

        def save_pretrained(self, save_directory: str | Path, **options: Any) -> None:
            state = options.pop("state_dict", None) or self.state_dict()
            encoder = {name: value for name, value in state.items() if not name.startswith(OUTSIDE)}
            super().save_pretrained(save_directory, state_dict=encoder, **options)
            folder = Path(save_directory)
            write_modules(folder, Pooling(**self.config.pooling), self.config.hidden_size)
            dense = {
                f"linear.{name.removeprefix(OUTSIDE)}": value.detach().float().cpu().contiguous()
                for name, value in state.items()
                if name.startswith(OUTSIDE)
            }
            if dense:
                save_file(dense, folder / _WEIGHTS)

    Pooled.__name__ = Pooled.__qualname__ = base.__name__
    Pooled.__module__ = base.__module__
    return Pooled


def place_channels(student: Any, channels: Tensor, source: Any) -> None:
    """Initialise the Dense layer of a cut student from its source.

    It gets the columns of the source's Dense layer or, if there is none, maps each channel to its place in
    the source. Nothing is changed if the vectors are not as wide as the source's.

    Args:
        channels: the source's hidden channels that the student keeps.
        source: the source's config.
    """
    if student.projection is None:
        return
    dense = read_dense(str(source.name_or_path))
    if dense is None:
        dense = {"weight": torch.eye(source.hidden_size)}
    weight_DH = dense["weight"][:, channels]
    if weight_DH.shape != student.projection.weight.shape:
        return
    with torch.no_grad():
        student.projection.weight.copy_(weight_DH)
        if student.projection.bias is not None:
            student.projection.bias.copy_(dense.get("bias", torch.zeros(len(weight_DH))))


def embed(states_BLH: Tensor, mask_BL: Tensor, pooling: Pooling, projection: nn.Module | None) -> Tensor:
    """Turn an encoder's states into vectors."""
    if pooling.mode == "cls":
        vectors = states_BLH[:, 0]
    elif pooling.mode == "last":
        places_L = torch.arange(1, mask_BL.shape[1] + 1, device=mask_BL.device)
        last_B = (mask_BL * places_L).argmax(dim=1)  # of the real tokens, whichever side is padded
        places = last_B[:, None, None].expand(-1, 1, states_BLH.shape[-1])
        vectors = states_BLH.gather(1, places).squeeze(1)
    else:
        real_BL1 = mask_BL.unsqueeze(-1).to(states_BLH.dtype)
        vectors = (states_BLH * real_BL1).sum(dim=1) / real_BL1.sum(dim=1).clamp(min=1)
    if projection is not None:
        vectors = projection(vectors)
        vectors = torch.tanh(vectors) if pooling.activation == "tanh" else vectors
    # As in sentence-transformers: 1e-12 keeps a zero vector zero.
    return nn.functional.normalize(vectors, dim=-1) if pooling.normalize else vectors
