"""Plot score against latency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_MARKERS = "osD^vPX*<>"


def draw(points: Sequence[tuple[str, float, float]], *, metric: str, title: str, path: Path) -> None:
    """Plot name, milliseconds and score of each model to an SVG file; faster is further left."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    with pyplot.rc_context({"svg.hashsalt": "understudy"}):  # the same figures give the same file
        figure, axes = pyplot.subplots(figsize=(8.5, 3.8), layout="constrained")
        for place, (name, milliseconds, score) in enumerate(points):
            marker = _MARKERS[place % len(_MARKERS)]
            # Names go in a legend: next to points that are close together they would overlap.
            axes.scatter(
                milliseconds, score, s=70, marker=marker, color=f"C{place % 10}", label=name, zorder=3
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.15)
        # A small difference must look small. Half is chance for two classes.
        scores = [score for _, _, score in points]
        axes.set_ylim(0.5 if min(scores) >= 0.5 else min(0.0, *scores), 1.0)
        axes.set_xlabel("milliseconds for one pass, median")
        axes.set_ylabel(metric)
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", fontsize=9, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
