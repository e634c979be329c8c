"""Weights of classes: scikit-learn's, by hand, the same for batches of any shape, and refused elsewhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sklearn.utils.class_weight import compute_class_weight
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, TrainingArguments

from understudy.capture.representations import Representations
from understudy.data.encode import Collator
from understudy.errors import RecipeError
from understudy.kinds import get_kind
from understudy.recipe.recipe import Recipe
from understudy.training.class_weights import class_weights, weighted_loss
from understudy.training.objectives import JointObjectives, PatientObjectives
from understudy.training.trainer import OrderedTrainer

LABELS = np.array([0, 0, 0, 0, 0, 2, 2, 1])


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    theirs = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    ours = class_weights("balanced", LABELS, ["a", "b", "c"])
    assert ours == pytest.approx(theirs)
    assert ours == pytest.approx((8 / 15, 8 / 3, 8 / 6))
    assert np.mean(np.array(ours)[LABELS]) == pytest.approx(1.0)


def test_a_class_without_rows_does_not_count() -> None:
    assert class_weights("balanced", np.array([0, 0, 0, 1]), ["a", "b", "c"]) == (4 / 6, 2.0, 1.0)


def test_given_weights_are_scaled_to_a_mean_of_1() -> None:
    ours = class_weights({"B": 4, "c": 2}, LABELS, ["a", "b", "c"])
    assert ours == pytest.approx(np.array([1, 4, 2]) * 8 / (5 + 4 + 4))
    assert class_weights({"a": 10, "b": 10, "c": 10}, LABELS, ["a", "b", "c"]) == pytest.approx((1, 1, 1))
    with pytest.raises(RecipeError, match=r"no label is 'positiv'.*Did you mean 'positive'\?"):
        class_weights({"positiv": 2}, np.array([0, 1]), ["negative", "positive"])


def test_the_weighted_loss_by_hand() -> None:
    """Even logits: every row's cross entropy is ln 2. Weights 2/3, 2/3, 2/3, 2 of four rows."""
    logits, labels = torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])
    loss = weighted_loss(class_weights("balanced", labels.numpy(), ["a", "b"]))
    assert loss({"logits": logits}, labels).item() == pytest.approx(math.log(2))
    # Only the row of the rare class: half of the weight of all rows.
    part = loss({"logits": logits[3:]}, labels[3:], num_items_in_batch=torch.tensor(4))
    assert part.item() == pytest.approx(math.log(2) / 2)
    rest = loss({"logits": logits[:3]}, labels[:3], num_items_in_batch=4)
    assert (part + rest).item() == pytest.approx(math.log(2))


def test_over_all_rows_it_is_the_mean_of_torch() -> None:
    logits, labels = torch.randn(8, 3), torch.from_numpy(LABELS)
    weights = class_weights("balanced", LABELS, ["a", "b", "c"])
    theirs = torch.nn.functional.cross_entropy(logits, labels, weight=torch.tensor(weights))
    assert weighted_loss(weights)({"logits": logits}, labels).item() == pytest.approx(theirs.item())


@pytest.mark.parametrize(("size", "weighted"), [(1, True), (2, True), (3, True), (1, False), (2, False)])
def test_accumulated_batches_are_one_batch_and_of_any_shape_with_weights(
    size: int, weighted: bool, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    rows = Dataset.from_dict(
        {"input_ids": [[2, 5 + n, 3] for n in range(4)], "labels": [0, 0, 0, 1], "row": range(4)}
    )
    loss = weighted_loss(class_weights("balanced", np.array([0, 0, 0, 1]), ["a", "b"])) if weighted else None
    weights, losses = [], []
    for batch, accumulation in ((4, 1), (size, -(-4 // size))):
        torch.manual_seed(0)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            )
        )  # fmt: skip
        arguments = TrainingArguments(
            str(tmp_path / f"{batch}-{accumulation}"), per_device_train_batch_size=batch, max_steps=3,
            gradient_accumulation_steps=accumulation, learning_rate=0.1, optim="sgd", report_to="none",
            use_cpu=True, disable_tqdm=True, save_strategy="no", remove_unused_columns=False,
            dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = OrderedTrainer(
            model,
            arguments,
            data_collator=Collator(tokenizer),
            train_dataset=rows,
            compute_loss_func=loss,
        )
        losses.append(trainer.train().training_loss)
        weights.append(model.state_dict())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-6), name


def side(logits: list[list[float]]) -> Representations:
    return Representations(None, (), (), {"logits": torch.tensor(logits)})


BATCH: dict[str, Any] = {
    "input_ids": torch.ones(3, 1, dtype=torch.long),
    "attention_mask": torch.ones(3, 1),
    "labels": torch.tensor([0, 1, 0]),
    "labelled": torch.tensor([1, 1, 0]),
}


@pytest.mark.parametrize("name", ["joint", "patient"])
def test_the_loss_against_labels_of_a_distillation_by_hand(name: str) -> None:
    """ln 2 times the weight of the class; the last row has no label. Predictions are not weighed."""
    kind, even = get_kind("classification"), side([[0.0, 0.0]] * 3)
    objectives = (
        JointObjectives(kind, layers=0.0, class_weights=(0.5, 3.0))
        if name == "joint"
        else PatientObjectives(kind, temperature=1.0, class_weights=(0.5, 3.0))
    )
    terms = objectives.losses(even, even, BATCH)
    assert terms["labels"].tolist() == pytest.approx([0.5 * math.log(2), 3 * math.log(2), 0.0])
    other = terms["predictions" if name == "joint" else "soft_labels"]
    assert other.tolist() == pytest.approx([math.log(2)] * 3)


@pytest.mark.parametrize("kind", ["question-answering", "regression"])
def test_kinds_without_classes_have_their_own_labels(kind: str) -> None:
    """A batch of questions has no `labels`: a loss without weights does not look for them."""
    batch = {name: value for name, value in BATCH.items() if name != "labels"}
    if kind == "regression":
        student, batch = side([[1.0]] * 3), BATCH
    else:
        student = Representations(
            None, (), (), dict.fromkeys(("start_logits", "end_logits"), torch.zeros(3, 1))
        )
        batch |= dict.fromkeys(("start_positions", "end_positions"), torch.zeros(3, dtype=torch.long))
    terms = PatientObjectives(get_kind(kind), temperature=1.0).losses(student, student, batch)
    assert terms["labels"].shape == (3,)


def recipe(**values: Any) -> Recipe:
    return Recipe.from_mapping({"task": "classification", "class_weights": "balanced", **values})


def test_where_class_weights_have_no_effect_they_are_refused() -> None:
    assert recipe().class_weights == "balanced"
    assert recipe(class_weights={"a": 2, 1: 3}).class_weights == {"a": 2.0, "1": 3.0}
    for task in ("regression", "token-classification", "question-answering", "multiple-choice"):
        with pytest.raises(RecipeError, match=f"class_weights has no effect on {task}"):
            recipe(task=task)
    with pytest.raises(RecipeError, match="class_weights has no effect with method: tinybert"):
        recipe(method="tinybert", prediction={})
    with pytest.raises(RecipeError, match=r"no effect: the loss against labels has no weight"):
        recipe(method="soft-labels", soft_labels={"alpha": 1.0})
    with pytest.raises(RecipeError, match=r"no effect: the loss against labels has no weight"):
        recipe(method="patient", patient={}, soft_labels={"search": {"alpha": [1.0]}})
    with pytest.raises(RecipeError, match=r"no effect: the loss against labels has no weight"):
        recipe(method="joint", joint={"labels": 0})
    assert recipe(method="soft-labels", soft_labels={"search": {"alpha": [0.5, 1.0]}}).class_weights
    assert recipe(method="patient", patient={}).class_weights
    with pytest.raises(RecipeError, match=r"training\.label_smoothing_factor has no effect beside class_"):
        recipe(training={"label_smoothing_factor": 0.1})
    with pytest.raises(RecipeError, match=r"finetune\.class_weights has no effect on regression"):
        Recipe.from_mapping(
            {
                "task": "regression",
                "method": "tinybert",
                "prediction": {},
                "finetune": {"class_weights": "balanced"},
            }
        )


@pytest.mark.parametrize("given", ["equal", {"a": 0}, {"a": -1.0}, [1, 2]])
def test_weights_that_are_none(given: Any) -> None:
    with pytest.raises(RecipeError, match="class_weights"):
        recipe(class_weights=given)
