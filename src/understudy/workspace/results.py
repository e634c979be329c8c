"""Typed results of the stages, with the content of result.json as attributes.

`content` is always the whole of result.json. The properties expose the most useful figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.evaluation.bootstrap import Estimate
from understudy.models.settings import DISTILLED
from understudy.workspace.result import StageResult, read_estimates


class TrainingResult(StageResult):
    """The result of a stage that trains a model."""

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
    def memory(self) -> dict[str, Estimate] | None:
        """The score on rows it learnt from (`train`) and on rows held out of training (`held_out`)."""
        memory = self.content.get("memory")
        return {name: Estimate(**memory[name]) for name in ("train", "held_out")} if memory else None

    @property
    def parameters(self) -> int:
        return int(self.content["parameters"])


class EvaluateResult(StageResult):
    """A model's scores, and those of the model it was compared with."""

    @property
    def teacher_scores(self) -> dict[str, dict[str, Estimate]] | None:
        """The other model's scores by split and metric; None if there was no other."""
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
    """A student compared with its teacher."""

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
        name: `teacher`, `teacher, int8`, `student`, or `student, int8`.
        form: the precision and engine, e.g. `fp32 (torch)`.
        milliseconds: median time of a batch, by batch size.
        cpu_milliseconds: median CPU time of a batch, by batch size.
        times_faster: speed-up over the teacher, by batch size; None if the machine was busy.
        cpu_times_faster: the same by CPU time; None if that was not steady either.
    """

    name: str
    form: str
    scores: Mapping[str, Estimate]
    parameters: int
    bytes: int
    times_smaller: float
    milliseconds: Mapping[int, float]
    cpu_milliseconds: Mapping[int, float]
    times_faster: Mapping[int, float | None]
    cpu_times_faster: Mapping[int, float | None]

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
            milliseconds=_by_batch(row["milliseconds"]),
            cpu_milliseconds=_by_batch(row["cpu_milliseconds"]),
            times_faster=_by_batch(row["times_faster"]),
            cpu_times_faster=_by_batch(row["cpu_times_faster"]),
        )


def _by_batch(figures: Mapping[str, Any]) -> dict[int, Any]:
    return {int(batch): value for batch, value in figures.items()}


@dataclass(frozen=True)
class ExportedFigures:
    """One file format of an artifact: its size and its scores by split and metric."""

    bytes: int
    scores: Mapping[str, Mapping[str, Estimate]]


class ExportResult(StageResult):
    """An exported artifact."""

    @property
    def models(self) -> dict[str, ExportedFigures]:
        """The exported models by name: `fp32`, `int8` and others."""
        return {
            name: ExportedFigures(model["bytes"], read_estimates(model["scores"]))
            for name, model in self.content["models"].items()
        }

    @property
    def default(self) -> str:
        """The format that `Predictor` opens by default."""
        return str(self.content["default"])


@dataclass(frozen=True)
class TimingRow:
    """The speed of one model for a given number of threads, texts and tokens.

    Attributes:
        median_ms: the median over the rounds, with `quartiles_ms` as their spread.
        cpu_ms: the same of CPU time, over all threads.
        busy: whether other activity disturbed this model or the first one.
        times_faster: speed-up over the first model; None if `busy`.
        cpu_times_faster: the same by CPU time; None if that was not steady either.
    """

    model: str
    threads: int
    batch: int
    length: int
    median_ms: float
    quartiles_ms: Sequence[float]
    p95_ms: float
    cpu_ms: float
    cpu_quartiles_ms: Sequence[float]
    texts_per_second: float
    busy: bool
    times_faster: float | None
    cpu_times_faster: float | None
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
        """Number of rows that were read."""
        return int(self.content["augmented"]["rows"])

    @property
    def num_written(self) -> int:
        """Number of rows that were written, including the originals."""
        return int(self.content["augmented"]["written"])

    @property
    def seconds(self) -> float:
        return float(self.content["seconds"])


class MineResult(StageResult):
    """Rows found in a corpus."""

    @property
    def num_rows(self) -> int:
        """Number of rows that were written."""
        return int(self.content["mined"]["written"])

    @property
    def num_sentences(self) -> int:
        """Number of sentences of the corpus that were compared."""
        return int(self.content["mined"]["sentences"])

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
        """Number of blocks for training and held out."""
        return dict(self.content["corpus"]["blocks"])

    @property
    def num_tokens(self) -> dict[str, int]:
        """Number of tokens for training and held out."""
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
    """The cost of a recipe."""

    content: dict[str, Any]

    @property
    def hours(self) -> dict[str, float]:
        """Hours by machine: measured for `this machine`, computed from peak rates for the others."""
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
        """Bytes that the output takes, at most and when done."""
        return dict(self.content["disk"])

    @property
    def memory(self) -> dict[str, float]:
        """Bytes of the weights, and the measured peak."""
        return dict(self.content["memory"])
