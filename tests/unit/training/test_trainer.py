"""DistillationTrainer on tiny models: what it logs, what it stops at, what its optimiser holds."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

from understudy.data.encode import Collator, encode
from understudy.distillation.layers import match
from understudy.errors import RecipeError, TrainingError
from understudy.kinds import get_kind
from understudy.recipe.distillation import IntermediateSettings
from understudy.training.arguments import DEFAULTS, build_arguments
from understudy.training.interrupt import Stopped, ask_to_stop, checkpoint_on_interrupt
from understudy.training.model import DistillationModel, match_models, read_model
from understudy.training.objectives import FunctionObjectives, TinyBertObjectives
from understudy.training.order import LengthGroupedSampler
from understudy.training.trainer import DistillationTrainer, LogOften


def model(layers: int, size: int, heads: int, vocabulary: int) -> BertForSequenceClassification:
    torch.manual_seed(layers)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * size,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,
    )
    return BertForSequenceClassification(config)


@pytest.fixture
def rows(tokenizer: Any) -> Dataset:
    texts = ["good film", "bad film", "the cat runs", "it was a very slow movie", "anna", "red dog sleeps"]
    data = {"row": list(range(10, 16)), "text": texts, "label": [0, 1] * 3}
    return encode(Dataset.from_dict(data), get_kind("classification"), tokenizer, max_length=32)


def build(
    rows: Dataset, tokenizer: Any, folder: Path, settings: IntermediateSettings, **block: Any
) -> tuple[DistillationTrainer, Any]:
    student, teacher = model(2, 16, 2, len(tokenizer)), model(4, 24, 2, len(tokenizer))
    arguments = build_arguments(
        {
            "use_cpu": True,
            "report_to": "none",
            "disable_tqdm": True,
            "eval_strategy": "no",
            "save_strategy": "no",
            "per_device_train_batch_size": 3,
            "learning_rate": 1e-2,
            "max_steps": 30,
            "logging_steps": 10,
            **block,
        },
        folder,
    )
    trainer = DistillationTrainer(
        student,
        teacher,
        TinyBertObjectives(projection=settings.projection, weights=settings.weights),
        arguments,
        train_dataset=rows,
        eval_dataset=rows if block.get("eval_strategy") == "epoch" else None,
        processing_class=tokenizer,
    )
    return trainer, teacher


def test_every_term_falls_and_is_logged_by_name_and_layer(
    rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    trainer, teacher = build(rows, tokenizer, tmp_path, IntermediateSettings())
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    trainer.train()
    logs = [log for log in trainer.state.log_history if "loss" in log]
    names = ["loss_embeddings", "loss_attention_1", "loss_attention_2", "loss_hidden_1", "loss_hidden_2"]
    assert [name for name in logs[0] if name.startswith("loss_")] == names
    assert all(logs[-1][name] < logs[0][name] for name in names)
    assert logs[0]["loss"] == pytest.approx(sum(logs[0][name] for name in names), rel=1e-4)
    assert not teacher.training
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


@pytest.mark.parametrize("steps", [20, 51])
def test_a_curve_has_twenty_points_and_logging_changes_no_weight(
    steps: int, rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    weights = []
    for logging_steps in (DEFAULTS["logging_steps"], 10):
        trainer, _ = build(
            rows, tokenizer, tmp_path, IntermediateSettings(), max_steps=steps, logging_steps=logging_steps
        )
        trainer.train()
        logged = [log["step"] for log in trainer.state.log_history if "loss" in log]
        assert (len(logged) >= 20) == (logging_steps != 10)
        assert logged[-1] == steps
        weights.append(trainer.student.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


@pytest.mark.parametrize(("given", "expected"), [(None, 50), (0.1, 1000), (200, 200)])
def test_long_runs_log_every_fifty_steps_if_nothing_else_is_asked_for(
    given: float | None, expected: int, tmp_path: Path
) -> None:
    block = {"report_to": "none"} | ({} if given is None else {"logging_steps": given})
    arguments, state = build_arguments(block, tmp_path), TrainerState()
    state.compute_steps(arguments, 10_000)
    LogOften().on_train_begin(arguments, state, TrainerControl())
    assert state.logging_steps == expected


def test_projections_are_in_the_optimiser_and_in_the_checkpoint(
    rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    trainer, _ = build(
        rows,
        tokenizer,
        tmp_path,
        IntermediateSettings(projection="per-layer"),
        save_strategy="steps",
        save_steps=30,
    )
    projections = trainer.model.projections
    before = [linear.weight.clone() for linear in projections.linears]
    trainer.train()
    assert len(before) == 3
    for old, linear in zip(before, projections.linears, strict=True):
        assert not torch.equal(old, linear.weight)
    from safetensors.torch import load_file

    saved = load_file(tmp_path / "checkpoint-30" / "model.safetensors")
    assert torch.equal(saved["projections.linears.2.weight"], projections.linears[2].weight)
    assert not any("projection" in name for name in trainer.model.student.state_dict())


def test_a_loss_that_becomes_nan_stops_and_names_its_rows(
    rows: Dataset, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, _ = build(rows, tokenizer, tmp_path, IntermediateSettings())
    original = TinyBertObjectives.compare

    def spoilt(self: TinyBertObjectives, student: Any, teacher: Any, batch: Any) -> dict[str, Tensor]:
        terms = original(self, student, teacher, batch)
        longest = batch["attention_mask"].sum(dim=1) >= 8  # row 13 alone
        return terms | {"hidden_2": torch.where(longest, torch.nan, terms["hidden_2"])}

    monkeypatch.setattr(TinyBertObjectives, "compare", spoilt)
    with pytest.raises(TrainingError, match=r"on 1 of 3 rows \(.*: 13\); terms: hidden_2\."):
        trainer.train()


@pytest.mark.parametrize(("count", "size"), [(6, 3), (5, 3), (6, 4), (5, 2)])
def test_accumulated_batches_are_one_batch(
    count: int, size: int, rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    """Also of unequal sizes: 3 + 2 rows weigh as 5."""
    weights, losses = [], []
    rows = rows.select(range(count))
    for batch, accumulation in ((count, 1), (size, -(-count // size))):
        trainer, _ = build(
            rows,
            tokenizer,
            tmp_path / str(batch),
            IntermediateSettings(),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            max_steps=5,
            optim="sgd",
            learning_rate=1e-3,
        )
        trainer.train()
        weights.append(trainer.model.state_dict())
        losses.append([log for log in trainer.state.log_history if "loss" in log][-1])
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-6), name
    for name in ("loss", "loss_attention_1", "loss_hidden_2"):
        assert losses[0][name] == pytest.approx(losses[1][name], rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": {"atention": 1.0}}, r"intermediate\.weights\.atention is not a term"),
        ({"weights": {"hidden_3": 1.0}}, r"intermediate\.weights\.hidden_3 is not a term.*1 to 2"),
        (
            {"weights": {"embeddings": 0, "attention": 0, "hidden": 0}},
            r"intermediate\.weights leaves nothing",
        ),
        (
            {"weights": {"embeddings": 0, "attention": 0, "hidden_1": 0, "hidden_2": 0}},
            "leaves nothing to learn",
        ),
        ({"weights": {"attention": 0}, "relation_heads": 4}, r"relation_heads has no effect"),
        ({"relation_heads": 3}, "num_heads must divide the student's width of 16, got 3"),
        ({"projection": "none"}, "width of 16 is not its teacher's 24"),
        ({"layer_map": [2, 5]}, "layer_map must name layers from 1 to 4"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_first_step(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        match(model(2, 16, 2, 50), model(4, 24, 2, 50), IntermediateSettings(**settings))


def test_unequal_heads_need_relation_heads() -> None:
    student, teacher = model(2, 16, 4, 50), model(4, 24, 2, 50)
    with pytest.raises(RecipeError, match=r"intermediate\.relation_heads: .*4 and 2 heads.*a divisor of 8"):
        match(student, teacher, IntermediateSettings())
    projected, layers = match(student, teacher, IntermediateSettings(relation_heads=8))
    assert isinstance(projected, DistillationModel)
    assert layers == (2, 4)
    match(student, teacher, IntermediateSettings(weights={"attention": 0}))
    one = {"embeddings": 0, "attention": 0, "hidden": 0, "hidden_2": 1}
    match(student, teacher, IntermediateSettings(weights=one))


def test_a_run_shorter_than_a_log_is_logged(rows: Dataset, tokenizer: Any, tmp_path: Path) -> None:
    trainer, _ = build(rows, tokenizer, tmp_path, IntermediateSettings(), max_steps=3)
    trainer.train()
    assert [log["step"] for log in trainer.state.log_history if "loss_hidden_1" in log] == [3]


def test_the_engine_is_new_enough_for_how_losses_are_scaled() -> None:
    """Older ones divide by the accumulated batches once more: `loss_is_scaled_for_ga` is of 5.19."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    (found,) = {one for one in [*project["dependencies"], *extras] if one.startswith("transformers")}
    assert found.removeprefix("transformers>=") == "5.19"
    assert hasattr(Trainer, "loss_is_scaled_for_ga")


def test_losses_are_computed_in_float32_under_autocast(rows: Dataset, tokenizer: Any, tmp_path: Path) -> None:
    student = model(2, 16, 2, len(tokenizer))
    seen = []

    def compare(own: Any, told: Any, batch: Any) -> Tensor:
        seen.append(
            (torch.is_autocast_enabled("cpu"), own.logits["logits"].dtype, told.logits["logits"].dtype)
        )
        return own.logits["logits"].sum(dim=-1)

    objectives = FunctionObjectives(compare, layer_map="uniform")
    matched, _ = match_models(student, copy.deepcopy(student), objectives)
    batch = Collator(tokenizer)([rows[0], rows[1]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shown = read_model(student, batch, (1, 2), objectives)
        matched(batch, shown)
    assert seen == [(False, torch.float32, torch.float32)]


def test_an_interruption_inside_of_an_epoch_scores_nothing(
    rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    trainer, _ = build(
        rows,
        tokenizer,
        tmp_path,
        IntermediateSettings(),
        eval_strategy="epoch",
        save_strategy="epoch",
        max_steps=6,
    )
    scored: list[int] = []
    evaluate = trainer.evaluate
    trainer.evaluate = lambda *a, **o: scored.append(trainer.state.global_step) or evaluate(*a, **o)  # type: ignore[func-returns-value,method-assign]
    at: int = 3  # of two steps an epoch

    class Interrupt(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == at - 1:
                ask_to_stop()

    trainer.add_callback(Interrupt())
    with pytest.raises(Stopped), checkpoint_on_interrupt(trainer):
        trainer.train()
    assert scored == [2]
    assert (tmp_path / "checkpoint-3").is_dir()


def test_the_order_of_an_epoch_is_set_where_accelerate_does_not_find_it(
    rows: Dataset, tokenizer: Any, tmp_path: Path
) -> None:
    """The loader of a resumed distributed run hides its sampler."""
    trainer, _ = build(
        rows,
        tokenizer,
        tmp_path,
        IntermediateSettings(),
        max_steps=6,
        train_sampling_strategy="group_by_length",
    )
    epochs = []
    sampler = LengthGroupedSampler.__iter__

    def note(self: Any) -> Any:
        epochs.append(self.epoch)
        return sampler(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LengthGroupedSampler, "__iter__", note)
        patch.setattr("accelerate.data_loader.DataLoaderShard.set_epoch", lambda *_: None)
        trainer.train()
    assert epochs == [0, 1, 2]
