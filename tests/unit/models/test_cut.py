"""Students cut from a source: exact where nothing is left out, and the best channels where something is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from understudy.errors import ModelError, RecipeError
from understudy.models import families
from understudy.models.cut import _largest, cut_weights, measure_activations
from understudy.models.layer_map import choose_layers

COMMON: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 12,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
    "pad_token_id": 1,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "electra": {"embedding_size": 24},
    "electra-small": {"embedding_size": 10},
    "distilbert": {"dim": 24, "n_layers": 12, "n_heads": 3, "hidden_dim": 40},
    "mpnet": {},
}
NAMES = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "intermediate_size": "hidden_dim"}


def make(family: str, **sizes: int) -> PreTrainedModel:
    torch.manual_seed(len(sizes))
    values = {**COMMON, **FAMILIES[family], **sizes}
    if family == "distilbert":
        values |= {NAMES[name]: size for name, size in sizes.items()}
    if family == "electra":
        values["embedding_size"] = values["hidden_size"]
    config = AutoConfig.for_model(family.removesuffix("-small"), **values)
    return AutoModelForSequenceClassification.from_config(config).eval()


def batch(seed: int = 1) -> dict[str, Tensor]:
    ids = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": torch.where(mask > 0, ids, 1), "attention_mask": mask}


def sample() -> Iterator[dict[str, Tensor]]:
    yield batch(1)
    yield batch(2)


def no_sample() -> Iterator[dict[str, Tensor]]:
    pytest.fail("nothing is left out, so nothing had to be measured")


def states(model: PreTrainedModel) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return model.base_model(**batch(), output_hidden_states=True).hidden_states


@pytest.mark.parametrize("family", FAMILIES)
def test_six_layers_copied_are_the_sources_to_the_bit(family: str) -> None:
    source, student = make(family), make(family, num_hidden_layers=6)
    cut_weights(student, source, choose_layers("first", 6, 12), no_sample)
    for ours, theirs in zip(states(student), states(source), strict=False):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_at_the_sources_own_size_is_the_source(family: str) -> None:
    source, student = make(family), make(family)
    head = copy.deepcopy(student.classifier.state_dict())
    cut_weights(student, source, choose_layers("spaced", 12, 12), no_sample)
    assert torch.equal(states(student)[-1], states(source)[-1])
    for name, value in student.base_model.state_dict().items():
        assert torch.equal(value, source.base_model.state_dict()[name])
    assert all(torch.equal(value, head[name]) for name, value in student.classifier.state_dict().items())


@pytest.mark.parametrize("family", FAMILIES)
def test_spaced_layers_come_from_where_they_should(family: str) -> None:
    source, student = make(family), make(family, num_hidden_layers=4)
    cut_weights(student, source, choose_layers("spaced", 4, 12), no_sample)
    ours, theirs = student.base_model.state_dict(), source.base_model.state_dict()
    last = [name for name in ours if "layer.3." in name]
    assert last
    assert all(torch.equal(ours[name], theirs[name.replace("layer.3.", "layer.11.")]) for name in last)


@pytest.mark.parametrize("family", FAMILIES)
def test_channels_that_do_nothing_can_be_cut_without_a_trace(family: str) -> None:
    """Neurons that are zero are the first to go, and nothing changes."""
    source = make(family, num_hidden_layers=3)
    part = {"bert": "intermediate.dense", "distilbert": "ffn.lin1"}
    up = part.get(family, "intermediate.dense")
    with torch.no_grad():
        for name, value in source.base_model.named_parameters():
            if f".{up}." in f".{name}":
                value[5:15] = 0.0  # gelu(0) = 0
    student = make(family, num_hidden_layers=3, intermediate_size=30)
    cut_weights(student, source, (1, 2, 3), sample)
    assert torch.allclose(states(student)[-1], states(source)[-1], atol=1e-5)


def test_dimensions_of_heads_that_do_nothing_leave_the_scores_as_they_were() -> None:
    """Heads shrink with the width; with zeros in the rest, what is kept of the scores is all of them."""
    source = make("bert", num_hidden_layers=2)  # 3 heads of 8
    with torch.no_grad():
        for layer in source.bert.encoder.layer:
            for part in (layer.attention.self.query, layer.attention.self.key):
                part.weight.view(3, 8, 24)[:, [1, 4]] = 0.0
                part.bias.view(3, 8)[:, [1, 4]] = 0.0
    student = make("bert", num_hidden_layers=2, hidden_size=18)  # 3 heads of 6
    cut_weights(student, source, (1, 2), sample)
    kept = student.bert.encoder.layer[0].attention.self.query.bias.view(3, 6) / (6 / 8) ** 0.5
    whole = source.bert.encoder.layer[0].attention.self.query.bias.view(3, 8)
    assert torch.allclose(kept, whole[:, [0, 2, 3, 5, 6, 7]])


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_their_output_keep_the_same_dimensions(family: str) -> None:
    """Dimensions of values that are zero go first, and with them the columns of the output they fed."""
    source = make(family, num_hidden_layers=2)
    names = families.family_of(source.config).parts
    num_heads = source.config.num_attention_heads
    head_size = source.config.hidden_size // num_heads
    dead = [1, head_size - 1]
    with torch.no_grad():
        for name, value in source.base_model.named_parameters():
            if f".{names.value}." in f".{name}":
                value.view(num_heads, head_size, -1)[:, dead] = 0.0
    width = num_heads * (head_size - len(dead))
    student = make(family, num_hidden_layers=2, hidden_size=width)
    channels = cut_weights(student, source, (1, 2), sample).hidden
    alive = [place for place in range(head_size) if place not in dead]
    kept = torch.cat([torch.tensor(alive) + head * head_size for head in range(num_heads)])
    cut, whole = student.base_model.state_dict(), source.base_model.state_dict()
    for name in whole:
        if name.endswith(f".{names.value}.weight"):
            assert torch.equal(cut[name], whole[name][kept][:, channels])
        if name.endswith(f".{names.output}.weight"):
            assert torch.equal(cut[name], whole[name][channels][:, kept])


def test_hidden_channels_are_those_with_the_largest_mean() -> None:
    source = make("bert", num_hidden_layers=2)
    activations = measure_activations(source, sample())
    expected = sum(
        (state.abs() * one["attention_mask"][:, :, None]).sum(dim=(0, 1))
        for one in sample()
        for state in source.base_model(**one, output_hidden_states=True).hidden_states
    )
    assert torch.allclose(activations["hidden", 0], expected, rtol=1e-5)
    student = make("bert", num_hidden_layers=2, hidden_size=12)
    channels = cut_weights(student, source, (1, 2), sample).hidden
    best = activations["hidden", 0].topk(12).indices.sort().values
    assert torch.equal(channels, best)
    assert torch.equal(
        student.bert.embeddings.word_embeddings.weight, source.bert.embeddings.word_embeddings.weight[:, best]
    )
    hooks = sum(len(module._forward_hooks) for module in source.modules())
    measure_activations(source, sample())
    assert sum(len(module._forward_hooks) for module in source.modules()) == hooks


@settings(max_examples=25, deadline=None)
@given(
    family=st.sampled_from(sorted(FAMILIES)),
    head=st.integers(1, 8),
    neurons=st.integers(1, 40),
    layers=st.integers(1, 3),
)
def test_any_narrower_shape_is_cut_and_runs(family: str, head: int, neurons: int, layers: int) -> None:
    source = make(family, num_hidden_layers=3)
    student = make(family, num_hidden_layers=layers, hidden_size=3 * head, intermediate_size=neurons)
    before = {name: value.clone() for name, value in source.state_dict().items()}
    cut_weights(student, source, choose_layers("spaced", layers, 3), sample)
    assert all(state.isfinite().all() for state in states(student))
    assert all(torch.equal(value, before[name]) for name, value in source.state_dict().items())


@given(groups=st.integers(1, 4), size=st.integers(1, 6), data=st.data())
def test_the_largest_of_each_group_in_their_order(groups: int, size: int, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(1, size))
    values = torch.tensor(data.draw(st.permutations(range(groups * size))), dtype=torch.float32)
    chosen = _largest(values, wanted, groups).view(groups, wanted)
    for group in range(groups):
        places = chosen[group].tolist()
        assert places == sorted(places)
        inside = values[group * size : (group + 1) * size]
        assert sorted(values[places].tolist()) == sorted(inside.tolist())[-wanted:]


@pytest.mark.parametrize(
    ("choice", "student", "source", "expected"),
    [
        ("first", 6, 12, (1, 2, 3, 4, 5, 6)),
        ("last", 3, 12, (10, 11, 12)),
        ("spaced", 6, 12, (2, 4, 6, 8, 10, 12)),
        ("spaced", 5, 12, (2, 5, 7, 10, 12)),
        ([1, 6, 6], 3, 12, (1, 6, 6)),
    ],
)
def test_layers(choice: Any, student: int, source: int, expected: tuple[int, ...]) -> None:
    assert choose_layers(choice, student, source) == expected


@pytest.mark.parametrize(
    ("choice", "student", "message"),
    [
        ("middle", 3, "must be first, spaced, last or a list; got 'middle'"),
        ("first", 13, "13 layers cannot be cut from a model of 12"),
        ([1, 2], 3, r"for each of the student's 3; got \[1, 2\]"),
        ([1, 2, 13], 3, "one of 12 layers"),
    ],
)
def test_bad_layers(choice: Any, student: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        choose_layers(choice, student, 12)


def test_what_cannot_be_cut() -> None:
    source = make("bert")
    with pytest.raises(RecipeError, match="the student's width is 30, the source's 24"):
        cut_weights(make("bert", hidden_size=30), source, range(1, 13), sample)
    with pytest.raises(RecipeError, match="must be of that family; got roberta"):
        cut_weights(make("roberta"), source, range(1, 13), sample)
    with pytest.raises(RecipeError, match="keeps the source's 3 heads"):
        cut_weights(make("bert", num_attention_heads=2), source, range(1, 13), sample)
    modern = AutoModel.from_config(
        AutoConfig.for_model(
            "modernbert", **COMMON, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3
        )
    )
    with pytest.raises(ModelError, match="cannot be cut from the family modernbert"):
        cut_weights(modern, modern, range(1, 13), sample)
    config = AutoConfig.for_model("electra", **{**COMMON, "hidden_size": 12, "embedding_size": 12})
    plain = AutoModelForSequenceClassification.from_config(config)
    with pytest.raises(RecipeError, match="embeddings of 10 are projected"):
        cut_weights(plain, make("electra-small"), range(1, 13), sample)
