"""Draw the curves of general distillation from `benchmarks/results` into docs/images/general.svg.

    python benchmarks/curves.py

Plots each loss on held-out text by layer, over the tokens read: from random weights, and (dashed) from a cut
of the pretrained encoder that was fitted to it. Both read Wikipedia, the cut in pairs of segments.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.lines import Line2D

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "general.svg"
STARTS = {"general": "-", "general_cut": "--"}
KINDS = ("embeddings", "attention", "hidden")


def main() -> None:
    matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same figures give the same file
    figure, axes = pyplot.subplots(1, len(KINDS), figsize=(11, 3.4), layout="constrained")
    for kind, axis in zip(KINDS, axes, strict=True):
        for start, style in STARTS.items():
            millions, losses = curves(start)
            for place, name in enumerate(name for name in losses if name.startswith(kind)):
                label = name.removeprefix(f"{kind}_") if style == "-" else None
                axis.plot(millions, losses[name], style, color=f"C{place}", label=label)
        axis.set_title(kind if kind == "embeddings" else f"{kind}, by student layer")
        axis.set_yscale("log")
        axis.set_xlabel("million tokens")
        if kind != "embeddings":
            axis.legend()
    axes[0].set_ylabel("loss on held-out text")
    PICTURE.parent.mkdir(exist_ok=True)
    axes[0].legend([Line2D([], [], linestyle=style) for style in STARTS.values()], ["random", "cut, fitted"])
    figure.savefig(PICTURE, metadata={"Date": None})


def curves(start: str) -> tuple[list[float], dict[str, list[float]]]:
    """Return the millions of tokens read, and each loss on held-out text after them."""
    run = json.loads((RESULTS / f"{start}_run.json").read_text("utf-8"))
    lines = list(csv.DictReader((RESULTS / f"{start}_held_out.csv").read_text("utf-8").splitlines()))
    tokens_of_a_step = run["tokens"] / run["steps"]
    millions = [0.0, *(int(line["step"]) * tokens_of_a_step / 1e6 for line in lines)]
    losses = {
        name: [held_out["first"], *(float(line[name]) for line in lines)]
        for name, held_out in run["held_out"].items()
    }
    return millions, losses


if __name__ == "__main__":
    main()
