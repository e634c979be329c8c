"""The charts of a report, as SVG text to embed in the page."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

# One hue from light to dark for layers, and two distinct ones for student and teacher.
_LAYERS = mpl.colormaps["viridis"]
STUDENT_COLOUR, TEACHER_COLOUR = "#0b7a75", "#7b2d8b"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small and searchable
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888",
    "axes.titlesize": 11,
    "svg.hashsalt": "understudy",  # the same figures give the same text
}


def loss_curves(file: Path) -> dict[str, str]:
    """Plot losses over steps, one chart per kind of term with a line per layer."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if len(rows) < 2:
        return {}
    kinds: dict[str, list[str]] = {}
    for name in rows[0]:
        if name not in ("step", "epoch", "loss"):
            kinds.setdefault(re.sub(r"_\d+$", "", name), []).append(name)
    steps = [float(row["step"]) for row in rows]
    return {
        kind: _curves(kind, steps, {name: [float(row[name]) for row in rows] for name in names})
        for kind, names in kinds.items()
    }


def _curves(title: str, steps: Sequence[float], lines: Mapping[str, Sequence[float]]) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.add_subplot()
        for place, (name, values) in enumerate(lines.items()):
            colour = _LAYERS(0.15 + 0.7 * place / max(1, len(lines) - 1))
            layer = re.search(r"\d+$", name)
            axes.plot(steps, values, color=colour, label=f"layer {layer[0]}" if layer else None)
        lowest, highest = (pick(map(pick, lines.values())) for pick in (min, max))
        if 0 < 10 * lowest < highest:  # a narrower range reads better on a linear scale
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(title, loc="left")
        axes.set_xlabel("step")
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8)
        return _svg(figure, f"{title} over steps")


def attention_grid(
    student: Sequence[NDArray[Any]], teacher: Sequence[NDArray[Any]], names: Sequence[str]
) -> str:
    """Plot the mean attention of paired layers, teacher above student.

    Args:
        student, teacher: an L × L matrix for each pair.
        names: the names of the pairs.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(1.6 * len(names) + 0.5, 3.6), layout="constrained")
        grid = figure.subplots(2, len(names), squeeze=False)
        for column, name in enumerate(names):
            top = max(float(one[column].max()) for one in (student, teacher))
            for line, (who, maps) in enumerate((("teacher", teacher), ("student", student))):
                axes = grid[line][column]
                axes.imshow(maps[column], cmap="Purples", vmin=0, vmax=top, rasterized=True)
                axes.set_xticks([])
                axes.set_yticks([])
                if line == 0:
                    axes.set_title(name, fontsize=9)
                if column == 0:
                    axes.set_ylabel(who)
        return _svg(figure, "attention of teacher and student, layer by layer")


def attention_pair(student: NDArray[Any], teacher: NDArray[Any], tokens: Sequence[str]) -> dict[str, str]:
    """Plot the mean attention of the last layers, each with its tokens."""
    made, top = {}, max(float(student.max()), float(teacher.max()))
    for who, matrix in (("teacher", teacher), ("student", student)):
        with mpl.rc_context(_STYLE):
            size = 1.4 + 0.2 * len(tokens)
            figure = Figure(figsize=(size, size), layout="constrained")
            axes = figure.add_subplot()
            axes.imshow(matrix, cmap="Purples", vmin=0, vmax=top, rasterized=True)
            # Dollar signs in a token are not formulas.
            axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8, parse_math=False)
            axes.set_yticks(range(len(tokens)), tokens, fontsize=8, parse_math=False)
            axes.set_title(who, loc="left")
            made[who] = _svg(figure, f"attention of the {who}'s last layer")
    return made


def scatter(labels: Sequence[float], student: Sequence[float], teacher: Sequence[float]) -> str:
    """Plot predicted numbers against labels."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, values, colour in (
            ("teacher", teacher, TEACHER_COLOUR),
            ("student", student, STUDENT_COLOUR),
        ):
            axes.scatter(labels, values, s=6, alpha=0.4, color=colour, label=name, rasterized=True)
        axes.set_xlabel("label")
        axes.set_ylabel("predicted")
        axes.legend(frameon=False)
        return _svg(figure, "predicted numbers against labels")


def reliability(
    before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]], *, title: str
) -> str:
    """Plot accuracy against confidence, before and after calibration. Larger dots represent more rows."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="#bbb", linewidth=1, linestyle="--")
        for name, bins, colour in (("before", before, "#999"), ("after", after, _colour(title))):
            total = sum(one["count"] for one in bins)
            sizes = [10 + 300 * one["count"] / total for one in bins]
            confidence, accuracy = ([one[side] for one in bins] for side in ("confidence", "accuracy"))
            axes.scatter(confidence, accuracy, s=sizes, color=colour, alpha=0.6, label=name)
        axes.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="probability", ylabel="share that is right")
        axes.set_title(title, loc="left")
        axes.legend(frameon=False, loc="upper left", markerscale=0.5)
        return _svg(figure, f"reliability of the {title}, before and after calibration")


def bars(names: Sequence[str], values: Sequence[float], *, unit: str, title: str) -> str:
    """Plot one bar per model, with its value next to it."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 0.6 + 0.42 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        colours = [_colour(name) for name in names]
        drawn = axes.barh(range(len(names)), values, color=colours, height=0.6)
        digits = 1 if max(values) >= 10 else 2
        axes.bar_label(drawn, [f"{value:,.{digits}f} {unit}" for value in values], padding=4, fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_xlim(0, 1.3 * max(values))
        axes.set_title(title, loc="left")
        return _svg(figure, title)


def scores(names: Sequence[str], figures: Sequence[Mapping[str, float]], *, metric: str) -> str:
    """Plot a bar for each model's score with its 95 % interval, on an axis that starts at 0.

    Args:
        figures: `value`, `low` and `high` of each model.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 0.95 + 0.42 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        for place, (name, one) in enumerate(zip(names, figures, strict=True)):
            axes.barh(place, one["value"], color=_colour(name), height=0.6)
            axes.plot([one["low"], one["high"]], [place, place], color="#1c1b22", linewidth=1.5)
            right = max(0.0, one["value"], one["high"])
            axes.text(right + 0.03, place, f"{one['value']:.3f}", va="center", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"], fontsize=8)
        axes.set_xlim(min(0.0, *(one["low"] for one in figures)), 1.25)
        axes.spines["bottom"].set_bounds(axes.get_xlim()[0], 1.0)
        axes.set_title(metric, loc="left")
        return _svg(figure, f"{metric} with 95 % intervals")


def frontier(
    models: Mapping[str, tuple[float, Mapping[str, float]]], *, chosen: str | None, axis: str, metric: str
) -> str:
    """Plot score against cost: a dot with its 95 % interval for each model, and a ring around the chosen one.

    Args:
        models: the cost of each, and its score with `value`, `low` and `high`.
        axis: what the cost is.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for place, (name, (cost, score)) in enumerate(models.items()):
            axes.plot([cost, cost], [score["low"], score["high"]], color=_colour(name), alpha=0.4)
            axes.plot(cost, score["value"], "o", color=_colour(name))
            # Neighbours often have the same score, so names are placed above and below in turn.
            spot = (7, 5 if place % 2 else -11)
            axes.annotate(name, (cost, score["value"]), xytext=spot, textcoords="offset points", fontsize=8)
            if name == chosen:
                axes.plot(cost, score["value"], "o", markersize=14, fillstyle="none", color=STUDENT_COLOUR)
        axes.set_xscale("log")
        axes.margins(x=0.3, y=0.1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set(xlabel=axis, ylabel=metric)
        return _svg(figure, f"{metric} against {axis}")


def _colour(name: str) -> str:
    return TEACHER_COLOUR if name.startswith("teacher") else STUDENT_COLOUR


def intervals(
    rows: Sequence[tuple[str, str, float, float, float]], *, metrics: Mapping[str, str], title: str
) -> Figure:
    """Plot a dot with its interval for each row (group, name, value, low, high), in a panel per group.

    Args:
        metrics: the metric of each group.
    """
    groups = list(dict.fromkeys(row[0] for row in rows))
    with mpl.rc_context(_STYLE):
        count = max(sum(row[0] == group for row in rows) for group in groups)
        figure = Figure(figsize=(4.0 * len(groups), 1.0 + 0.34 * count), layout="constrained")
        for place, group in enumerate(groups):
            axes = figure.add_subplot(1, len(groups), place + 1)
            chosen = [row for row in rows if row[0] == group]
            for line, (_, _, value, low, high) in enumerate(chosen):
                colour = TEACHER_COLOUR if line == 0 else STUDENT_COLOUR
                axes.plot([low, high], [line, line], color=colour, linewidth=2, alpha=0.5)
                axes.plot(value, line, "o", color=colour)
            axes.set_yticks(range(len(chosen)), [row[1] for row in chosen])
            axes.invert_yaxis()
            axes.set_xlabel(metrics[group])
            axes.set_title(group, loc="left")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def _svg(figure: Figure, label: str) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, dpi=110, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # Make ids unique, since a page holds several charts.
    salt = f"f{zlib.crc32(svg.encode()):x}"
    svg = re.sub(r'(id="|url\(#|href="#)', lambda found: f"{found[1]}{salt}-", svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
