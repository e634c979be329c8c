"""Speed, memory and size of models, side by side in one run."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT, read_artifact
from understudy.artifacts.onnx import input_names
from understudy.errors import ModelError, OutputError, RecipeError
from understudy.kinds import get_kind, kind_names
from understudy.kinds.tasks import get_task
from understudy.models.families import num_positions
from understudy.models.flop import forward_flop
from understudy.models.pretrained import (
    has_head_for,
    load_config,
    load_tokenizer,
    local_folder,
)
from understudy.models.student import student_inside
from understudy.stages.result import RESULT, StageResult, saved_recipe, versions, write_result
from understudy.stages.runners import open_artifact, open_folder
from understudy.timing.machine import describe_machine
from understudy.timing.measure import Candidate, Timing, measure
from understudy.timing.picture import draw

PICTURE = "bench.svg"


@dataclass(frozen=True)
class _Model:
    """A candidate, and what is known of it without running it.

    Attributes:
        bytes: of its weights on disk.
        scores: metric to value, on the first development set; empty where nobody scored it.
    """

    candidate: Candidate
    folder: str
    form: str
    bytes: int
    parameters: int
    config: Any
    scores: dict[str, float]
    task: str | None


def bench(
    models: Sequence[str | Path],
    *,
    batches: Sequence[int] = (1, 32),
    lengths: Sequence[int] = (16, 64, 128),
    threads: Sequence[int] = (1,),
    output_dir: str | Path | None = None,
) -> StageResult:
    """Time models against each other: median, 95th percentile, throughput, memory, size, FLOP.

    Args:
        models: folders of transformers models, which run in torch, and artifacts, all of whose forms run;
            `ARTIFACT:int8` is one of them. Ratios are to the first.
        batches, lengths: texts of a pass, and tokens of a text; every one with every other.
        threads: of a pass.
        output_dir: gets result.json and, where scores are known, a picture of score against latency.

    Example:
        >>> understudy.bench(["teachers/sst2", "artifacts/sst2:int8"]).content["rows"]  # doctest: +SKIP
        [{'model': 'teachers/sst2', 'threads': 1, 'batch': 1, 'length': 16, 'median_ms': …}, …]
    """
    folder = Path(output_dir).expanduser() if output_dir is not None else None
    if folder is not None and (folder / RESULT).exists():
        raise OutputError(f"{folder} holds a result already. Use another --output-dir.")
    known = list(itertools.chain.from_iterable(_find(str(model)) for model in models))
    if not known:
        raise RecipeError("give one model at least: a folder, or an artifact.")
    _check_lengths(known, lengths)
    timings, memory = measure(
        [one.candidate for one in known], batches=batches, lengths=lengths, threads=threads
    )
    first = known[0].candidate.name
    content: dict[str, Any] = {
        "stage": "bench",
        "machine": describe_machine(),
        "models": {one.candidate.name: _describe(one, known[0], memory) for one in known},
        "rows": [_row(timing, timings, first, known) for timing in timings],
        "versions": versions() | _engines(known),
    }
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        content["picture"] = _draw(known, timings, folder / PICTURE)
        write_result(folder, content)
    return StageResult(folder, content)


def _find(model: str) -> list[_Model]:
    """A folder's model, or those of an artifact."""
    if Path(model).suffix == ".json" or _is_bench(Path(model) / RESULT):
        raise RecipeError(
            f"{model} holds figures of another run. Machines and moments differ: give the models themselves, "
            "and they are measured together."
        )
    folder, _, form = model.partition(":") if not Path(model).exists() else (model, "", "")
    if (Path(folder) / ARTIFACT).is_file():
        return _forms(folder, form or None)
    if form:
        raise ModelError(f"{folder} is no artifact, so that it has no {form!r}. Export it first.")
    return [_torch_model(local_folder(str(student_inside(folder))), folder)]


def _is_bench(result: Path) -> bool:
    return result.is_file() and json.loads(result.read_text("utf-8")).get("stage") == "bench"


def _forms(folder: str, form: str | None) -> list[_Model]:
    artifact = read_artifact(Path(folder))
    config = load_config(folder)
    if form is not None:
        artifact.choose(form)
    made = []
    for name, model in artifact.models.items():
        if form not in (None, name):
            continue
        candidate = Candidate(
            f"{folder}:{name}",
            functools.partial(open_artifact, folder, name),
            [one for one in artifact.inputs if one != "attention_mask"],
            config.vocab_size,
        )
        made.append(
            _Model(
                candidate,
                folder,
                f"{name} ({model.engine})",
                model.bytes,
                artifact.parameters,
                config,
                _first_scores(model.scores),
                artifact.task,
            )
        )
    return made


def _torch_model(folder: str, shown: str) -> _Model:
    import torch
    import transformers

    config = load_config(folder)
    found = [kind for kind in map(get_kind, kind_names()) if has_head_for(config, kind)]
    auto_class, kind_name = (found[0].auto_class, found[0].name) if found else ("AutoModel", None)
    with torch.device("meta"):
        model = getattr(transformers, auto_class).from_config(config)
    names = input_names(model, load_tokenizer(folder).model_input_names)
    candidate = Candidate(
        shown,
        functools.partial(open_folder, folder, auto_class, kind_name),
        [name for name in names if name != "attention_mask"],
        config.vocab_size,
    )
    saved = saved_recipe(folder)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8")) if saved is not None else {}
    weights = list(Path(folder).glob("*.safetensors")) or list(Path(folder).glob("*.bin"))
    return _Model(
        candidate,
        folder,
        "fp32 (torch)",
        sum(file.stat().st_size for file in weights),
        model.num_parameters(),
        config,
        _first_scores(result.get("scores", {})),
        result.get("task"),
    )


def _first_scores(scores: Any) -> dict[str, float]:
    for metrics in scores.values():
        return {name: figure["value"] for name, figure in metrics.items()}
    return {}


def _check_lengths(known: Sequence[_Model], lengths: Sequence[int]) -> None:
    for one in known:
        limit = num_positions(one.config)
        if limit is not None and max(lengths) > limit:
            raise RecipeError(
                f"--lengths must be at most {limit}, which {one.folder} reads; got {max(lengths)}."
            )


def _describe(one: _Model, first: _Model, memory: dict[str, int]) -> dict[str, Any]:
    return {
        "folder": one.folder,
        "form": one.form,
        "bytes": one.bytes,
        "times_smaller": round(first.bytes / one.bytes, 2),
        "parameters": one.parameters,
        "peak_memory": memory[one.candidate.name],
        "scores": one.scores,
    }


def _row(timing: Timing, timings: Sequence[Timing], first: str, known: Sequence[_Model]) -> dict[str, Any]:
    shape = (timing.threads, timing.batch, timing.length)
    base = next(one for one in timings if one.name == first and (one.threads, one.batch, one.length) == shape)
    config = next(one.config for one in known if one.candidate.name == timing.name)
    return {
        "model": timing.name,
        "threads": timing.threads,
        "batch": timing.batch,
        "length": timing.length,
        "median_ms": round(timing.median * 1e3, 4),
        "p95_ms": round(timing.p95 * 1e3, 4),
        "texts_per_second": round(timing.batch / timing.median, 1),
        "times_faster": round(base.median / timing.median, 2),
        "flop": forward_flop(config, timing.length) * timing.length * timing.batch,
        "passes": len(timing.seconds),
    }


def _engines(known: Sequence[_Model]) -> dict[str, str]:
    from importlib.metadata import version

    used = " ".join(one.form for one in known)
    return {name: version(name) for name in ("onnxruntime", "openvino") if name in used}


def _draw(known: Sequence[_Model], timings: Sequence[Timing], path: Path) -> str | None:
    """Of one text by the fewest threads, at the middle length; None where fewer than two have a score."""
    scored = [one for one in known if one.scores and one.task == known[0].task]
    if len(scored) < 2:
        return None
    metric = get_task(str(known[0].task)).headline
    lengths = sorted({timing.length for timing in timings})
    length, threads = lengths[len(lengths) // 2], min(timing.threads for timing in timings)
    batch = min(timing.batch for timing in timings)
    medians = {
        timing.name: timing.median * 1e3
        for timing in timings
        if (timing.threads, timing.batch, timing.length) == (threads, batch, length)
    }
    points = [
        (one.candidate.name, medians[one.candidate.name], one.scores[metric])
        for one in scored
        if metric in one.scores
    ]
    title = f"{known[0].task}: {batch} text of {length} tokens, {threads} thread" + "s" * (threads > 1)
    draw(points, metric=metric, title=title, path=path)
    return path.name
