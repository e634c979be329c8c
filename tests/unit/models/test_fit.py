"""A cut student is fitted to its source: nearer to it on unseen text, and never further away."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_cut import FAMILIES, make
from torch import Tensor, nn

from understudy.models.cut import Cut, cut_weights, save_cut, saved_cut
from understudy.models.fit import fit_layers, fit_linear
from understudy.models.layer_map import choose_layers


def texts(seed: int, *, padding: int = 0) -> Iterator[dict[str, Tensor]]:
    for number in range(12):
        generator = torch.Generator().manual_seed(100 * seed + number)
        ids = torch.randint(4, 50, (8, 12), generator=generator)
        mask = torch.ones_like(ids)
        mask[::3, 9:] = 0
        ids = torch.where(mask > 0, ids, 1)
        extra = torch.ones(8, padding, dtype=torch.long)
        yield {
            "input_ids": torch.cat([ids, extra], 1),
            "attention_mask": torch.cat([mask, torch.zeros_like(extra)], 1),
        }


def cut_one(family: str, **sizes: int) -> tuple[nn.Module, nn.Module, Cut]:
    source = make(family, num_hidden_layers=6)
    student = make(family, **{"num_hidden_layers": 3, **sizes})
    layers = choose_layers("spaced", student.config.num_hidden_layers, 6)
    cut = cut_weights(student, source, layers, lambda: texts(1))
    return student, source, cut


def unseen_difference(student: nn.Module, source: nn.Module, cut: Cut) -> float:
    batch = next(texts(9))
    mask = batch["attention_mask"].bool()
    with torch.no_grad():
        ours = student.base_model(**batch).last_hidden_state
        theirs = source.base_model(**batch).last_hidden_state[..., cut.hidden]
    return float((ours - theirs)[mask].pow(2).mean())


def count_hooks(*models: nn.Module) -> int:
    batch = next(texts(1))
    for model in models:
        model.base_model(**batch, output_hidden_states=True)  # transformers leaves hooks of its own
    return sum(len(module._forward_hooks) for model in models for module in model.modules())


def test_the_change_of_weights_by_hand() -> None:
    """X = (1, -1), Y = (2, -2): XᵀX = 2, XᵀY = 4, λ = 2, so that the weight is 4 / 4."""
    linear = nn.Linear(1, 1)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
        fit_linear(linear, torch.tensor([[1.0], [-1.0]]), torch.tensor([[2.0], [-2.0]]))
    assert linear.weight.item() == pytest.approx(1.0)
    assert linear.bias.item() == pytest.approx(0.0)


def test_the_bias_takes_the_mean() -> None:
    """X = (1, 3), Y = (5, 9): slope 4 / 4 around the means 2 and 7."""
    linear = nn.Linear(1, 1)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.fill_(1.0)
        fit_linear(linear, torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [9.0]]))
    assert linear.weight.item() == pytest.approx(1.0)
    assert linear.bias.item() == pytest.approx(7 - 2)


def test_weights_that_reach_their_targets_stay() -> None:
    torch.manual_seed(0)
    linear, inputs = nn.Linear(5, 3), torch.randn(40, 5)
    before = copy.deepcopy(linear)
    with torch.no_grad():
        fit_linear(linear, inputs, before(inputs))
    assert torch.allclose(linear.weight, before.weight, atol=1e-6)


def test_without_a_bias_nothing_is_centred() -> None:
    linear = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        linear.weight.zero_()
        fit_linear(linear, torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [6.0]]))
    assert linear.weight.item() == pytest.approx(1.0)  # XᵀX = 10, λ = 10, XᵀY = 20


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fitted_student_is_nearer_to_its_source_on_unseen_text(family: str) -> None:
    student, source, cut = cut_one(family, hidden_size=18, intermediate_size=30)
    before = unseen_difference(student, source, cut)
    teacher = {name: value.clone() for name, value in source.state_dict().items()}
    hooks = count_hooks(student, source)
    fit = fit_layers(student, source, cut, texts(1))
    assert fit.after < fit.before
    assert unseen_difference(student, source, cut) < 0.8 * before
    assert all(torch.equal(value, teacher[name]) for name, value in source.state_dict().items())
    assert count_hooks(student, source) == hooks


def test_layers_that_were_left_out_are_made_up_for_at_full_width() -> None:
    student, source, cut = cut_one("bert")
    before = unseen_difference(student, source, cut)
    fit_layers(student, source, cut, texts(1))
    assert unseen_difference(student, source, cut) < 0.8 * before


def test_a_copy_keeps_its_weights_to_the_bit() -> None:
    source, student = make("bert", num_hidden_layers=4), make("bert", num_hidden_layers=3)
    cut = cut_weights(student, source, (1, 2, 3), lambda: texts(1))
    assert cut.is_copy
    before = {name: value.clone() for name, value in student.state_dict().items()}
    fit = fit_layers(student, source, cut, texts(1))
    assert fit.before == fit.after == 0.0
    assert all(torch.equal(value, before[name]) for name, value in student.state_dict().items())


def test_padding_changes_nothing() -> None:
    fitted = []
    for padding in (0, 7):
        student, source, cut = cut_one("bert", hidden_size=18, intermediate_size=30)
        fit = fit_layers(student, source, cut, texts(1, padding=padding))
        assert fit.tokens == sum(int(one["attention_mask"].sum()) for one in texts(1))
        fitted.append(student.state_dict())
    for name, value in fitted[0].items():
        assert torch.allclose(value, fitted[1][name], atol=1e-3), name


@pytest.mark.parametrize("layers", [(2, 4, 6), (6, 2, 4), (3, 3, 6)])
def test_layers_in_any_order_are_fitted(layers: tuple[int, ...]) -> None:
    source, student = make("bert", num_hidden_layers=6), make("bert", num_hidden_layers=3)
    cut = cut_weights(student, source, layers, lambda: texts(1))
    fit = fit_layers(student, source, cut, texts(1))
    assert fit.after < fit.before


def test_the_source_reads_the_sample_once() -> None:
    student, source, cut = cut_one("bert")
    calls = []
    first = source.base_model.encoder.layer[0].intermediate.dense
    first.register_forward_hook(lambda *_: calls.append(1))
    fit_layers(student, source, cut, texts(1))
    assert len(calls) == 12 + 3  # batches, and a quarter of them for the differences


def test_training_mode_comes_back() -> None:
    student, source, cut = cut_one("bert")
    student.train()
    source.eval()
    fit_layers(student, source, cut, texts(1))
    assert student.training
    assert not source.training


@pytest.mark.parametrize("sizes", [{}, {"hidden_size": 18, "intermediate_size": 30}])
def test_a_saved_cut_fits_the_student_as_the_cut_itself(sizes: dict[str, int], tmp_path: Path) -> None:
    fitted = []
    for load in (False, True):
        student, source, cut = cut_one("bert", **sizes)
        if load:
            save_cut(cut, tmp_path)
            saved = saved_cut(str(tmp_path))
            assert saved is not None
            cut = saved
        fit_layers(student, source, cut, texts(1))
        fitted.append(student.state_dict())
    assert all(torch.equal(value, fitted[1][name]) for name, value in fitted[0].items())


def test_a_lower_precision_of_forward_passes_fits_as_well() -> None:
    differences = []
    for precision in (torch.float32, torch.bfloat16):
        student, source, cut = cut_one("bert", hidden_size=18, intermediate_size=30)
        fit_layers(student, source, cut, texts(1), precision=precision)
        assert all(value.dtype == torch.float32 for value in student.state_dict().values())
        differences.append(unseen_difference(student, source, cut))
    assert differences[0] != differences[1]
    assert differences[1] == pytest.approx(differences[0], rel=0.02)


def test_a_cut_fits_its_source_and_what_was_fine_tuned_from_it_alone(tmp_path: Path) -> None:
    assert saved_cut(str(tmp_path)) is None
    _, source, cut = cut_one("bert")
    assert cut.fits(source)
    fine_tuned = copy.deepcopy(source)
    with torch.no_grad():
        for parameter in fine_tuned.parameters():
            parameter.add_(0.1 * parameter.std(correction=0) * torch.randn(parameter.shape))
    assert cut.fits(fine_tuned)
    other = copy.deepcopy(source)
    with torch.no_grad():
        torch.nn.init.normal_(other.get_input_embeddings().weight)
    assert not cut.fits(other)
    for sizes in ({"num_hidden_layers": 5}, {"hidden_size": 18}, {"num_attention_heads": 4}):
        assert not cut.fits(make("bert", **{"num_hidden_layers": 6, **sizes}))
