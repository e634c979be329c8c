"""Typed results of the stages: what result.json says, as attributes.

`content` is always the whole of result.json. The properties name the figures that people ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.evaluation.bootstrap import Estimate
from understudy.workspace.folders import DISTILLED
from understudy.workspace.result import StageResult, read_estimates


class TrainingResult(StageResult):
    """A result of a stage that trained a model."""

    @property
    def steps(self) -> int:
        return int(self.content["steps"])

    @property
    def seconds(self) -> float:
        """Training time since the last start."""
        return float(self.content["seconds"]["training"])

    @property
    def precision(self) -> str:
        """`fp32`, `bf16` or `fp16`."""
        return str(self.content["precision"]["name"])


class FinetuneResult(TrainingResult):
    """A fine-tuned teacher."""

    @property
    def parameters(self) -> int:
        return int(self.content["parameters"])


class EvaluateResult(StageResult):
    """A model's scores, and those of the model it was compared with."""

    @property
    def teacher_scores(self) -> dict[str, dict[str, Estimate]] | None:
        """The other model's scores by split and metric; None where there was no other."""
        against = self.content.get("against")
        return read_estimates(against["scores"]) if against is not None else None

    @property
    def difference(self) -> dict[str, dict[str, Estimate]]:
        """This model minus the other one, on the same rows, by split and metric."""
        return read_estimates(self.content.get("difference", {}))

    @property
    def agreement(self) -> dict[str, float]:
        """The share of rows on which both models predict the same, by split."""
        return dict(self.content.get("agreement", {}))


class DistillResult(EvaluateResult):
    """A student beside its teacher."""

    @property
    def parameters(self) -> int:
        return int(self.content["parameters"]["student"])

    @property
    def teacher_parameters(self) -> int | None:
        teacher: int | None = self.content["parameters"].get("teacher")
        return teacher

    @property
    def stages(self) -> dict[str, TrainingResult]:
        """Each stage of the method by name, e.g. `intermediate` and `prediction`."""
        assert self.output_dir is not None
        below = self.output_dir / DISTILLED  # in the folder of a whole run
        folder = below if below.is_dir() else self.output_dir
        return {
            name: TrainingResult(folder / name, content) for name, content in self.content["stages"].items()
        }


@dataclass(frozen=True)
class ModelFigures:
    """A model in the table of a whole run.

    Attributes:
        name: `teacher`, `student`, or `student, int8`.
        form: what runs it, e.g. `torch fp32`.
        milliseconds: median time of a batch, by the number of texts in it.
        times_faster: than the teacher, by the number of texts.
    """

    name: str
    form: str
    scores: Mapping[str, Estimate]
    parameters: int
    bytes: int
    times_smaller: float
    milliseconds: Mapping[int, float]
    times_faster: Mapping[int, float]

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> ModelFigures:
        """Read a row of `models` in a run's result.json."""
        return cls(
            name=row["model"],
            form=row["form"],
            scores={name: Estimate(**figure) for name, figure in row["scores"].items()},
            parameters=row["parameters"],
            bytes=row["bytes"],
            times_smaller=row["times_smaller"],
            milliseconds={int(batch): value for batch, value in row["milliseconds"].items()},
            times_faster={int(batch): value for batch, value in row["times_faster"].items()},
        )


@dataclass(frozen=True)
class ExportedFigures:
    """One file format of an artifact: its size and its scores by split and metric."""

    bytes: int
    scores: Mapping[str, Mapping[str, Estimate]]


class ExportResult(StageResult):
    """An exported artifact."""

    @property
    def models(self) -> dict[str, ExportedFigures]:
        """`fp32`, `int8` and others by name."""
        return {
            name: ExportedFigures(model["bytes"], read_estimates(model["scores"]))
            for name, model in self.content["models"].items()
        }

    @property
    def default(self) -> str:
        """The format that `Predictor` opens."""
        return str(self.content["default"])


@dataclass(frozen=True)
class TimingRow:
    """How fast one model is, for one number of threads, texts and tokens."""

    model: str
    threads: int
    batch: int
    length: int
    median_ms: float
    p95_ms: float
    texts_per_second: float
    times_faster: float
    flop: float
    passes: int


class BenchResult(StageResult):
    """Models timed side by side."""

    @property
    def rows(self) -> list[TimingRow]:
        return [TimingRow(**row) for row in self.content["rows"]]

    @property
    def bytes(self) -> dict[str, int]:
        """Size of each model on disk."""
        return {name: model["bytes"] for name, model in self.content["models"].items()}


class AugmentResult(StageResult):
    """An augmented training set."""

    @property
    def num_rows(self) -> int:
        """Rows that were read."""
        return int(self.content["augmented"]["rows"])

    @property
    def num_written(self) -> int:
        """Rows that were written, the originals included."""
        return int(self.content["augmented"]["written"])

    @property
    def seconds(self) -> float:
        return float(self.content["seconds"])


class CorpusResult(StageResult):
    """A corpus of token blocks."""

    @property
    def num_documents(self) -> int:
        return int(self.content["corpus"]["documents"])

    @property
    def num_duplicates(self) -> int:
        return int(self.content["corpus"]["duplicates"])

    @property
    def num_blocks(self) -> dict[str, int]:
        """Blocks to train on and held out."""
        return dict(self.content["corpus"]["blocks"])

    @property
    def num_tokens(self) -> dict[str, int]:
        """Tokens to train on and held out."""
        return dict(self.content["corpus"]["tokens"])

    @property
    def seconds(self) -> float:
        return float(self.content["seconds"])


@dataclass(frozen=True)
class LossChange:
    """A loss on held-out text before and after training."""

    first: float
    last: float


class GeneralResult(TrainingResult):
    """A general student."""

    @property
    def held_out(self) -> dict[str, LossChange]:
        """Each loss term on held-out text."""
        return {name: LossChange(**losses) for name, losses in self.content["held_out"].items()}

    @property
    def num_tokens(self) -> int:
        return int(self.content["tokens"])

    @property
    def epochs(self) -> float:
        return float(self.content["epochs"])


@dataclass(frozen=True)
class AblationFigure:
    """A variant's score on a task: the mean over seeds with its interval."""

    table: str
    task: str
    variant: str
    metric: str
    mean: Estimate
    seeds: tuple[float, ...]


class AblateResult(StageResult):
    """Ablation tables."""

    @property
    def rows(self) -> list[AblationFigure]:
        return [
            AblationFigure(
                table,
                row["task"],
                row["variant"],
                row["metric"],
                Estimate(row["mean"], row["low"], row["high"]),
                tuple(row["seeds"]),
            )
            for table, content in self.content["tables"].items()
            for row in content["rows"]
        ]


@dataclass(frozen=True)
class PlanResult:
    """What a recipe will cost."""

    content: dict[str, Any]

    @property
    def hours(self) -> dict[str, float]:
        """Hours by machine: `this machine` was measured, the others follow from their peak rate."""
        return dict(self.content["hours"])

    @property
    def steps(self) -> int:
        return int(self.content["steps"])

    @property
    def num_tokens(self) -> int:
        return int(self.content["tokens"])

    @property
    def flop(self) -> float:
        return float(self.content["flop"])

    @property
    def disk(self) -> dict[str, float]:
        """Bytes that the output takes, while it runs and when it is done."""
        return dict(self.content["disk"])

    @property
    def memory(self) -> dict[str, float]:
        """Bytes of the weights, and the peak that was measured."""
        return dict(self.content["memory"])
