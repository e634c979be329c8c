"""Draw the curves of general distillation from `benchmarks/results` into docs/images/general.svg.

    python benchmarks/curves.py

Each loss on held-out text by layer, over the tokens that were read.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "general.svg"
KINDS = ("embeddings", "attention", "hidden")


def main() -> None:
    run = json.loads((RESULTS / "general_run.json").read_text("utf-8"))
    lines = list(csv.DictReader((RESULTS / "general_held_out.csv").read_text("utf-8").splitlines()))
    tokens_of_a_step = run["tokens"] / run["steps"]
    millions = [0.0, *(int(line["step"]) * tokens_of_a_step / 1e6 for line in lines)]
    matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same figures give the same file
    figure, axes = pyplot.subplots(1, len(KINDS), figsize=(11, 3.4), layout="constrained")
    for kind, axis in zip(KINDS, axes, strict=True):
        for name, held_out in run["held_out"].items():
            if name.startswith(kind):
                values = [held_out["first"], *(float(line[name]) for line in lines)]
                axis.plot(millions, values, label=name.removeprefix(f"{kind}_"))
        axis.set_title(kind if kind == "embeddings" else f"{kind}, by student layer")
        axis.set_yscale("log")
        axis.set_xlabel("million tokens")
        if kind != "embeddings":
            axis.legend()
    axes[0].set_ylabel("loss on held-out text")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
