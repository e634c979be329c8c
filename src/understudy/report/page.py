"""A run as one HTML file: no scripts, no external resources, readable on a phone."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from understudy.data.kind import Kind
from understudy.distillation.runs import LOSSES
from understudy.files import write_atomically
from understudy.kinds.tasks import get_task
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import load_config
from understudy.models.settings import DISTILLED, STUDENT
from understudy.recipe.load import load_recipe
from understudy.report.attention import attention_maps
from understudy.report.charts import attention_grid, attention_pair, bars, loss_curves, scatter, scores
from understudy.report.confidence import confidence_section
from understudy.report.figures import (
    busy_note,
    first_metric,
    headline,
    main_models,
    points,
    shipped_difference,
    shipped_form,
    speed_at,
)
from understudy.report.markup import safe, section, side_by_side, table, with_note
from understudy.report.verdict import next_command
from understudy.timing.rounds import say_size, short_speed
from understudy.workspace.folders import AUGMENTED, EVALUATION, RECIPE, RESULT
from understudy.workspace.predictions import PREDICTIONS, read_predictions

REPORT = "report.html"
_MOST_LABELS = 12  # in a readable confusion matrix
_MOST_ROWS = 12  # of disagreements
_LONGEST = 240  # characters of a text in a table


def write_report(folder: Path, *, teacher: str, summary: Mapping[str, Any]) -> None:
    """Write a run's report.html from the results of its stages in `folder`."""
    distilled = json.loads((folder / DISTILLED / RESULT).read_text("utf-8"))
    rows = read_predictions(folder / EVALUATION / PREDICTIONS, summary["split"])
    sections = [
        _headline(folder, summary),
        _models(summary),
        _answers(summary, distilled, rows),
        _disagreements(rows, get_task(summary["task"]).kind),
        confidence_section(folder, with_teacher=summary["teacher_int8"] is not None),
        _learning(folder / DISTILLED, distilled),
        _attention(folder, teacher, summary, distilled, rows),
        _augmentation(folder),
        _again(folder, summary, distilled),
    ]
    title = f"{summary['task']}: student and teacher"
    body = "\n".join(one for one in sections if one)
    style = (resources.files("understudy") / "report" / "style.css").read_text("utf-8")
    write_atomically(folder / REPORT, PAGE.format(title=html.escape(title), style=style, body=body))


def _headline(folder: Path, summary: Mapping[str, Any]) -> str:
    verdict = summary["verdict"]
    said = " ".join((verdict["sentence"], *verdict["causes"]))
    level = verdict["level"].replace(" ", "-")
    title = f"<h1>{safe(summary['task'])}</h1><p class='verdict {level}'>{safe(said)}</p>"
    if verdict["alternative"] is not None:
        kind = "alternative better" if verdict["prefers_teacher"] else "alternative"
        title += f"<p class='{kind}'>{safe(verdict['alternative'])}</p>"
    if verdict["steps"]:
        command = next_command(folder, verdict["steps"][0], shown=folder.name)
        place = "" if verdict["steps"][0] == command else f" (in the folder that holds {safe(folder.name)})"
        title += f"<p>Next{place}: <code>{safe(command)}</code></p>"
    title += f"<p class=lead>{safe(headline(summary))}</p>"
    busy = busy_note(summary)
    said_too = [*summary["notes"], *([busy] if busy is not None else [])]
    notes = "".join(f"<p class=note>{safe(note)}</p>" for note in said_too)
    return f"{title}{notes}<div class='card figures'>{_choices(summary)}</div>"


def _choices(summary: Mapping[str, Any]) -> str:
    """Show the teacher, the teacher in int8 and the student in int8: score, size and time."""
    metric, shipped = first_metric(summary), shipped_form(summary)
    exported = summary["teacher_int8"] or {}
    differences = {shipped["model"]: shipped_difference(summary)}
    if "difference" in exported:
        differences["teacher, int8"] = exported["difference"][summary["split"]][metric]
    lines = []
    for place, one in enumerate(main_models(summary)):
        score, cells = one["scores"][metric], [safe(one["model"])]
        cells.append(with_note(f"{score['value']:.3f}", f"{score['low']:.3f}–{score['high']:.3f}"))
        difference = differences.get(one["model"])
        if difference is not None:
            value, low, high = (points(difference[name]) for name in ("value", "low", "high"))
            cells.append(with_note(value, f"{low} to {high}"))
        else:
            cells.append("")
        smaller = say_size(one["times_smaller"], "×") if place else ""
        cells.append(with_note(f"{one['bytes'] / 1e6:.1f} MB", smaller))
        faster = short_speed(speed_at(one, "1")) if place else ""
        cells.append(with_note(f"{one['milliseconds']['1']:.1f} ms", faster))
        lines.append(cells)
    return table(["", metric, "points", "file", "one text"], lines)


def _models(summary: Mapping[str, Any]) -> str:
    metrics = list(summary["models"][0]["scores"])
    head = ["", *metrics, "parameters", "file", "1 text", "32 texts"]
    lines = []
    for place, one in enumerate(summary["models"]):
        cells = [with_note(one["model"], one["form"])]
        for metric in metrics:
            figure = one["scores"][metric]
            cells.append(with_note(f"{figure['value']:.3f}", f"{figure['low']:.3f}–{figure['high']:.3f}"))
        cells.append(f"{one['parameters'] / 1e6:.1f}M")
        # The teacher is the reference.
        smaller = say_size(one["times_smaller"], "×") if place else ""
        cells.append(with_note(f"{one['bytes'] / 1e6:.1f} MB", smaller))
        for batch in ("1", "32"):
            low, high = one["quartiles"][batch]
            cpu = f"CPU {one['cpu_milliseconds'][batch]:.1f} ms"
            faster = short_speed(speed_at(one, batch)) if place else ""
            median = f"{one['milliseconds'][batch]:.1f} ms"
            cells.append(with_note(median, f"{low:.1f}–{high:.1f}", cpu, faster))
        lines.append(cells)
    machine = summary["machine"]
    note = (
        f"Scores on {summary['counts'][summary['split']]['rows']:,} rows of {summary['split']} with "
        f"bootstrap intervals; medians and quartiles on texts of {summary['length']} tokens, one thread, "
        f"{machine['processor']}, all in one measurement, in turns; times faster are medians of the ratios "
        "of each turn. Points are against the teacher, row by row, with their 95 % interval."
    )
    figures = f"<div class=figures>{table(head, lines)}</div>"
    return section("Student and teacher", f"{side_by_side(_bars(summary))}{figures}<p>{safe(note)}</p>")


def _bars(summary: Mapping[str, Any]) -> list[str]:
    """Draw score, time and size of the models to choose from."""
    models, metric = main_models(summary), first_metric(summary)
    names = [one["model"] for one in models]
    busy = any(one["busy"]["1"] for one in models)
    times = [one["cpu_milliseconds" if busy else "milliseconds"]["1"] for one in models]
    title = "one text, CPU time (busy)" if busy else "one text"
    return [
        scores(names, [one["scores"][metric] for one in models], metric=metric),
        bars(names, times, unit="ms", title=title),
        bars(names, [one["bytes"] / 1e6 for one in models], unit="MB", title="file"),
    ]


def _learning(folder: Path, distilled: Mapping[str, Any]) -> str:
    parts = [f"<p>{safe(_rows_learnt_from(distilled['counts']))}</p>"]
    for name in distilled["stages"]:
        file = folder / name / LOSSES
        curves = loss_curves(file) if file.is_file() else {}
        if curves:
            parts.append(f"<h3>{safe(name)}</h3>{side_by_side(list(curves.values()), 'small')}")
    held_out = distilled["stages"].get("intermediate", {}).get("held_out", {})
    if held_out:
        lines = [
            [
                safe(name),
                f"{one['first']:.4g}",
                f"{one['last']:.4g}",
                f"{one['first'] / max(1e-12, one['last']):.1f}×",
            ]
            for name, one in held_out.items()
        ]
        parts.append("<h3>On rows that no step learns from</h3>")
        parts.append(
            "<p>How far the student is from its teacher, before and after: its embeddings (Eq. 9), and at "
            "each of its layers the attention scores (Eq. 7) and hidden states (Eq. 8).</p>"
        )
        parts.append(table(["loss", "before", "after", "nearer"], lines))
    return section("What it learnt", "".join(parts))


def _rows_learnt_from(counts: Mapping[str, Any]) -> str:
    names = {"train": "labelled rows", "unlabelled": "rows without labels"}
    shown = [f"{counts[split]['rows']:,} {name}" for split, name in names.items() if split in counts]
    return f"Learnt from {' and '.join(shown)}."


def _attention(
    folder: Path,
    teacher: str,
    summary: Mapping[str, Any],
    distilled: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> str:
    texts_of = get_task(summary["task"]).kind.texts
    texts = [
        text
        for text in map(texts_of, rows)
        if text and len(text) <= 2 and 4 <= sum(len(one.split()) for one in text) <= 14
    ][:2]
    student = str(folder / DISTILLED / STUDENT)
    paired = _paired(student, teacher, distilled)
    if not paired:
        return ""
    maps = attention_maps(
        student, teacher, get_task(summary["task"]), distilled["labels"], texts, paired=paired
    )
    parts = []
    for text, one in zip(texts, maps, strict=False):
        names = [f"{student} ← {other}" for student, other in one.pairs]
        pair = attention_pair(one.student[-1], one.teacher[-1], one.tokens)
        parts.append(
            f"<h3>{safe(' ⁄ '.join(text))}</h3>"
            f"<div class=wide>{attention_grid(one.student, one.teacher, names)}</div>"
            f"{side_by_side([pair['teacher'], pair['student']])}"
        )
    note = (
        "<p>Attention probabilities, averaged over heads, teacher above and student below; a row looks at "
        "its columns. Titles are student layer ← teacher layer; the large ones are the last pair.</p>"
    )
    return section("What they look at", note + "".join(parts)) if parts else ""


def _paired(student: str, teacher: str, distilled: Mapping[str, Any]) -> Sequence[int]:
    """Return the teacher layer that each student layer learnt from, or evenly spaced ones if none."""
    for name in ("intermediate", "joint"):
        learnt: Sequence[int] | None = distilled["stages"].get(name, {}).get("layer_map")
        if learnt is not None:
            return learnt
    counts = [load_config(name).num_hidden_layers for name in (student, teacher)]
    return layer_map("uniform", *counts) if counts[0] <= counts[1] else ()


def _answers(
    summary: Mapping[str, Any], distilled: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> str:
    task, labels = get_task(summary["task"]), distilled["labels"]
    if task.kind.picture == "scatter":
        picture = scatter(
            *([float(row[name]) for row in rows] for name in ("label", "prediction", "against"))
        )
        return section("Answers", side_by_side([picture]))
    if task.kind.picture != "confusion" or not labels or len(labels) > _MOST_LABELS:
        return ""
    tables = []
    for who, field in (("teacher", "against"), ("student", "prediction")):
        counts = Counter((row["label"], row[field]) for row in rows)
        lines = []
        for meant in labels:
            total = max(1, sum(counts[meant, said] for said in labels))
            cells = [
                f"<td style='--share:{counts[meant, said] / total:.3f}' class='share "
                f"{'right' if said == meant else ''}'>"
                f"{counts[meant, said]:,}</td>"
                for said in labels
            ]
            lines.append(f"<tr><th>{safe(meant)}</th>{''.join(cells)}</tr>")
        head = "".join(f"<th>{safe(said)}</th>" for said in labels)
        tables.append(
            f"<div class=scroll><table class=confusion><caption>{who} in fp32: label ↓, answer →</caption>"
            f"<tr><th></th>{head}</tr>{''.join(lines)}</table></div>"
        )
    return section("Answers", f"<div class=pictures>{''.join(tables)}</div>")


def _disagreements(rows: Sequence[Mapping[str, Any]], kind: Kind) -> str:
    """List rows on which student and teacher differ, those that the teacher gets right first."""
    differ = [row for row in rows if row["prediction"] != row["against"]]
    if not differ:
        return ""
    is_numbers = all(isinstance(row["prediction"], float) for row in rows)
    if is_numbers:
        differ = sorted(differ, key=lambda row: -abs(row["prediction"] - row["against"]))
    else:
        differ = sorted(differ, key=lambda row: kind.gold(row) != row["against"])
    lines = [
        [
            safe(_shown(row, kind)),
            *(safe(_cut(_value(one))) for one in (kind.gold(row), row["against"], row["prediction"])),
        ]
        for row in differ[:_MOST_ROWS]
    ]
    note = f"{len(differ):,} of {len(rows):,} rows"
    if len(differ) > _MOST_ROWS:
        order = "those furthest apart" if is_numbers else "first those that the teacher gets right"
        note += f", {_MOST_ROWS} of them here ({order}); all are in {EVALUATION}/{PREDICTIONS}"
    return section(
        "Where they disagree",
        f"<p>{safe(note)}.</p>" + table(["row", "label", "teacher", "student"], lines),
    )


def _augmentation(folder: Path) -> str:
    file = folder / AUGMENTED / RESULT
    if load_recipe(folder / RECIPE).augment is None or not file.is_file():
        return ""
    content = json.loads(file.read_text("utf-8"))
    lines = [[safe(_cut(one["before"])), safe(_cut(one["after"]))] for one in content["examples"]]
    counts = content["augmented"]
    note = f"{counts['rows']:,} rows became {counts['written']:,}."
    return section("Augmented rows", f"<p>{note}</p>" + table(["before", "after"], lines))


def _again(folder: Path, summary: Mapping[str, Any], distilled: Mapping[str, Any]) -> str:
    recipe = (folder / RECIPE).read_text("utf-8")
    command = f"understudy run --recipe {folder.name}/{RECIPE} --output-dir {folder.name}"
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    hashes = [[safe(name), f"<code>{safe(str(value))}</code>"] for name, value in distilled["hashes"].items()]
    parts = [
        f"<pre>{safe(command)}</pre>",
        f"<p>Run this in the folder that holds {safe(folder.name)}. {safe(RECIPE)} is:</p>",
        f"<details><summary>Recipe</summary><pre>{safe(recipe)}</pre></details>",
        "<details><summary>Hashes of what it was made from</summary>",
        table(["input", "hash"], hashes),
        f"</details><p>Seed {summary['seed']}. {safe(versions)}.</p>",
    ]
    return section("Do it again", "".join(parts))


def _shown(row: Mapping[str, Any], kind: Kind) -> str:
    return " ⁄ ".join(_cut(text) for text in kind.texts(row))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""
