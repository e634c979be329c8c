"""What is gained by fitting a cut student to its teacher by least squares, before the first step?

For each task, `tinybert-4l-312d` is cut from its teacher and goes through both stages of TinyBERT for equally
many steps: from the weights as they were cut, with a learning rate of 1e-3 for the layers (`cut`); with each
linear layer fitted, at the recipes' 3e-4 (`fitted`) and at 1e-3 (`faster`). `general` was cut from the
pretrained encoder and went through general distillation (`--general`) before it is fitted; `unfitted` is the
same without the fit. SST-2 has 2,500 rows.

    python benchmarks/fit.py --teachers teachers --assets ../shared/assets --output-dir students
    python benchmarks/fit.py --teachers teachers --assets ../shared/assets --tasks sst2 --steps 156+156

Runs that are already in the output folder are not repeated, so the script can be stopped and run again, and
several can run side by side. `--tasks`, `--starts`, `--steps` (of the layers and of the predictions) and
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
    "cut": {"student.fit": False, "intermediate.training.learning_rate": 1e-3},
    "fitted": {"intermediate.training.learning_rate": 3e-4},
    "faster": {"intermediate.training.learning_rate": 1e-3},
    "general": {"intermediate.training.learning_rate": 3e-4},
    "unfitted": {"intermediate.training.learning_rate": 3e-4},
}
ROWS = {"sst2": {"data.max_rows": 2500}}
STEPS = ("200+200",)


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--general", type=Path, default=Path("students/general-cut"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["mrpc", "cola"])
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=["cut", "fitted"])
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
                    settings = {"seed": seed, **STARTS[start], **ROWS.get(task, {})}
                    if start in ("general", "unfitted"):
                        student = {"model": str(options.general / "student"), "fit": start == "general"}
                        settings["student"] = student
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
