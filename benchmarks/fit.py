"""What does it bring to fit a cut student to its teacher by least squares, before the first step?

For each task, `tinybert-4l-312d` is cut from its teacher and goes through both stages of TinyBERT, once from
the weights as they were cut (`cut`) and once with each linear layer fitted (`fitted`, the default), for
several numbers of steps. `slower` is `fitted` with 3e-4 instead of 1e-3 for the layers.

    python benchmarks/fit.py --teachers teachers --assets ../shared/assets --output-dir students

Runs that are already in the output folder are not made again, so the script can be stopped and run again, and
several can run side by side. `--tasks`, `--steps` (of the layers and of the predictions, `200+200`) and
`--seeds` choose a part. `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from runs import collect, show_means, students_parser, tinybert_student

RESULTS = Path(__file__).parent / "results" / "fit.json"
TASKS = ("mrpc", "cola", "stsb", "sst2", "rte")
STARTS: dict[str, dict[str, Any]] = {
    "cut": {"student.fit": False},
    "fitted": {"student.fit": True},
    "slower": {"student.fit": True, "intermediate.training.learning_rate": 3e-4},
}
STEPS = ("50+50", "200+200")


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["mrpc", "cola"])
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--steps", nargs="+", default=list(STEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        options.tasks, options.steps = ["mrpc"], ["5+5"]
    for seed in options.seeds:
        for task in options.tasks:
            for steps in options.steps:
                layers, predictions = map(int, steps.split("+"))
                for start in options.starts:
                    settings = {"seed": seed, **STARTS[start]}
                    name = f"{RESULTS.stem}-{task}-{start}-{steps}-{seed}"
                    counts = {"intermediate": layers, "prediction": predictions}
                    made = tinybert_student(task, name, settings, counts, options)
                    if not options.quick:
                        made = collect(RESULTS, options)
    if not options.quick:
        ways = [f"{task}-{start}-{steps}" for task in TASKS for steps in options.steps for start in STARTS]
        show_means(made, ways)
        for name, run in made.items():
            held_out = run["held_out"].items()
            losses = (f"{term} {found['first']:.3g} → {found['last']:.3g}" for term, found in held_out)
            print(f"{name:24} {', '.join(losses)}", file=sys.stderr)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
