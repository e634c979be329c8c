r"""What does `understudy run --target` choose, and does the student meet the target?

Three targets on SST-2 and MRPC: a time for one text, a size, and the points that may be lost. Students are
cut from their teacher and learn in both stages of TinyBERT: 200 steps each for a time or a size, and for the
points as many as those of 6 layers in `desk.py`. Sizes and times are those of the int8 students on this
machine, and each student is timed in turns with its teacher.

    python benchmarks/targets.py --teachers teachers --assets ../shared/assets --output-dir runs

Runs that are in the output folder are not repeated. `--quick` makes 5 steps for one target of MRPC and
writes no results.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from runs import finish, settings_options, students_parser
from tables import NAMES

RESULTS = Path(__file__).parent / "results" / "budget.json"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "targets.svg"
TASKS = {"sst2": "accuracy", "mrpc": "f1"}
TARGETS = {"1.5ms": "1.5ms", "8MB": "8MB", "lose2": "lose 2 points"}
# The sizes that are tried until one loses too much.
TRIED = ["--student", "6l-384d,4l-312d"]
STEPS = (200, 200)
STEPS_OF_POINTS = {"sst2": (1500, 600), "mrpc": (300, 200)}
# Times of different days do not compare, shares of the teacher's time in the same run do.
UNITS = {"milliseconds": "time for one text, share of the teacher's", "megabytes": "MB"}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps(learn("mrpc", "8MB", (5, 5), options)))
        return
    known = json.loads(RESULTS.read_text("utf-8"))
    found: dict[str, Any] = known.get("targets", {})
    for task in options.tasks:
        for name in options.targets:
            steps = STEPS_OF_POINTS[task] if name == "lose2" else STEPS
            found[f"{task}-{name}"] = learn(task, name, steps, options)
            print(task, name, json.dumps(found[f"{task}-{name}"]["models"]), file=sys.stderr)
    RESULTS.write_text(json.dumps(known | {"targets": dict(sorted(found.items()))}, indent=2) + "\n", "utf-8")
    draw(found)
    print(json.dumps(found))


def learn(task: str, name: str, steps: tuple[int, int], options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    stages = zip(("intermediate", "prediction"), steps, strict=True)
    settings = {f"{stage}.training.max_steps": count for stage, count in stages}
    output = options.output_dir / f"{task}-{name}"
    command = ["understudy", "run", str(options.teachers / task), "--recipe", "desk-tinybert-mrpc"]
    command += ["--data", str(options.assets / "glue")]
    command += settings_options({"task": task, "seed": 1, **settings})
    command += ["--target", TARGETS[name], *(TRIED if name == "lose2" else [])]
    metric = TASKS[task]

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        if name == "lose2":
            chosen, models = result["chosen"], {**result["teachers"], **result["students"]}
        else:
            chosen, models = "student, int8", {one["model"]: one for one in result["models"]}
            models = {
                model: {
                    "score": one["scores"][metric],
                    "milliseconds": one["milliseconds"]["1"],
                    "megabytes": one["bytes"] / 1e6,
                }
                for model, one in models.items()
                if model in ("teacher", "teacher, int8", chosen)
            }
        kept = ("score", "difference", "milliseconds", "megabytes")
        return {
            "target": TARGETS[name],
            "chosen": chosen,
            "shape": shape(output) if name != "lose2" else chosen,
            "models": {model: {key: one[key] for key in kept if key in one} for model, one in models.items()},
        }

    return finish([*command, "--output-dir", str(output)], output, describe)


def shape(output: Path) -> str:
    """The layers and the width of a run's student, as in `--student`."""
    config = json.loads((output / "distilled" / "student" / "config.json").read_text("utf-8"))
    return f"{config['num_hidden_layers']}l-{config['hidden_size']}d"


def draw(found: dict[str, Any]) -> None:
    """Score against time and size: a row for each task, teachers in grey, students with their intervals."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(TASKS), 2, figsize=(9, 7), sharey="row")
    for (task, metric), row in zip(TASKS.items(), panels, strict=True):
        for axis, (key, unit) in zip(row, UNITS.items(), strict=True):
            drawn: set[str] = set()
            for name, run in found.items():
                if not name.startswith(f"{task}-"):
                    continue
                for model, one in run["models"].items():
                    is_teacher = model.startswith("teacher")
                    if is_teacher and model in drawn:
                        continue
                    drawn.add(model)
                    score = one["score"]
                    place = one[key] / run["models"]["teacher"][key] if key == "milliseconds" else one[key]
                    label = model if is_teacher else run["shape"] if model == "student, int8" else model
                    if model == run["chosen"]:
                        label += f"\n“{run['target']}”"
                    away = [[score["value"] - score["low"]], [score["high"] - score["value"]]]
                    colour = "0.5" if is_teacher else "C0" if model == run["chosen"] else "C1"
                    axis.errorbar(place, score["value"], away, fmt="o", color=colour, capsize=2)
                    # Teachers below, chosen students above, the others to the left: neighbours may overlap.
                    beside, side = ((6, -18), "left") if is_teacher else ((6, 6), "left")
                    if not is_teacher and model != run["chosen"]:
                        beside, side = (-6, -12), "right"
                    at = (place, score["value"])
                    axis.annotate(label, at, beside, textcoords="offset points", fontsize=8, ha=side)
            axis.set(xscale="log", xlabel=unit, title=NAMES[task])
            axis.xaxis.set_major_formatter("{x:g}")
            axis.margins(x=0.25)
        row[0].set_ylabel(metric)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
