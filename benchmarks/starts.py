"""Does a student that is cut from its teacher beat one from scratch?

For MRPC, CoLA and STS-B and three seeds each: a `tinybert-4l-312d` student goes through both stages of
TinyBERT for equally many steps, once from random weights and once cut from its teacher (every third layer,
the 312 channels, 26 dimensions a head and 1,200 neurons with the largest mean activation).

    python benchmarks/starts.py --teachers teachers --assets ../shared/assets --output-dir students

Runs that are already in the output folder are not repeated, so the script can be stopped and run again.
`--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from runs import collect, show_means, students_parser, tinybert_student

RESULTS = Path(__file__).parent / "results" / "starts.json"
TASKS, SEEDS, STARTS = ("mrpc", "cola", "stsb"), (1, 2, 3), ("random", "cut")
STEPS = {"intermediate": 200, "prediction": 200}


def main() -> None:
    parser = students_parser(__doc__)
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({start: learn("mrpc", start, 1, options)["held_out"] for start in STARTS}))
        return
    for seed in SEEDS:
        for task in TASKS:
            for start in STARTS:
                learn(task, start, seed, options)
    results = collect(RESULTS, options)
    ways = [f"{task}-{start}" for task in TASKS for start in STARTS]
    show_means(results, ways)
    for way in ways:
        found = [run for name, run in results.items() if name.startswith(f"{way}-")]
        for term in found[0]["held_out"]:
            first, last = (
                statistics.mean(run["held_out"][term][when] for run in found) for when in ("first", "last")
            )
            print(f"{way:11} {term:12} {first:.4g} → {last:.4g}", file=sys.stderr)
    print(json.dumps(results))


def learn(task: str, start: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    settings = {"seed": seed, "student.init": start}
    return tinybert_student(task, f"{RESULTS.stem}-{task}-{start}-{seed}", settings, STEPS, options)


if __name__ == "__main__":
    main()
