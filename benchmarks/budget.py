"""How accurately can the time and the size of a student be predicted before it is trained?

Twenty shapes that were never timed are exported to int8 with random weights and the teacher's vocabulary,
timed in turns, and compared with what `understudy.planning.budget` predicts from six others. All are measured
in one run, since times differ between machines and between runs.

    python benchmarks/budget.py ../shared/assets/bert-12l-384h-mlm

`--quick` takes two shapes and writes no results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

import numpy as np

from understudy.models.pretrained import load_config
from understudy.planning.budget import Shape, candidate_shapes, measure_shapes, measured_costs
from understudy.timing.machine import describe_machine

RESULTS = Path(__file__).parent / "results" / "budget.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    teacher = str(options.teacher)
    shapes = other_shapes(teacher, 2 if options.quick else 20)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["UNDERSTUDY_CACHE"] = cache  # nothing that was timed on another day
        costs = measured_costs(teacher, options.length)
        measured = measure_shapes(teacher, shapes, options.length)
    rows = []
    for shape, found in zip(shapes, measured, strict=True):
        predicted = costs.predict(shape)
        rows.append(
            {
                "shape": shape.name,
                "predicted_ms": round(predicted.milliseconds, 3),
                "measured_ms": round(found.milliseconds, 3),
                "predicted_mb": round(predicted.megabytes, 3),
                "measured_mb": round(found.megabytes, 3),
                "time_error_percent": _error(predicted.milliseconds, found.milliseconds),
                "size_error_percent": _error(predicted.megabytes, found.megabytes),
            }
        )
        print(json.dumps(rows[-1]))
    times = [abs(row["time_error_percent"]) for row in rows]
    sizes = [abs(row["size_error_percent"]) for row in rows]
    figures = {
        "median_error_percent": round(statistics.median(times), 2),
        "worst_error_percent": max(times),
        "median_size_error_percent": round(statistics.median(sizes), 2),
        "worst_size_error_percent": max(sizes),
        "length": options.length,
        "machine": describe_machine(),
        "shapes": rows,
    }
    print(json.dumps({name: value for name, value in figures.items() if name.endswith("percent")}))
    if not options.quick:
        known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(known | figures, indent=2) + "\n", "utf-8")


def _error(predicted: float, measured: float) -> float:
    return round(100 * (predicted / measured - 1), 2)


def other_shapes(teacher: str, count: int) -> list[Shape]:
    """Return shapes that are no candidates, with widths of all multiples of the heads."""
    config = load_config(teacher)
    known = set(candidate_shapes(config))
    heads = config.num_attention_heads
    shapes = [
        Shape(layers, width)
        for layers in range(1, config.num_hidden_layers + 1)
        for width in range(8 * heads, config.hidden_size + 1, heads)
        if Shape(layers, width) not in known
    ]
    chosen = np.random.default_rng(1).permutation(len(shapes))[:count]
    return [shapes[place] for place in chosen]


if __name__ == "__main__":
    main()
