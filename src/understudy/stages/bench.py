"""Benchmark speed, memory and size of models side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.errors import OutputError, RecipeError
from understudy.models.families import num_positions
from understudy.models.flop import forward_flop
from understudy.timing.machine import describe_machine
from understudy.timing.measure import Timing, measure
from understudy.timing.picture import draw
from understudy.timing.rounds import compare_rounds, describe_rounds
from understudy.workspace.folders import RESULT, remove_leftovers
from understudy.workspace.hashes import versions
from understudy.workspace.lock import only_process_in
from understudy.workspace.result import write_result
from understudy.workspace.results import BenchResult
from understudy.workspace.timed_models import TimedModel, find_models

PICTURE = "bench.svg"


def bench(
    models: Sequence[str | Path],
    *,
    batches: Sequence[int] = (1, 32),
    lengths: Sequence[int] = (16, 64, 128),
    threads: Sequence[int] = (1,),
    output_dir: str | Path | None = None,
) -> BenchResult:
    """Benchmark models against each other: time, CPU time, throughput, memory, size, FLOP.

    Models take turns. Ratios are taken inside each round of turns, and left out if the machine was busy:
    see `understudy.timing.rounds`.

    Args:
        models: folders of transformers models, which run in torch, and artifacts, all of whose forms run;
            `ARTIFACT:int8` selects one form. Ratios are relative to the first model.
        batches, lengths: texts per forward pass and tokens per text; all combinations are measured.
        threads: threads per forward pass.
        output_dir: gets result.json and, if scores are known, a plot of score against latency.

    Examples:
        >>> understudy.bench(["teachers/sst2", "artifacts/sst2:int8"]).content["rows"]  # doctest: +SKIP
        [{'model': 'teachers/sst2', 'threads': 1, 'batch': 1, 'length': 16, 'median_ms': …}, …]
    """
    folder = Path(output_dir).expanduser() if output_dir is not None else None
    with only_process_in(folder):
        if folder is not None and (folder / RESULT).exists():
            raise OutputError(f"{folder} holds a result already. Use another --output-dir.")
        known = list(itertools.chain.from_iterable(find_models(str(model)) for model in models))
        if not known:
            raise RecipeError("give one model at least: a folder, or an artifact.")
        names = [one.candidate.name for one in known]
        if len(set(names)) < len(names):
            raise RecipeError(f"{max(names, key=names.count)} is given twice; give each model once.")
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
            remove_leftovers(folder)
        return BenchResult(folder, content)


def _check_lengths(known: Sequence[TimedModel], lengths: Sequence[int]) -> None:
    for one in known:
        limit = num_positions(one.config)
        if limit is not None and max(lengths) > limit:
            raise RecipeError(
                f"--lengths must be at most {limit}, which {one.folder} reads; got {max(lengths)}."
            )


def _describe(one: TimedModel, first: TimedModel, memory: dict[str, int]) -> dict[str, Any]:
    return {
        "folder": one.folder,
        "form": one.form,
        "bytes": one.bytes,
        "times_smaller": round(first.bytes / one.bytes, 2),
        "parameters": one.parameters,
        "peak_memory": memory[one.candidate.name],
        "scores": one.scores,
    }


def _row(
    timing: Timing, timings: Sequence[Timing], first: str, known: Sequence[TimedModel]
) -> dict[str, Any]:
    shape = (timing.threads, timing.batch, timing.length)
    base = next(one for one in timings if one.name == first and (one.threads, one.batch, one.length) == shape)
    config = next(one.config for one in known if one.candidate.name == timing.name)
    return {
        "model": timing.name,
        "threads": timing.threads,
        "batch": timing.batch,
        "length": timing.length,
        **describe_rounds(timing.wall, timing.cpu),
        "p95_ms": round(timing.p95 * 1e3, 4),
        "texts_per_second": round(timing.batch / timing.median, 1),
        **compare_rounds((base.wall, base.cpu), (timing.wall, timing.cpu)),
        "flop": forward_flop(config, timing.length) * timing.length * timing.batch,
        "passes": timing.passes,
    }


def _engines(known: Sequence[TimedModel]) -> dict[str, str]:
    from importlib.metadata import version

    used = " ".join(one.form for one in known)
    return {name: version(name) for name in ("onnxruntime", "openvino") if name in used}


def _draw(known: Sequence[TimedModel], timings: Sequence[Timing], path: Path) -> str | None:
    """Plot smallest batch, fewest threads, middle length; return None if fewer than two have a score."""
    scored = [one for one in known if one.scores and one.task == known[0].task]
    if len(scored) < 2:
        return None
    metric = next(iter(scored[0].scores))
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
    title = f"{known[0].task}: {batch} text{'s' * (batch > 1)} of {length} tokens, {threads} "
    title += "threads" if threads > 1 else "thread"
    draw(points, metric=metric, title=title, path=path)
    return path.name
