"""Preflight checks of the rows: are they fit for training and scoring?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.augmentation.words import load_stop_words
from understudy.data.sources import dev_splits
from understudy.distillation.rows import weights_of_classes
from understudy.errors import RecipeError
from understudy.models.families import num_positions
from understudy.models.pretrained import (
    load_config,
)
from understudy.pipeline.preflight.models import check_length
from understudy.pipeline.preflight.planned_run import Finding, PlannedRun

FEW_TRAINING_ROWS, FEW_DEV_ROWS = 500, 100
_SAMPLE = 1_000  # rows sampled to measure lengths
_CUT_SHARE, _LEAK_SHARE = 0.1, 0.01
_FEW_OF_A_LABEL = 5
_UNEQUAL = 5  # times as many rows of the largest class as of the smallest


def check_truncation(planned: PlannedRun) -> Iterator[Finding]:
    """Check how many rows are truncated: only their beginning is learnt and scored."""
    if planned.task.kind.has_windows or any(check_length(planned)):
        return  # long contexts are split into windows
    rows, limit = planned.train_rows, planned.recipe.max_length
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_SAMPLE])
    lengths = [planned.task.kind.count_tokens(planned.tokenizer, rows[int(place)]) for place in chosen]
    cut = float(np.mean(np.array(lengths) > limit))
    if cut > _CUT_SHARE:
        longest = num_positions(planned.teacher_config) or planned.tokenizer.model_max_length
        fits = min(int(np.quantile(lengths, 0.99)), longest)
        share = float(np.mean(np.array(lengths) <= fits))
        yield Finding(
            "truncation",
            "warning",
            f"{cut:.0%} of the training rows are longer than data.max_length of {limit} tokens and are cut. "
            f"{share:.0%} would fit into {fits}: --set data.max_length={fits}.",
        )


def check_labelled_rows(planned: PlannedRun) -> Iterator[Finding]:
    """Check that there are labelled training rows if something needs them."""
    if "train" in planned.data.splits:
        return
    if not planned.fine_tuned:
        yield Finding(
            "labelled_rows",
            "error",
            "an encoder is fine-tuned on labelled rows, and there are none: give data.train, or a teacher "
            "that is fine-tuned already.",
        )
    if planned.recipe.augment is not None:
        yield Finding(
            "labelled_rows",
            "error",
            "augment needs labelled training rows: give data.train, or leave it out with --set augment=null.",
        )


def check_rows(planned: PlannedRun) -> Iterator[Finding]:
    """Check that there are enough rows: few rows teach little and give wide intervals."""
    dev = dev_splits(planned.task, planned.recipe.data)[0]
    num_train, num_dev = planned.num_train, len(planned.data.splits[dev])
    if (
        num_train < FEW_TRAINING_ROWS
        and planned.recipe.augment is None
        and planned.recipe.data.augmented is None
    ):
        advice = (
            "Let the teacher label more texts (export it, then predict --with-texts), or augment them: --set "
            "augment.model=ENCODER."
            if planned.task.rows.learns_from_labels
            else "Give more texts: --train and --unlabelled take any that are like yours."
        )
        yield Finding(
            "few_rows",
            "warning",
            f"{num_train} training rows are few for a student to learn from. {advice}",
        )
    if num_dev < FEW_DEV_ROWS:
        points = 196 * np.sqrt(0.09 / num_dev)
        is_share = planned.task.kind.has_classes and not planned.task.kind.is_per_token
        wide = f": the 95 % interval of 90 % right is ±{points:.0f} points" if is_share else ""
        yield Finding(
            "few_dev_rows",
            "warning",
            f"{num_dev} development rows cannot tell two models apart{wide}. Give more of them.",
        )


def check_leak(planned: PlannedRun) -> Iterator[Finding]:
    """Check for development rows that are also training rows, whose scores reward memorisation."""
    dev = dev_splits(planned.task, planned.recipe.data)[0]
    train, held_out = (
        {_text(row) for row in rows} if len(rows) <= 1_000_000 else set()
        for rows in (planned.train_rows, planned.data.splits[dev])
    )
    shared = len(train & held_out) / max(1, len(held_out))
    if shared > _LEAK_SHARE:
        yield Finding(
            "leak",
            "warning",
            f"{shared:.0%} of the development rows are training rows too: scores will be too good. Take them "
            "out of one of the two.",
        )


def check_unseen_labels(planned: PlannedRun) -> Iterator[Finding]:
    """Check for labels with few or no training rows, which cannot be learnt."""
    field = planned.task.kind.label_field
    if planned.task.kind.is_per_token or planned.data.labels is None or "train" not in planned.data.splits:
        return
    dev = dev_splits(planned.task, planned.recipe.data)[0]
    counts = Counter(_each_label(planned.data.splits["train"][field][:]))
    seen, asked = set(counts), set(_each_label(planned.data.splits[dev][field][:]))
    rare = [
        f"{planned.data.labels[label]} ({count})"
        for label, count in sorted(counts.items())
        if count < _FEW_OF_A_LABEL
    ]
    if rare:
        yield Finding(
            "rare_labels",
            "warning",
            f"these labels have hardly any training rows: {_some(rare)}. Is one of them a typing error?",
        )
    missing = [planned.data.labels[label] for label in sorted(asked - seen)]
    if missing:
        yield Finding(
            "unseen_labels",
            "warning",
            f"no training row has the label {_some(missing)}, and development rows do. Are the two files "
            "of one set, or was the file sorted before it was split?",
        )


def check_class_weights(planned: PlannedRun) -> Iterator[Finding]:
    """Check that every label with a weight exists."""
    recipe = planned.recipe
    settings = [recipe.class_weights, recipe.finetune.class_weights if recipe.finetune is not None else None]
    for setting in settings:
        try:
            weights_of_classes(setting, planned.task, planned.data)
        except RecipeError as error:
            yield Finding("class_weights", "error", str(error))


def check_balance(planned: PlannedRun) -> Iterator[Finding]:
    """Note if some classes are far more frequent than others, and that they can be weighted."""
    kind, labels, recipe = planned.task.kind, planned.data.labels, planned.recipe
    if not (kind.has_named_labels and kind.has_plain_labels) or "train" not in planned.data.splits:
        return
    settings = recipe.finetune if recipe.finetune is not None else recipe
    if recipe.class_weights is not None or settings.class_weights is not None:
        return
    counts = Counter(planned.data.splits["train"][kind.label_field][:]).most_common()
    (most, many), (least, few) = counts[0], counts[-1]
    # A label that occurs once is a mistake, or too rare to weigh as much as the others.
    if labels is None or many < _UNEQUAL * few or few == 1:
        return
    if not planned.fine_tuned:
        advice = "--set finetune.class_weights=balanced weights them equally while the teacher is fine-tuned"
    elif recipe.method == "tinybert":
        advice = "class_weights: balanced weights them equally when a teacher is fine-tuned"
    else:
        advice = "--set class_weights=balanced weights them equally in the loss against labels"
    total = sum(count for _, count in counts)
    yield Finding(
        "balance",
        "note",
        f"{many / total:.0%} of the training rows are {labels[most]!r}, and the smallest class "
        f"{labels[least]!r} has {few:,} of {total:,} rows. {advice}; --set metric=macro_f1 scores every "
        "class alike.",
    )


def check_augment(planned: PlannedRun) -> Iterator[Finding]:
    """Check that augmentation has a masked language model and its files."""
    settings = planned.recipe.augment
    if settings is None:
        return
    if planned.recipe.data.augmented is not None:
        yield Finding(
            "augment",
            "error",
            "augment and data.augmented exclude each other: rows are augmented once. Leave one out.",
        )
    if settings.model is None:
        yield Finding(
            "augment",
            "error",
            "augment.model must be given: the pretrained model with its masked language model's head, e.g. "
            "--set augment.model=bert-base-uncased.",
        )
        return
    for name in ("vectors", "vector_words"):
        file = getattr(settings, name)
        if file is not None and not Path(file).is_file():
            yield Finding("augment", "error", f"augment.{name} is not there: {file}. Check the path.")
    try:
        load_stop_words(settings.stop_words)
    except RecipeError as error:
        yield Finding("augment", "error", str(error))
    config = load_config(settings.model)
    if not any("MaskedLM" in name or "PreTraining" in name for name in config.architectures or ()):
        yield Finding(
            "augment",
            "error",
            f"augment.model {settings.model} has no masked language model's head (it is "
            f"{', '.join(config.architectures or ('none',))}). Give the pretrained model and not a "
            "fine-tuned one.",
        )


def _some(names: Sequence[str]) -> str:
    """List names, and count those past the tenth."""
    rest = f" and {len(names) - 10:,} others" if len(names) > 10 else ""
    return ", ".join(names[:10]) + rest


def _each_label(column: Iterable[Any]) -> Iterator[int]:
    """Yield the labels of all rows; each row has one label or a list of them."""
    for value in column:
        yield from value if isinstance(value, list) else [value]


def _text(row: dict[str, Any]) -> str:
    return repr([row[name] for name in sorted(row) if name not in ("row", "label", "tags", "id", "answers")])
