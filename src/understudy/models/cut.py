"""Students cut from a larger model: some of its layers, and the most important channels of each.

A cut selects channels and does not mix them: every kept channel of the hidden states has the same meaning in
the student as in the source, so LayerNorm and the residual stream still work. The channels with the largest
mean activation on a sample of text are kept:

- hidden channels, the same ones in every layer;
- dimensions within each head, for queries with keys, and for values, per layer;
- feed-forward neurons, per layer.

At the source's own width nothing is removed, and the copy is bit-exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from transformers import PreTrainedModel

from understudy.errors import ModelError, RecipeError
from understudy.models.families import Family, LayerParts, family_of, known_families, own_sizes
from understudy.models.layer_map import choose_layers
from understudy.models.pretrained import load_tensors_beside
from understudy.models.settings import LayerChoice, check_narrower

# H hidden size, N heads, D head size, F feed-forward neurons

Axis = Literal["hidden", "query_key", "value", "feed_forward"]

LAYER = "layer"  # key of the layer itself, next to its linear modules
CUT = "cut.safetensors"  # in the folder of a general student that was cut
# Saved next to the kept places, which are by axis and layer.
_LAYERS, _SIZES, _TOKENS = "layers", "source_sizes", "source_tokens"
# Fine-tuning hardly moves the embeddings of most tokens; those of another model are unrelated.
_SAME_SOURCE = 0.8
_NUM_TOKENS = 100


@dataclass(frozen=True)
class Cut:
    """What a student keeps of its source.

    Attributes:
        layers: source layers, counted from 1, in the order of the student's.
        hidden: the hidden channels, the same ones in every layer.
        kept: the kept places of the other axes by axis and source layer; empty at the source's own width.
        source_sizes: the number of layers and heads of the source, and its size along every axis.
        source_tokens: the embeddings of some of the source's tokens, by which it is recognised.
    """

    layers: tuple[int, ...]
    hidden: Tensor
    kept: Mapping[tuple[Axis, int], Tensor]
    source_sizes: tuple[int, ...]
    source_tokens: Tensor

    def channels(self, axis: Axis, layer: int) -> Tensor | slice:
        """Return the kept places of an axis in a source layer."""
        return self.kept.get((axis, layer), slice(None))

    @property
    def is_copy(self) -> bool:
        """Whether the student is an exact copy of the source's first layers."""
        return not self.kept and self.layers == tuple(range(1, len(self.layers) + 1))

    def fits(self, model: PreTrainedModel) -> bool:
        """Return whether a model is the source, or was fine-tuned from it."""
        if family_of(model.config).parts is None or self.source_sizes != _all_sizes(model.config):
            return False
        tokens = _some_tokens(model)
        if tokens.shape != self.source_tokens.shape:
            return False
        return float(cosine_similarity(tokens, self.source_tokens, dim=-1).median()) > _SAME_SOURCE


def save_cut(cut: Cut, folder: Path) -> None:
    """Save which layers and channels a student was cut from, in its folder."""
    places = {f"{axis}.{layer}": kept for (axis, layer), kept in cut.kept.items()}
    numbers = {_LAYERS: torch.tensor(cut.layers), _SIZES: torch.tensor(cut.source_sizes)}
    save_file({"hidden": cut.hidden, _TOKENS: cut.source_tokens, **places, **numbers}, folder / CUT)


def saved_cut(student: str) -> Cut | None:
    """Load the cut saved with a student; None if there is none."""
    saved = load_tensors_beside(student, CUT)
    if not saved:
        return None
    layers, sizes = (tuple(saved.pop(name).tolist()) for name in (_LAYERS, _SIZES))
    hidden, tokens = saved.pop("hidden"), saved.pop(_TOKENS)
    kept: dict[tuple[Any, int], Tensor] = {}
    for place, tensor in saved.items():
        axis, layer = place.split(".")
        kept[axis, int(layer)] = tensor
    return Cut(layers, hidden, kept, sizes, tokens)


def cut_weights(
    student: PreTrainedModel,
    source: PreTrainedModel,
    layers: Sequence[int],
    sample: Callable[[], Iterable[Mapping[str, Tensor]]],
) -> Cut:
    """Copy the source's weights to a student's encoder: embeddings, pooler and the chosen layers.

    Args:
        student: a model of the source's family with as many heads, nowhere wider. Its task head is unchanged.
        layers: source layers, counted from 1, in the order of the student's.
        sample: returns batches of text to measure activations on; not called if nothing is removed.

    Returns:
        What the student keeps of its source.
    """
    check_fit(student.config, source.config)
    wanted, whole = _sizes(student.config), _sizes(source.config)
    family, parts = family_of(source.config), _parts_of(source.config)
    kept: dict[tuple[Axis, int], Tensor] = {}
    if wanted != whole:
        activations = measure_activations(source, sample())
        kept = {
            place: _largest(activation, wanted[place[0]], _groups(place[0], source.config))
            for place, activation in activations.items()
        }
    weights = source.base_model.state_dict()
    factorised = _is_factorised(source)
    if factorised != _is_factorised(student):
        raise RecipeError(
            f"the source's embeddings of {source.config.embedding_size} are projected to its width; a "
            "student of that very width cannot be cut from it. Choose another student.hidden_size."
        )
    scale = query_scale(student.config, source.config)
    # Parameters of the student that a plain encoder does not have, if its class names any.
    beside: tuple[str, ...] = getattr(student, "beside_encoder", ())
    cut = {}
    for name, target in student.base_model.state_dict().items():
        if name.startswith(beside):
            continue
        layer, source_name = _source_name(name, layers)
        if source_name not in weights:
            raise ModelError(
                f"{type(source).__name__} has no {source_name} to cut the student's {name} from."
            )
        value = weights[source_name]
        for dimension, axis in enumerate(_axes(name, family, value.dim(), factorised)):
            index = kept.get((axis, 0 if axis == "hidden" else layer)) if axis is not None else None
            if index is not None:
                value = value.index_select(dimension, index)
        if scale != 1.0 and f".{parts.query}." in name:
            value = value * scale
        if value.shape != target.shape:
            raise ModelError(
                f"{name} of the student is {tuple(target.shape)}, and what is cut from {source_name} is "
                f"{tuple(value.shape)}."
            )
        cut[name] = value
    student.base_model.load_state_dict(cut, strict=not beside)
    hidden = kept.pop(("hidden", 0), torch.arange(whole["hidden"]))
    return Cut(tuple(layers), hidden, kept, _all_sizes(source.config), _some_tokens(source))


def query_scale(student: Any, source: Any) -> float:
    """Return the factor of a student's queries, given both configs.

    It keeps the scale of the scores: the sum over fewer dimensions must still be divided by the source's √D.
    """
    return float((_sizes(student)["query_key"] / _sizes(source)["query_key"]) ** 0.5)


def layer_modules(model: PreTrainedModel) -> dict[int, dict[str, nn.Module]]:
    """Return every layer, counted from 1: its linear modules by their names in `LayerParts`, and itself."""
    parts = {part: f".{path}" for part, path in vars(_parts_of(model.config)).items()} | {LAYER: ""}
    found: dict[int, dict[str, nn.Module]] = {}
    for name, module in model.base_model.named_modules():
        for part, path in parts.items():
            match = re.search(rf"\.layer\.(\d+){re.escape(path)}$", f".{name}")
            if match:
                found.setdefault(int(match[1]) + 1, {})[part] = module
    return found


def measure_activations(
    model: PreTrainedModel, batches: Iterable[Mapping[str, Tensor]]
) -> dict[tuple[Axis, int], Tensor]:
    """Return the mean absolute activation of every channel over real tokens, by axis and layer.

    Layers are counted from 1; hidden channels, summed over all layers, are at 0.
    """
    sums: dict[tuple[str, int], Tensor] = {}
    mask = torch.empty(0)
    hooks = []

    def add(part: str, layer: int, states: Tensor) -> None:
        total = (states.float().abs() * mask[:, :, None]).sum(dim=(0, 1))
        sums[part, layer] = sums[part, layer] + total if (part, layer) in sums else total

    def watch(module: nn.Module, part: str, layer: int) -> None:
        if part == "down":  # its inputs are the neurons after their non-linearity
            hooks.append(module.register_forward_pre_hook(lambda _, args: add(part, layer, args[0])))
        else:
            hooks.append(module.register_forward_hook(lambda _, __, output: add(part, layer, output)))

    for layer, modules in layer_modules(model).items():
        for part in ("query", "key", "value", "down"):
            watch(modules[part], part, layer)
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            for batch in batches:
                mask = batch["attention_mask"].float()
                states = model.base_model(**batch, output_hidden_states=True).hidden_states
                for state in states:
                    add("hidden", 0, state)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    if not sums:
        raise ModelError("a narrower student needs a sample of text to be cut by, and there was none.")
    result: dict[tuple[Axis, int], Tensor] = {("hidden", 0): sums["hidden", 0]}
    for part, layer in sums:
        if part == "query":
            # A dimension contributes its query times its key to the scores.
            result["query_key", layer] = sums["query", layer] * sums["key", layer]
            result["value", layer] = sums["value", layer]
            result["feed_forward", layer] = sums["down", layer]
    return result


def _sizes(config: Any) -> dict[Axis, int]:
    """Return the size of every axis; per head for the axes of heads."""
    sizes = own_sizes(config)
    head_size = sizes["hidden_size"] // sizes["num_attention_heads"]
    return {
        "hidden": sizes["hidden_size"],
        "query_key": head_size,
        "value": head_size,
        "feed_forward": sizes["intermediate_size"],
    }


def _some_tokens(model: PreTrainedModel) -> Tensor:
    """Return the embeddings of tokens that are evenly spread over the vocabulary."""
    weight: Tensor = model.get_input_embeddings().weight.detach()  # type: ignore[operator]
    step = max(1, len(weight) // _NUM_TOKENS)
    return weight[step // 2 :: step].float().clone()


def _all_sizes(config: Any) -> tuple[int, ...]:
    """Return the number of layers and heads, and the size of every axis."""
    own = own_sizes(config)
    return (own["num_hidden_layers"], own["num_attention_heads"], *_sizes(config).values())


def _parts_of(config: Any) -> LayerParts:
    parts = family_of(config).parts
    assert parts is not None  # ensured by check_fit
    return parts


def _groups(axis: Axis, config: Any) -> int:
    return config.num_attention_heads if axis in ("query_key", "value") else 1


def _largest(activation: Tensor, size: int, groups: int) -> Tensor:
    """Return the indices of the `size` largest values in each group, in ascending order."""
    by_group = activation.view(groups, -1)
    best = by_group.topk(size, dim=1).indices.sort(dim=1).values
    return (best + torch.arange(groups, device=best.device)[:, None] * by_group.shape[1]).flatten()


def _source_name(name: str, layers: Sequence[int]) -> tuple[int, str]:
    """Return the source's layer (0 outside the layers) and the name of the parameter there."""
    found = re.search(r"(?<=layer\.)\d+(?=\.)", name)
    if found is None:
        return 0, name
    layer = layers[int(found[0])]
    return layer, name[: found.start()] + str(layer - 1) + name[found.end() :]


def _is_factorised(model: PreTrainedModel) -> bool:
    """Return whether embeddings have their own width, as in ELECTRA-small."""
    return hasattr(model.base_model, "embeddings_project")


def _axes(name: str, family: Family, num_dimensions: int, factorised: bool) -> tuple[Axis | None, ...]:
    """Return the axis of each dimension of a parameter; None is kept whole."""
    parts = family.parts
    assert parts is not None  # ensured by check_fit
    inside: dict[str, tuple[Axis, Axis]] = {
        parts.query: ("query_key", "hidden"),
        parts.key: ("query_key", "hidden"),
        parts.value: ("value", "hidden"),
        parts.output: ("hidden", "value"),
        parts.up: ("feed_forward", "hidden"),
        parts.down: ("hidden", "feed_forward"),
    }
    # One name may be a suffix of another: the longest wins.
    for part in sorted(inside, key=len, reverse=True):
        if f".{part}." in name:
            return inside[part][:num_dimensions]
    whole = any(part in name for part in family.untouched)
    if whole or (factorised and name.startswith("embeddings.")):
        return (None,) * num_dimensions
    hidden: Axis = "hidden"
    if name.startswith("embeddings_project."):
        return (hidden, None)[:num_dimensions]
    if name.startswith("embeddings.") and num_dimensions == 2:
        return (None, hidden)
    return (hidden,) * num_dimensions


def check_cut(student: Any, source: Any, choice: LayerChoice | Sequence[int]) -> None:
    """Refuse an impossible cut, based on the two configs alone."""
    check_fit(student, source)
    choose_layers(choice, student.num_hidden_layers, source.num_hidden_layers)


def check_fit(student: Any, source: Any) -> None:
    """Refuse a student that is not a narrower version of the source."""
    family = source.model_type
    if family_of(source).parts is None:
        raise ModelError(
            f"a student cannot be cut from the family {family} (known: "
            f"{known_families(lambda one: one.parts)}). Use student.init=random, or register_family."
        )
    if student.model_type != family:
        raise RecipeError(
            f"a student cut from {family} must be of that family; got {student.model_type}. Use "
            "student.init=random."
        )
    if student.num_attention_heads != source.num_attention_heads:
        raise RecipeError(
            f"a cut keeps the source's {source.num_attention_heads} heads; got "
            f"student.num_attention_heads={student.num_attention_heads}. Leave that out, or use "
            "student.init=random."
        )
    for axis, size in _sizes(student).items():
        name = {"hidden": "width", "feed_forward": "feed-forward part"}.get(axis, "head size")
        check_narrower(name, size, _sizes(source)[axis])
