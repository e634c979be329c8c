"""Recipes: frozen descriptions of runs. Unknown keys are refused; every error names its key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from understudy.augmentation.settings import AugmentSettings
from understudy.data.settings import CorpusSettings, DataSettings
from understudy.data.task import Task
from understudy.errors import RecipeError, did_you_mean
from understudy.kinds.tasks import get_task
from understudy.mining.settings import MineSettings
from understudy.models.settings import StudentSettings
from understudy.recipe.class_weights import ClassWeights, check_class_weights
from understudy.recipe.distillation import (
    GeneralSettings,
    IntermediateSettings,
    JointSettings,
    Method,
    Normalization,
    PatientSettings,
    PredictionSettings,
    SoftLabelSettings,
)
from understudy.recipe.soft_labels import check_soft_labels
from understudy.recipe.whole_run import ExportSettings, FinetuneSettings
from understudy.training.argument_names import argument_types, check_training

PrecisionName = Literal["auto", "bf16", "fp16", "fp32"]


class Recipe(BaseModel):
    """The settings of a run: what to train, on what data, and how.

    >>> recipe = Recipe.from_mapping({"task": "mrpc", "training": {"num_train_epochs": 4}})
    >>> recipe.max_length
    128
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str | None = None
    """A row of the task table, e.g. `mrpc`; for your own files the kind, e.g. `classification`; None for
    general text."""
    model: str | None = None
    """The model to start from: a folder or a hub name."""
    method: Method | None = None
    """How a student learns from its teacher; None for fine-tuning."""
    teacher: str | None = None
    """The fine-tuned model to learn from: a folder or a hub name."""
    student: StudentSettings = StudentSettings()
    data: DataSettings = DataSettings()
    metric: str | None = None
    """The metric that is reported first and selects the best checkpoint, ahead of the task's own: `f1`,
    `matthews`, or a scikit-learn scorer such as `f1_macro` or `balanced_accuracy`."""
    seed: Annotated[int, Field(ge=0)] = 42
    """The seed for all randomness; a stage's `training.seed` overrides it."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Every dropout probability while training. Defaults to the model's own."""
    held_out: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Fine-tuning: the share of training rows to hold out. The step with the lowest loss on them is kept, so
    that the teacher stops before it memorises its rows."""
    class_weights: ClassWeights | None = None
    """Weights of the classes in the loss against labels: `balanced`, or by label. Defaults to 1 each."""
    folds: Annotated[int, Field(ge=2)] | None = None
    """Fine-tuning: also train this many teachers, each without one part of the rows, for `unseen`."""
    unseen: bool = False
    """Distillation: predict each training row with the teacher's fold that has not learnt from it."""
    precision: PrecisionName = "auto"
    """`auto` is bf16 if the hardware supports it natively and fp32 otherwise; or `bf16`, `fp16`, `fp32`. A
    stage's own `bf16` or `fp16` overrides it."""
    attention: str | None = None
    """An `attn_implementation` of transformers. Defaults to eager on a CPU, where its backward pass is
    faster, and to transformers' choice elsewhere."""
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by name."""
    normalization: Normalization = "real"
    """Whether means are taken over real tokens only, or also over padding, as in the published code."""
    intermediate: IntermediateSettings | None = None
    prediction: PredictionSettings | None = None
    joint: JointSettings | None = None
    soft_labels: SoftLabelSettings | None = None
    patient: PatientSettings | None = None
    augment: AugmentSettings | None = None
    """How the training set is augmented; read by `understudy augment` and `understudy run`."""
    finetune: FinetuneSettings | None = None
    """How `understudy run` fine-tunes the teacher if none is given."""
    export: ExportSettings | None = None
    """How `understudy run` exports the student, and its teacher."""
    tolerate: Annotated[float, Field(ge=0.0)] = 2.0
    """Points of the first metric that a student may lose to be called ready by `understudy run`."""
    corpus: CorpusSettings | None = None
    general: GeneralSettings | None = None
    mine: MineSettings | None = None
    """How `understudy mine` searches a corpus for text like the task's."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, origin: str = "recipe") -> Recipe:
        """Validate a mapping, e.g. from a YAML file.

        Raises:
            RecipeError: with the key, what it may be and what it is.
        """
        try:
            recipe = cls.model_validate(values)
        except ValidationError as error:
            raise RecipeError("\n".join(f"{origin}: {line}" for line in _explain(error))) from None
        try:
            changed: dict[str, Any] = {"training": check_training(recipe.training)}
            if recipe.run is None:
                changed["training"] = _with_precision(changed["training"], recipe.precision)
            if recipe.task is not None:
                changed["task"] = recipe.task_definition.name
            elif recipe.run not in ("general", "corpus", "mine"):
                raise RecipeError("task must be given, e.g. task: mrpc.")
            for name in (*STAGES, "general", "finetune"):
                block = getattr(recipe, name)
                if block is not None:
                    block = _check_block(name, block)
                    training = _with_precision(block.training, recipe.precision)
                    changed[name] = block.model_copy(update={"training": training})
            recipe = _texts_alone(recipe.model_copy(update=changed))
            _refuse_without_effect(recipe)
        except RecipeError as error:
            raise RecipeError(f"{origin}: {error}") from None
        return recipe

    @property
    def run(self) -> str | None:
        """A distillation method, `general`, `corpus` or `mine`; None for fine-tuning."""
        blocks = [name for name in ("general", "corpus", "mine") if getattr(self, name) is not None]
        return self.method or next(iter(blocks), None)

    @property
    def task_definition(self) -> Task:
        assert self.task is not None  # ensured by from_mapping and the stages of general text
        task = get_task(self.task)
        return task if self.metric is None else task.with_metric(self.metric)

    @property
    def max_length(self) -> int:
        return self.data.max_length or self.task_definition.max_length

    @property
    def tokenizer_model(self) -> str:
        """The model whose tokenizer is used: the teacher, or otherwise the one the student starts from."""
        model = self.teacher or self.student.model or self.student.source
        if model is None:
            raise RecipeError(
                "without a teacher the tokenizer is the student's. Give the encoder to start from with "
                "--student, or the one to cut a smaller student from with --set student.source=…."
            )
        return model

    def to_yaml(self) -> str:
        """Dump only the given values as YAML; loading it gives the same recipe."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


_BLOCKS: Mapping[str, type[BaseModel]] = {
    "data": DataSettings,
    "student": StudentSettings,
    "intermediate": IntermediateSettings,
    "prediction": PredictionSettings,
    "joint": JointSettings,
    "soft_labels": SoftLabelSettings,
    "patient": PatientSettings,
    "augment": AugmentSettings,
    "corpus": CorpusSettings,
    "general": GeneralSettings,
    "mine": MineSettings,
    "finetune": FinetuneSettings,
    "export": ExportSettings,
}
STAGES = ("intermediate", "prediction", "joint", "soft_labels", "patient")
# The keys that each type of run reads, besides those of every recipe; None is fine-tuning.
_TASK_KEYS = ("task", "data", "metric", "augment", "precision")
_RUN_KEYS = ("finetune", "export", "tolerate")
_DISTILL_KEYS = (*_TASK_KEYS, "teacher", "student", "dropout", "attention", *_RUN_KEYS)
_KEYS: Mapping[str | None, tuple[str, ...]] = {
    None: (*_TASK_KEYS, "model", "training", "held_out", "folds", "class_weights", "dropout", "attention"),
    "tinybert": (*_DISTILL_KEYS, "normalization", "unseen", "intermediate", "prediction"),
    "joint": (*_DISTILL_KEYS, "normalization", "class_weights", "joint"),
    "soft-labels": (*_DISTILL_KEYS, "unseen", "class_weights", "soft_labels"),
    "patient": (*_DISTILL_KEYS, "class_weights", "soft_labels", "patient"),
    "general": ("teacher", "student", "normalization", "dropout", "attention", "precision", "general"),
    "corpus": ("corpus",),
    "mine": ("task", "data", "teacher", "augment", "precision", "mine"),
}

# TrainingArguments that a stage cannot use, with the reason.
_NOT_INTERMEDIATE = {
    "eval_strategy": "nothing is scored before the prediction stage",
    "load_best_model_at_end": "nothing is scored before the prediction stage",
    "gradient_checkpointing": "queries and keys are read in one pass; use smaller batches and accumulate",
    "gradient_checkpointing_kwargs": "queries and keys are read in one pass",
    "label_smoothing_factor": "there are no labels in this stage",
}
_NOT_GENERAL = {
    "load_best_model_at_end": "the last student is the one that has seen the most text",
    "gradient_checkpointing": _NOT_INTERMEDIATE["gradient_checkpointing"],
    "gradient_checkpointing_kwargs": _NOT_INTERMEDIATE["gradient_checkpointing"],
    "label_smoothing_factor": "there are no labels in this stage",
    "train_sampling_strategy": "the order of blocks is made of the seed and the epoch",
    "dataloader_drop_last": "every block is used, and every step has a whole batch",
    "per_device_eval_batch_size": "held-out blocks go 32 at a time",
}
_NOT_TRIALS = {"label_smoothing_factor": "the losses are the method's own"}
_NOT_JOINT = {
    **_NOT_TRIALS,
    "gradient_checkpointing": _NOT_INTERMEDIATE["gradient_checkpointing"],
    "gradient_checkpointing_kwargs": _NOT_INTERMEDIATE["gradient_checkpointing"],
}


def _with_precision(training: dict[str, Any], precision: PrecisionName) -> dict[str, Any]:
    """Apply the recipe's precision to a training block that has none; `auto` is left to the hardware."""
    if precision == "auto" or "bf16" in training or "fp16" in training:
        return training
    return {**training, "bf16": precision == "bf16", "fp16": precision == "fp16"}


def _given(block: BaseModel) -> set[str]:
    """Return the block's own keys that differ from their defaults."""
    return {
        name
        for name, field in type(block).model_fields.items()
        if name not in ("training", "search") and getattr(block, name) != field.default
    }


def _check_block(name: str, block: Any) -> Any:
    """Check a stage's block, including its TrainingArguments and the values of its search."""
    own = {
        "intermediate": _NOT_INTERMEDIATE,
        "joint": _NOT_JOINT,
        "general": _NOT_GENERAL,
        "finetune": {},
    }
    refused = own.get(name, _NOT_TRIALS)
    for key, reason in refused.items():
        if any([block.training.get(key), *getattr(block, "search", {}).get(key, ())]):
            raise RecipeError(f"{name}.training.{key} cannot be set: {reason}.")
    for key in ("save_strategy", "eval_strategy") if name == "general" else ():
        if block.training.get(key) == "epoch":
            raise RecipeError(
                f"{name}.training.{key} cannot be epoch: one epoch follows the other without an end. Use "
                f"steps, and {key.removesuffix('strategy')}steps."
            )
    best = "load_best_model_at_end"
    if getattr(block, "average", None) and any([block.training.get(best), *block.search.get(best, ())]):
        raise RecipeError(
            f"{name}.average has no effect with {name}.training.{best}, which goes back to one step. Take "
            f"that away with --set {name}.training.{best}=false."
        )
    twice = sorted(set(getattr(block, "search", ())) & {*block.training, *_given(block)})
    if twice:
        place = f"{name}.training" if twice[0] in block.training else name
        raise RecipeError(
            f"{place}.{twice[0]} has no effect beside {name}.search.{twice[0]}. Take the search away with "
            f"--set {name}.search.{twice[0]}=null."
        )
    try:
        changed: dict[str, Any] = {"training": check_training(block.training)}
    except RecipeError as error:
        raise RecipeError(f"{name}.{error}") from None
    if getattr(block, "search", None):
        changed["search"] = {
            key: [_check_choice(name, block, key, value) for value in values]
            for key, values in block.search.items()
        }
    return block.model_copy(update=changed)


def _check_joint(block: JointSettings) -> None:
    """Refuse a joint block without anything to learn, and layer keys if the layers have no weight."""
    for one in block.choices():
        if not (one.layers or one.predictions or one.labels):
            raise RecipeError("joint leaves nothing to learn: layers, predictions and labels are all 0.")
    if block.layers == 0 and "layers" not in block.search:
        keys = {"layer_map", "projection", "relation_heads", "weights", "until", "rows"}
        idle = sorted(keys & _given(block))
        if idle:
            raise RecipeError(f"joint.{idle[0]} has no effect beside joint.layers=0.")


def _check_choice(name: str, block: Any, key: str, value: Any) -> Any:
    """Convert a value of a search to its proper type."""
    if key in type(block).model_fields:
        if key not in type(block).searchable:
            raise RecipeError(
                f"{name}.search.{key} cannot be searched; of this block's keys "
                f"{', '.join(type(block).searchable)} can. Run the command once for each {key}."
            )
        try:
            return getattr(block.choose({key: value}), key)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise RecipeError(f"{name}.search.{key}: {reason}; got {value!r}.") from None
    try:
        return check_training({key: value})[key]
    except RecipeError as error:
        raise RecipeError(str(error).replace("training.", f"{name}.search.", 1)) from None


def _texts_alone(recipe: Recipe) -> Recipe:
    """Return the recipe with its training rows as unlabelled ones, for a kind that learns without labels.

    Refuses settings that would need labels.
    """
    if recipe.task is None or recipe.task_definition.rows.learns_from_labels:
        return recipe
    kind, data = recipe.task_definition.rows, recipe.data
    if recipe.method not in (None, "tinybert", "joint"):  # None also scores a finished model
        raise RecipeError(
            f"method: {recipe.method} needs labels, and {kind} has none. Use --method tinybert or joint."
        )
    if data.source is not None:
        raise RecipeError(f"data.source has no effect on {kind}: give texts, --train texts.csv.")
    if data.dev_share is not None:
        raise RecipeError(
            f"--split (data.dev_share) has no effect on {kind}: without --dev, texts are held out anyway."
        )
    if recipe.joint is not None and any([recipe.joint.labels, *recipe.joint.search.get("labels", ())]):
        raise RecipeError(f"joint.labels must be 0: {kind} has no labels to learn from.")
    if data.train is None:
        return recipe
    texts = {"train": None, "unlabelled": [data.train, *(data.unlabelled or ())]}
    return recipe.model_copy(update={"data": data.model_copy(update=texts)})


def _check_vocabulary(recipe: Recipe) -> None:
    """Refuse settings that cannot be combined with a smaller vocabulary."""
    if recipe.student.vocabulary is None:
        return
    others = {
        "student.source": recipe.student.source,
        "unseen": recipe.unseen or None,
        "soft_labels.predictions": recipe.soft_labels.predictions if recipe.soft_labels is not None else None,
        "general": recipe.general,
    }
    given = next((name for name, value in others.items() if value is not None), None)
    if given is not None:
        raise RecipeError(
            f"student.vocabulary and {given} exclude each other: only the teacher and a saved student are "
            "read with a smaller vocabulary. Leave one out."
        )


def _refuse_without_effect(recipe: Recipe) -> None:
    """Refuse keys that the method never reads: they are mistakes, not preferences to ignore."""
    if recipe.task is not None and not recipe.task_definition.rows.has_classes:
        for name in ("prediction", "joint", "soft_labels"):
            block = getattr(recipe, name) or PredictionSettings()
            idle = sorted({"temperature", "squared"} & {*_given(block), *block.search})
            if idle:
                raise RecipeError(f"{name}.{idle[0]} has no effect on numbers: there are no classes.")
    if recipe.joint is not None:
        _check_joint(recipe.joint)
    _check_vocabulary(recipe)
    for layers in (recipe.intermediate, recipe.joint):
        if layers is not None and layers.rows == "unlabelled" and recipe.data.unlabelled is None:
            raise RecipeError(f"{layers.block}.rows=unlabelled has no effect without data.unlabelled.")
    if recipe.general is not None and recipe.general.rows != "all":
        raise RecipeError("general.rows has no effect: general text has no labels.")
    if recipe.data.unlabelled is not None and recipe.run == "mine":
        raise RecipeError("data.unlabelled has no effect on mine, which finds such rows.")
    if recipe.data.unlabelled is not None and recipe.method is None:
        raise RecipeError("data.unlabelled has no effect without a method: fine-tuning needs labels.")
    check_soft_labels(recipe)
    if recipe.finetune is not None and recipe.teacher is not None:
        raise RecipeError(
            "teacher and finetune exclude each other: a teacher is fine-tuned already. Leave one "
            "out, e.g. --set finetune=null."
        )
    known = {key for keys in _KEYS.values() for key in keys}
    unread = sorted(known - set(_KEYS[recipe.run]))
    given = [name for name in unread if getattr(recipe, name) != Recipe.model_fields[name].default]
    if given == ["finetune"] and recipe.run is None:
        raise RecipeError(
            "finetune has no effect here: it is a block of a whole run. Use training.… instead."
        )
    if given and recipe.run is None:
        raise RecipeError(f"{given[0]} has no effect without a method; give method: tinybert.")
    run = f"method: {recipe.method}" if recipe.method else f"a block {recipe.run}:"
    if given and given[-1] == "training":
        blocks = [f"{name}.training" for name in _KEYS[recipe.run] if name in (*STAGES, "general")]
        own = f"; a stage has its own: {', '.join(blocks)}" if blocks else ""
        raise RecipeError(f"training has no effect with {run}{own}.")
    if "model" in given and recipe.method:
        message = f"model has no effect with {run}, which starts from a teacher."
        if recipe.task is not None and recipe.task_definition.rows.learns_from_labels:
            message += (
                " understudy run fine-tunes one first; to only fine-tune, use a recipe such as "
                f"finetune-{recipe.task}."
            )
        raise RecipeError(message)
    if given:
        raise RecipeError(
            f"{given[0]} has no effect with {run}; its keys are {', '.join(_KEYS[recipe.run])}."
        )
    check_class_weights(recipe)


def _explain(error: ValidationError) -> list[str]:
    lines: list[str] = []
    for detail in error.errors():
        # For a union type pydantic reports each member, with its type after the key.
        key = ".".join(str(part) for part in detail["loc"] if not _UNION_PART.match(str(part)))
        got = detail["input"]
        if detail["type"] == "extra_forbidden":
            block = _BLOCKS.get(key.split(".")[0], Recipe) if "." in key else Recipe
            fields = block.model_fields
            place, _, name = key.rpartition(".")
            hint = did_you_mean(name, fields)
            if place and "training" in fields and name in argument_types():
                hint = f" Did you mean {place}.training.{name}?"
            elif not place and name in argument_types():
                hint = (
                    f" Did you mean that of a stage, e.g. prediction.training.{name}, or training.{name} to "
                    "fine-tune?"
                )
            allowed = "" if hint else f" Allowed: {', '.join(fields)}."
            lines.append(f"{key} is not a key.{hint}{allowed}")
        elif detail["type"] == "missing":
            lines.append(f"{key} must be given, e.g. {key}: mrpc.")
        else:
            lines.append(f"{key}: {detail['msg']}; got {got!r}.")
    return list({line.split(":")[0]: line for line in reversed(lines)}.values())[::-1]


_UNION_PART = re.compile(r"(str|int|literal\[.*|list\[.*|dict\[.*)$")
