"""Does a student learn more from augmented rows?

For MRPC and CoLA and three seeds each: a `tinybert-4l-312d` student, cut from its teacher, goes through both
stages of TinyBERT for equally many steps, once on the training set and once on its 20 variants per row.

    python benchmarks/augment_rows.py --output-dir augmented
    python benchmarks/augmented.py --augmented augmented --teachers teachers --output-dir students

Runs that are in the output folder are not repeated, so the script can be stopped, or started twice side by
side with different --rows. `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from runs import collect, show_means, students_parser, tinybert_student

RESULTS = Path(__file__).parent / "results" / "augmented.json"
TASKS, SEEDS, ROWS = ("mrpc", "cola"), (1, 2, 3), ("plain", "augmented")
# About five epochs of MRPC's own rows and then three; two and then one of CoLA's.
STEPS = {"intermediate": 600, "prediction": 300}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--augmented", type=Path, default=Path("augmented"))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({rows: learn("mrpc", rows, 1, options)["scores"] for rows in options.rows}))
        return
    for seed in SEEDS:
        for task in TASKS:
            for rows in options.rows:
                learn(task, rows, seed, options)
    results = collect(RESULTS, options)
    show_means(results, [f"{task}-{rows}" for task in TASKS for rows in ROWS])
    print(json.dumps(results))


def learn(task: str, rows: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    settings: dict[str, Any] = {"seed": seed}
    if rows == "augmented":
        settings["data.augmented"] = str(options.augmented / task)
    return tinybert_student(task, f"{RESULTS.stem}-{task}-{rows}-{seed}", settings, STEPS, options)


if __name__ == "__main__":
    main()
