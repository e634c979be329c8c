"""Training objectives: functions of both models' representations, with what must be captured for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import torch
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.data.encode import LABELLED
from understudy.errors import RecipeError
from understudy.models.layer_map import MapName
from understudy.models.settings import ProjectionKind
from understudy.objectives.compose import layer_losses, weight_of, weighted_sum
from understudy.objectives.patient import mix_weights, patient_loss
from understudy.objectives.vectors import similarity_loss, vector_loss
from understudy.training.class_weights import weigh_rows

# B batch, L tokens, H hidden size

Batch = Mapping[str, Tensor]
Losses = Tensor | Mapping[str, Tensor]
Objective = Callable[[Representations, Representations, Batch], Losses]
"""A function of student, teacher and batch that returns one loss per example, or several by name."""


class PredictionLosses(Protocol):
    """The prediction losses that a task kind defines; see `understudy.kinds`."""

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Batch,
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]: ...

    def label_loss(self, student: Representations, batch: Batch) -> Tensor: ...

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Batch,
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor: ...


def labelled_loss(
    kind: PredictionLosses, student: Representations, batch: Batch, class_weights: Sequence[float] | None
) -> Tensor:
    """Return the loss against labels, weighted by class, and 0 for rows without a label."""
    loss_B = kind.label_loss(student, batch)
    if class_weights is not None:
        loss_B = weigh_rows(loss_B, batch["labels"], class_weights)
    return loss_B * batch[LABELLED] if LABELLED in batch else loss_B


class Objectives(ABC):
    """The losses a student is trained on, and what `DistillationTrainer` must capture for them.

    Attributes:
        weights: the weight of each term, by name (`hidden_2`) or kind (`hidden`). Defaults to 1.
        layer_map: the teacher layers that are compared with the student's; None if only logits are.
        projection: how the student's states are projected to the teacher's width.
        attention: whether embeddings, queries and keys are captured too.
        logits: whether the models' heads are run.
        first_token_only: whether only the first token's states are kept.
    """

    weights: Mapping[str, float]
    layer_map: MapName | Sequence[int] | None
    projection: ProjectionKind
    attention: bool = False
    logits: bool = True
    first_token_only: bool = False

    @abstractmethod
    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        """Compare both models on a batch: return one loss per example, or several by name."""

    def losses(self, student: Representations, teacher: Representations, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by name, one value per example, without terms of zero weight."""
        num_rows, *rest = batch["input_ids"].shape
        if len(rest) == 2:  # the choices of a question are separate texts
            batch = {**batch, "attention_mask": batch["attention_mask"].flatten(0, -2)}
        found = self.compare(student, teacher, batch)
        named = dict(found) if isinstance(found, Mapping) else {"loss": found}
        for name, loss in named.items():
            if len(rest) == 2 and loss.shape == (num_rows * rest[0],):
                named[name] = loss.view(num_rows, -1).mean(dim=1)
            elif loss.shape != (num_rows,):
                raise ValueError(
                    f"the loss {name!r} must have one value for each of the {num_rows} examples, got the "
                    f"shape {tuple(loss.shape)}"
                )
        return {name: loss for name, loss in named.items() if weight_of(name, self.weights)}

    def check(self, student: Representations, teacher: Representations) -> None:  # noqa: B027
        """Raise if two models cannot be compared; called with their representations of a few tokens."""

    def weights_at(self, progress: float) -> Mapping[str, float]:
        """Return the weights after a share of the steps; constant unless a subclass changes them."""
        return self.weights

    def total(self, terms: Mapping[str, Tensor], progress: float = 0.0) -> Tensor:
        """Return the weighted sum of the terms, one value per example (TinyBERT Eq. 6)."""
        return weighted_sum(terms, self.weights_at(progress))


@final
@dataclass(frozen=True)
class FunctionObjectives(Objectives):
    """A user-defined function as objectives.

    Attributes:
        function: takes the student's and the teacher's `Representations` and the batch, and returns one loss
            per example: a tensor, or several by name.

    Examples:
        >>> import torch
        >>> def cosine_loss(student, teacher, batch):
        ...     first = student.hidden[-1][:, 0], teacher.hidden[-1][:, 0]
        ...     return 1 - torch.nn.functional.cosine_similarity(*first)
        >>> FunctionObjectives(cosine_loss, layer_map="top").projection
        'shared'
    """

    function: Objective
    weights: Mapping[str, float] = field(default_factory=dict)
    layer_map: MapName | Sequence[int] | None = "uniform"
    projection: ProjectionKind = "shared"
    attention: bool = True
    logits: bool = True

    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        return self.function(student, teacher, batch)


@final
@dataclass(frozen=True)
class TinyBertObjectives(Objectives):
    """TinyBERT's intermediate layers: embeddings, attention scores and hidden states (Eqs. 7 to 9, 11).

    Attributes:
        layer_map: `uniform`, `top`, `bottom`, or a teacher layer for each student layer.
        weights: λ by term (`attention_2`) or kind of term (`attention`); 0 leaves a term out.
        relation_heads: regroup both models into this many heads; needed if their head counts differ.
        padded: include padding, as in the published code.

    Examples:
        >>> TinyBertObjectives(layer_map="top", weights={"attention": 0.02}).projection
        'shared'
    """

    layer_map: MapName | Sequence[int] = "uniform"
    projection: ProjectionKind = "shared"
    weights: Mapping[str, float] = field(default_factory=dict)
    relation_heads: int | None = None
    padded: bool = False
    attention: bool = field(default=True, init=False)
    logits: bool = field(default=False, init=False)

    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        return layer_losses(
            student,
            teacher,
            batch["attention_mask"],
            weights=self.weights,
            relation_heads=self.relation_heads,
            padded=self.padded,
        )

    def check(self, student: Representations, teacher: Representations) -> None:
        num_layers, kinds = len(student.hidden), ("embeddings", "attention", "hidden")
        layers = range(1, num_layers + 1)
        names = ["embeddings", *(f"{kind}_{layer}" for kind in kinds[1:] for layer in layers)]
        unknown = sorted(set(self.weights) - {*names, *kinds})
        if unknown:
            raise RecipeError(
                f"weights.{unknown[0]} is not a term. Kinds are {', '.join(kinds)}; layers are counted from "
                f"1 to {num_layers}, e.g. attention_{num_layers}."
            )
        learnt = [name for name in names if weight_of(name, self.weights)]
        if not learnt:
            raise RecipeError("weights leaves nothing to learn: every term has a weight of 0.")
        if self.relation_heads is not None and not any(name.startswith("attention") for name in learnt):
            raise RecipeError("relation_heads has no effect: no attention term has a weight.")
        embeddings = student.embeddings_BLH
        assert embeddings is not None
        mask_BL = torch.ones(embeddings.shape[:2], device=embeddings.device)
        try:
            self.losses(student, teacher, {"attention_mask": mask_BL, "input_ids": mask_BL})
        except (ValueError, RuntimeError) as error:
            raise RecipeError(
                f"relation_heads: {error}. Or leave attention out: weights.attention=0."
            ) from None


@final
@dataclass(frozen=True)
class PredictionObjectives(Objectives):
    """TinyBERT's prediction layer (Eq. 10), as defined by a task kind.

    Attributes:
        kind: defines the loss, e.g. `understudy.get_kind("classification")`.
        dimensions: for vectors: shorter widths at which their first numbers are also compared, a term each.
        similarities: for vectors: the weight of the loss of cosines within a batch; 0 leaves it out.
    """

    kind: PredictionLosses
    temperature: float = 1.0
    padded: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)
    dimensions: Sequence[int] = ()
    similarities: float = 0.0
    layer_map: None = field(default=None, init=False)
    projection: ProjectionKind = field(default="none", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", {"similarities": self.similarities, **self.weights})

    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        losses = dict(
            self.kind.prediction_losses(
                student, teacher, batch, temperature=self.temperature, padded=self.padded
            )
        )
        if self.dimensions or self.similarities:
            own, told = (side.logits["logits"] for side in (student, teacher))
            for size in self.dimensions:
                losses[f"first{size}"] = vector_loss(own[:, :size], told[:, :size])
            if self.similarities:
                losses["similarities"] = similarity_loss(own, told)
        return losses


_LAYER_TERMS = ("embeddings", "attention", "hidden")


@final
@dataclass(frozen=True)
class JointObjectives(Objectives):
    """Layers, predictions and labels in one sum; the weight of the layers falls to 0.

    TinyBERT Eq. 6 over all terms at once: w(t) · layers · Σ layer terms + predictions · Eq. 10 + labels · L,
    where L is the loss against the labels, and w(t) = 1 − t / until after a share t of the steps, and never
    below 0.

    Attributes:
        kind: defines the losses on predictions and labels.
        layer_terms: how layers are compared, and the weight of each term among them.
        layers, predictions, labels: the weight of each part; 0 leaves it out.
        unlabelled_layers: compare layers on rows without labels only.
        until: the share of the steps after which the layers have no weight.
        class_weights: weights of the classes in the loss against labels; see `training/class_weights.py`.
    """

    kind: PredictionLosses
    layer_terms: TinyBertObjectives = field(default_factory=TinyBertObjectives)
    layers: float = 1.0
    until: float = 1.0
    predictions: float = 1.0
    labels: float = 1.0
    unlabelled_layers: bool = False
    temperature: float = 1.0
    class_weights: Sequence[float] | None = None
    layer_map: MapName | Sequence[int] | None = field(default=None)
    attention: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not self.layers:  # then the layers are not captured
            object.__setattr__(self, "layer_map", None)
            object.__setattr__(self, "attention", False)
        elif self.layer_map is None:
            object.__setattr__(self, "layer_map", self.layer_terms.layer_map)

    @property
    def projection(self) -> ProjectionKind:  # type: ignore[override]
        return self.layer_terms.projection

    @property
    def weights(self) -> Mapping[str, float]:  # type: ignore[override]
        return self.weights_at(0.0)

    def weights_at(self, progress: float) -> Mapping[str, float]:
        share = self.layers * max(0.0, 1.0 - progress / self.until)
        given = dict.fromkeys(_LAYER_TERMS, 1.0) | dict(self.layer_terms.weights)
        return {name: share * weight for name, weight in given.items()} | {
            "predictions": self.predictions,
            "labels": self.labels,
        }

    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        losses = dict(self.layer_terms.losses(student, teacher, batch)) if self.layers else {}
        if self.unlabelled_layers and LABELLED in batch:
            losses = {name: loss_B * (1 - batch[LABELLED]) for name, loss_B in losses.items()}
        if self.predictions:
            found = self.kind.prediction_losses(
                student, teacher, batch, temperature=self.temperature, padded=self.layer_terms.padded
            )
            losses["predictions"] = torch.stack(list(found.values())).sum(dim=0)
        if self.labels:
            losses["labels"] = labelled_loss(self.kind, student, batch, self.class_weights)
        return losses

    def check(self, student: Representations, teacher: Representations) -> None:
        if self.layers:
            self.layer_terms.check(student, teacher)


@final
@dataclass(frozen=True)
class PatientObjectives(Objectives):
    """Patient KD: labels, soft labels, and the first token's hidden states at some layers (section 3).

    Without a `layer_map` it is plain soft labels, (1 − α) L_CE + α L_DS.

    Attributes:
        layer_map: `skip`, `last`, or the teacher layer of each student layer.
        alpha: the share of the soft labels; the rest goes to the labels.
        beta: the weight of the hidden states.
        squared: multiply the soft-label loss by the temperature squared, as in the authors' code.
        normalized: normalise the states to unit length first, as in the paper.
        class_weights: weights of the classes in L_CE; see `training/class_weights.py`.
    """

    kind: PredictionLosses
    layer_map: MapName | Sequence[int] | None = None
    alpha: float = 0.5
    beta: float = 0.0
    temperature: float = 10.0
    squared: bool = True
    normalized: bool = True
    projection: ProjectionKind = "none"
    class_weights: Sequence[float] | None = None
    first_token_only: bool = field(default=True, init=False)

    @property
    def weights(self) -> Mapping[str, float]:  # type: ignore[override]
        layers = () if self.layer_map is None or isinstance(self.layer_map, str) else self.layer_map
        return mix_weights(self.alpha, self.beta, len(layers))

    def compare(self, student: Representations, teacher: Representations, batch: Batch) -> Losses:
        losses = {"labels": labelled_loss(self.kind, student, batch, self.class_weights)}
        if self.alpha:  # without soft labels the rows may have no predictions
            losses["soft_labels"] = self.kind.soft_label_loss(
                student, teacher, batch, temperature=self.temperature, squared=self.squared
            )
        states = zip(student.hidden, teacher.hidden, strict=True)
        for layer, (student_BLH, teacher_BLH) in enumerate(states, start=1):
            losses[f"patient_{layer}"] = patient_loss(
                student_BLH[:, 0], teacher_BLH[:, 0], normalized=self.normalized
            )
        return losses


def as_objectives(given: Objectives | Objective) -> Objectives:
    """Wrap a plain function as objectives with default settings; return objectives unchanged."""
    return given if isinstance(given, Objectives) else FunctionObjectives(given)
