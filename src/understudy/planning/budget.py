"""A student's shape for a target: how fast and how large it will be is known before it is trained.

Time and size do not depend on the weights. A few shapes with random weights are exported to int8 and timed on
this machine, once; a model fitted to them predicts all other shapes, and the largest that fits is chosen.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from scipy.optimize import nnls
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from understudy.artifacts.onnx import export_onnx, input_names
from understudy.artifacts.quantize import quantize
from understudy.data.load import cache_folder, load_data
from understudy.data.sources import dev_splits
from understudy.errors import RecipeError
from understudy.files import is_whole, write_sealed
from understudy.kinds import get_kind
from understudy.kinds.tasks import DEFAULT_KIND
from understudy.models.families import own_sizes
from understudy.models.pretrained import build_model, load_config, load_tokenizer
from understudy.models.settings import StudentSettings, Target, check_start, parse_target
from understudy.models.student import student_config
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe
from understudy.timing.machine import describe_machine
from understudy.timing.measure import Candidate, measure
from understudy.workspace.folders import RECIPE
from understudy.workspace.runners import open_file_alone
from understudy.workspace.splits import split_of

logger = logging.getLogger(__name__)

_LAYERS = (2, 3, 4, 5, 6, 8, 10, 12)
_WIDTHS = 8  # up to the teacher's, in this many steps
_MOST_TIMED = 6  # layers; deeper shapes take proportionally longer
_VOCABULARY = 1_000  # of the timed shapes: the embeddings of others are calculated
_ROUNDS = 12
_CACHE = "speeds"
_OF_NO_COST = (  # keys of a config
    "vocab_size", "id2label", "label2id", "architectures", "dtype", "transformers_version", "_name_or_path",
)  # fmt: skip
FORMAT_VERSION = 1  # part of the cache key


@dataclass(frozen=True)
class Shape:
    """Layers and width of a student; its feed-forward part is four times as wide."""

    layers: int
    width: int

    @property
    def name(self) -> str:
        return f"{self.layers}l-{self.width}d"


@dataclass(frozen=True)
class StudentCost:
    """A student's cost: milliseconds for one text in int8 on one thread, and megabytes of its file."""

    milliseconds: float
    megabytes: float

    def exceeds(self, target: Target) -> list[str]:
        """Return in what ways it exceeds a target; empty if it does not."""
        found = []
        if target.milliseconds is not None and self.milliseconds > target.milliseconds:
            found.append("too slow")
        if target.megabytes is not None and self.megabytes > target.megabytes:
            found.append("too large")
        return found


@dataclass(frozen=True)
class Costs:
    """Predicts the cost of a shape from the costs of a few.

    A layer takes a time of a + b·H + c·H² for its width H, and bytes of the same form; the coefficients are
    not negative, so that a larger shape never costs less. Embeddings take one byte for each number.
    """

    time: Sequence[float]
    size: Sequence[float]
    num_tokens: int
    embedding_size: int | None = None

    def predict(self, shape: Shape) -> StudentCost:
        """Return the cost of a shape."""
        features = _features(shape)
        return StudentCost(
            float(features @ np.array(self.time)),
            (float(features @ np.array(self.size)) + self.num_tokens * (self.embedding_size or shape.width))
            / 1e6,
        )


def fit_costs(
    measured: Sequence[tuple[Shape, StudentCost]], num_tokens: int, embedding_size: int | None = None
) -> Costs:
    """Fit the model of costs to measured ones, by their relative errors.

    Args:
        measured: shapes with a vocabulary of 1,000 tokens.
        num_tokens: the vocabulary of the shapes to predict.
        embedding_size: the width of their embeddings, if that is not the student's.
    """
    times = np.array([cost.milliseconds for _, cost in measured])
    sizes = np.array(
        [1e6 * cost.megabytes - _VOCABULARY * (embedding_size or shape.width) for shape, cost in measured]
    )
    features = np.stack([_features(shape) for shape, _ in measured])
    time, size = (nnls(features / values[:, None], np.ones(len(values)))[0] for values in (times, sizes))
    return Costs(time.tolist(), size.tolist(), num_tokens, embedding_size)


def _features(shape: Shape) -> NDArray[np.float64]:
    layers, width = shape.layers, shape.width
    return np.array([1.0, width, layers, layers * width, layers * width**2], np.float64)


def candidate_shapes(config: Any, *, cut: bool = False) -> list[Shape]:
    """Return the shapes that a teacher's student may have, the smallest first.

    They have at most half of the teacher's layers: with more, a student of a given size becomes narrow and
    slow, and not better (docs/LOG.md).

    Args:
        cut: leave out those whose feed-forward part is wider than the teacher's.
    """
    half = (config.num_hidden_layers + 1) // 2
    layers = [count for count in _LAYERS if count <= half] or [half]
    widths = [one for one in _widths(config) if not cut or 4 * one <= own_sizes(config)["intermediate_size"]]
    shapes = [Shape(count, width) for count in layers for width in widths]
    return sorted(shapes, key=_capacity)


def smaller_shapes(config: Any) -> list[Shape]:
    """Return shapes for a search by score, from half of the teacher's layers down, each about half as large.

    For a teacher with 12 layers of width 384, they are 6l-384d, 4l-336d, 3l-288d, 2l-240d and 2l-144d.
    """
    layers, width, widths = config.num_hidden_layers, config.hidden_size, _widths(config)
    shares = ((2, 1.0), (3, 0.875), (4, 0.75), (6, 0.625), (6, 0.375))
    shapes = [Shape(max(1, round(layers / part)), _near(widths, share * width)) for part, share in shares]
    return list(dict.fromkeys(shapes))


def _widths(config: Any) -> list[int]:
    heads, width = config.num_attention_heads, config.hidden_size
    return sorted({max(1, round(width * step / _WIDTHS / heads)) * heads for step in range(2, _WIDTHS + 1)})


def _capacity(shape: Shape) -> tuple[int, int]:
    """Order shapes by the weights of their layers."""
    return shape.layers * shape.width**2, shape.layers


def choose_shape(target: Target, shapes: Sequence[Shape], costs: Costs) -> Shape:
    """Return the largest shape within a target."""
    fitting = [shape for shape in shapes if not costs.predict(shape).exceeds(target)]
    if not fitting:
        smallest = costs.predict(shapes[0])
        raise RecipeError(
            f"no student is within {target}: the smallest, {shapes[0].name}, takes about "
            f"{smallest.milliseconds:.2g} ms and {smallest.megabytes:.2g} MB here. Allow more, "
            "or choose a shape yourself with --student."
        )
    return max(fitting, key=_capacity)


def with_target(recipe: Recipe, output_dir: Path | None = None) -> Recipe:
    """Return a recipe with the shape that its `student.target` asks for, if it has one.

    Args:
        output_dir: a run in this folder with the same target keeps its shape.
    """
    student = recipe.student
    if student.target is None or student.shape is not None:
        return recipe
    check_start(student)
    target = parse_target(student.target)
    saved = output_dir / RECIPE if output_dir is not None else None
    if saved is not None and saved.is_file():
        before = load_recipe(saved).student
        if before.target == student.target and before.shape is not None:
            return recipe.model_copy(update={"student": student.model_copy(update={"shape": before.shape})})
    model = recipe.teacher or (recipe.finetune.model if recipe.finetune is not None else None)
    if model is None:
        raise RecipeError("student.target needs a teacher, whose family and sizes the student's follow from.")
    task = recipe.task_definition
    split = dev_splits(task, recipe.data)[0]
    rows = load_data(task, recipe.data, [split]).splits[split]
    length = usual_length(recipe, rows, load_tokenizer(model))
    config = load_config(student.source or model)
    shapes = candidate_shapes(config, cut=student.start == "cut")
    costs = measured_costs(student.source or model, length, student)
    chosen = choose_shape(target, shapes, costs)
    for line in _table(shapes, costs, chosen, target):
        logger.info(line)
    cost = costs.predict(chosen)
    logger.info(
        "Chose %s for the target %s: about %.2g ms for a text of %d tokens, and %.2g MB.",
        chosen.name,
        target,
        cost.milliseconds,
        length,
        cost.megabytes,
    )
    return recipe.model_copy(update={"student": student.model_copy(update={"shape": chosen.name})})


_SHOWN = 6  # lines of the table: the chosen shape and its neighbours


def _table(shapes: Sequence[Shape], costs: Costs, chosen: Shape, target: Target) -> list[str]:
    place = shapes.index(chosen)
    first = max(0, min(place - _SHOWN // 2, len(shapes) - _SHOWN))
    lines = []
    for shape in shapes[first : first + _SHOWN]:
        cost = costs.predict(shape)
        mark = "chosen" if shape == chosen else ", ".join(cost.exceeds(target))
        figures = f"{shape.name:>10} {cost.milliseconds:8.2f} ms {cost.megabytes:8.1f} MB"
        lines.append(f"{figures}  {mark}".rstrip())
    return lines


def usual_length(recipe: Recipe, rows: Dataset, tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the median number of tokens of development rows."""
    split = split_of(recipe, rows, tokenizer)
    return max(2, int(np.median(split.encoded["length"][:])))


def measured_costs(model: str, length: int, settings: StudentSettings | None = None) -> Costs:
    """Return the costs of students of a teacher on this machine, timed once and then read from the cache.

    Args:
        length: tokens of a text.
        settings: the student's family and start. Defaults to random weights in the teacher's family.
    """
    config, settings = load_config(model), settings or StudentSettings()
    if hasattr(config, "num_hidden_groups"):
        raise RecipeError(
            f"student.target cannot be used with {config.model_type}, whose layers share their weights."
        )
    shapes = _timed_shapes(config)
    kept = {name: value for name, value in config.to_dict().items() if name not in _OF_NO_COST}
    decided_by = [FORMAT_VERSION, describe_machine(), kept, settings.family, settings.start, length]
    decided_by += [[asdict(shape) for shape in shapes], version("onnxruntime")]
    key = hashlib.sha256(json.dumps(decided_by, sort_keys=True, default=str).encode()).hexdigest()[:32]
    file = cache_folder() / _CACHE / f"{key}.json"
    if not is_whole(file):
        logger.info("Timing %d shapes with random weights on this machine: about a minute.", len(shapes))
        found = measure_shapes(model, shapes, length, settings, num_tokens=_VOCABULARY)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(
            file, lambda path: path.write_text(json.dumps([asdict(cost) for cost in found]), "utf-8")
        )
    costs = [StudentCost(**one) for one in json.loads(file.read_text("utf-8"))]
    own = getattr(config, "embedding_size", config.hidden_size)  # ELECTRA-small's are narrower
    return fit_costs(
        list(zip(shapes, costs, strict=True)), config.vocab_size, own if own < config.hidden_size else None
    )


def _timed_shapes(config: Any) -> list[Shape]:
    """Return shapes that span all others: few, some and many layers, narrow and wide."""
    most = min(_MOST_TIMED, config.num_hidden_layers)
    least = max(1, min(2, most // 2))
    shares = {least: (0.25, 1.0), (least + most) // 2: (0.5, 0.75), most: (0.25, 1.0)}
    widths = _widths(config)
    return [
        Shape(layers, _near(widths, share * config.hidden_size))
        for layers, own in shares.items()
        for share in own
    ]


def _near(values: Sequence[int], wanted: float) -> int:
    return min(values, key=lambda value: abs(value - wanted))


def measure_shapes(
    model: str,
    shapes: Sequence[Shape],
    length: int,
    settings: StudentSettings | None = None,
    *,
    num_tokens: int | None = None,
) -> list[StudentCost]:
    """Export students with random weights to int8, and time them in turns: one text, one thread.

    Args:
        settings: see `measured_costs`.
        num_tokens: size of the vocabulary. Defaults to the teacher's.
    """
    kind, tokenizer = get_kind(DEFAULT_KIND), load_tokenizer(model)  # a head hardly costs anything
    settings = settings or StudentSettings()
    with tempfile.TemporaryDirectory(prefix="understudy-shapes-") as folder:
        candidates, sizes = [], []
        for shape in tqdm(shapes, desc="Exporting", unit=" shapes", leave=False, disable=None):
            own = settings.model_copy(update={"shape": shape.name, "target": None})
            config = student_config(own, load_config(model))
            config.vocab_size = num_tokens or config.vocab_size
            for name, value in vars(config).items():
                if name.endswith("_token_id") and isinstance(value, int) and value >= config.vocab_size:
                    setattr(config, name, 0)
            kind.configure(config, ["0", "1"])
            student = build_model(kind, config)
            names = input_names(student, tokenizer.model_input_names)
            plain, file = (Path(folder) / f"{shape.name}{end}.onnx" for end in ("", "-int8"))
            export_onnx(student, kind, names, plain)
            quantize(plain, file)
            plain.unlink()
            opener = functools.partial(open_file_alone, str(file), tuple(names), kind.outputs)
            inputs = [name for name in names if name != "attention_mask"]
            candidates.append(Candidate(shape.name, opener, inputs, config.vocab_size))
            sizes.append(file.stat().st_size)
        timings, _ = measure(candidates, batches=(1,), lengths=(length,), threads=(1,), rounds=_ROUNDS)
    # CPU time, since wall time would include other activity on the machine.
    seconds = {timing.name: statistics.median(timing.cpu) for timing in timings}
    return [
        StudentCost(1e3 * seconds[shape.name], size / 1e6) for shape, size in zip(shapes, sizes, strict=True)
    ]
