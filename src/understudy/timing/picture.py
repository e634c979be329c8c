"""Score against latency, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(points: Sequence[tuple[str, float, float]], *, metric: str, title: str, path: Path) -> None:
    """Name, milliseconds and score of each model, to an SVG file; faster is further left."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "understudy", "font.family": "sans-serif"}):
        figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        for place, (name, milliseconds, score) in enumerate(points):
            axes.scatter(milliseconds, score, s=60, color=f"C{place % 10}", zorder=3)
            axes.annotate(name, (milliseconds, score), xytext=(7, 5), textcoords="offset points", fontsize=9)
        axes.set_xscale("log")
        axes.margins(x=0.25, y=0.2)
        axes.set_xlabel("milliseconds for one text, median (log scale)")
        axes.set_ylabel(metric)
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
