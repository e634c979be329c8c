"""Readable summaries of training and data, on standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.cli.console import short_path

if TYPE_CHECKING:
    from understudy.artifacts.upload import Pushed
    from understudy.workspace.result import StageResult


def print_scores(result: StageResult) -> None:
    """Print the scores with their intervals, and the difference if there are two models."""
    content = result.content
    if not content:  # another process of a distributed run
        return
    against, difference = content.get("against"), content.get("difference")
    scored = result.output_dir if content["stage"] == "finetune" else content["model"]
    table = Table(title=f"{content['task']}: {scored}", title_justify="left")
    for heading in ("split", "rows", "metric", "score (95 %)"):
        table.add_column(heading, overflow="fold")
    if against:
        for heading in ("against", "difference (95 %)"):
            table.add_column(heading, overflow="fold")
    for split, metrics in content["scores"].items():
        for name, figure in metrics.items():
            cells = [split, f"{content['counts'][split]['rows']:,}", name, _figure(figure)]
            if against and difference:
                cells.append(f"{against['scores'][split][name]['value']:.3f}")
                cells.append(_figure(difference[split][name], sign=True))
            table.add_row(*cells)
    console = Console(stderr=True)
    console.print(table)
    for split, details in content.get("details", {}).items():
        console.print(f"{split}: " + ", ".join(f"{name} {value:.4f}" for name, value in details.items()))
    if against:
        console.print(f"against: {against['model']}")
        for split, figures in content.get("closeness", {}).items():
            console.print(
                f"{split}, closeness: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
            )
        for split, share in content.get("agreement", {}).items():
            console.print(f"{split}: the same answer on {share:.1%} of the rows")
    if content.get("labels_from") == "teacher":
        console.print("Scores are agreement with the teacher: there are no development labels.")
    if content["stage"] == "distill":
        _print_distillation(console, content)
    elif "seconds" in content:
        console.print(f"{content['steps']:,} steps in {content['seconds']['training'] / 60:.1f} minutes")
    if result.output_dir is not None:
        console.print(f"Everything is in {result.output_dir}")
        if content["stage"] in _NEXT:
            folder = short_path(result.output_dir)
            console.print(f"Next: {_NEXT[content['stage']].format(folder)}", soft_wrap=True, highlight=False)


_NEXT = {
    "finetune": "understudy distill {0} --output-dir {0}-student",
    "distill": "understudy export {0} --output-dir {0}-artifact",
}


def print_students(results: Mapping[str, StageResult]) -> None:
    """Print the scores of several students of one teacher side by side."""
    contents = {name: result.content for name, result in results.items() if result.content}
    if not contents:  # another process of a distributed run
        return
    first = next(iter(contents.values()))
    split = next(iter(first["scores"]))
    table = Table(title=f"{first['task']}, {split}: students of one teacher", title_justify="left")
    for heading in ("student", "parameters", *first["scores"][split]):
        table.add_column(heading, overflow="fold")
    for name, content in contents.items():
        size = f"{content['parameters']['student'] / 1e6:.1f}M"
        table.add_row(name, size, *(_figure(figure) for figure in content["scores"][split].values()))
    if "against" in first:
        size = f"{first['parameters']['teacher'] / 1e6:.1f}M"
        scores = first["against"]["scores"][split].values()
        table.add_row("teacher", size, *(_figure(figure) for figure in scores))
    console = Console(stderr=True)
    console.print(table)
    for name, result in results.items():
        console.print(f"{name} is in {result.output_dir}")


def print_augmented(result: StageResult) -> None:
    """Print a few variants, how many there are, and how many were dropped."""
    counts, console = result.content["augmented"], Console(stderr=True, highlight=False, soft_wrap=True)
    for example in result.content["examples"]:
        console.print(escape(f"  {example['before'][:200]}\n→ {example['after'][:200]}"))
    console.print(
        f"{counts['rows']:,} rows became {counts['written']:,} in {result.content['seconds'] / 60:.1f} "
        f"minutes: {counts['tried']:,} variants were tried, {counts.get('duplicates', 0):,} were there "
        f"already, {counts.get('unchanged', 0):,} changed nothing"
    )
    console.print(
        f"Everything is in {result.output_dir}; distil with --set data.augmented={result.output_dir}"
    )


def print_mined(result: StageResult) -> None:
    """Print a few of the rows, how many there are, and what was dropped."""
    counts, console = result.content["mined"], Console(stderr=True, highlight=False, soft_wrap=True)
    for example in result.content["examples"]:
        texts = [value for name, value in example.items() if name not in ("similarity", "pair")]
        console.print(escape(f"  {example['similarity']:.2f}  {' | '.join(texts)[:200]}"))
    dropped = sum(count for name, count in counts.items() if name.startswith("like_"))
    console.print(
        f"{counts['sentences']:,} sentences were compared with {counts['texts']:,} texts in "
        f"{result.content['seconds'] / 60:.1f} minutes. {dropped:,} near duplicates were dropped; "
        f"{counts['written']:,} of {counts['found']:,} rows were kept"
    )
    if counts["groups"]:
        shown = ", ".join(f"{name}: {count:,}" for name, count in counts["groups"].items())
        console.print(f"The teacher's predictions for them: {shown}")
    rows = result.output_dir / "rows" if result.output_dir is not None else "rows"
    console.print(f"Everything is in {result.output_dir}; distil with --unlabelled {rows}")


def print_corpus(result: StageResult) -> None:
    """Print a summary of the corpus and where it is."""
    counts, console = result.content["corpus"], Console(stderr=True, highlight=False)
    kept, held_out = counts["documents_kept"]["train"], counts["documents_kept"]["held-out"]
    console.print(
        f"{counts['documents']:,} documents: {counts['duplicates']:,} copies and {counts['unreadable']:,} "
        f"empty or unreadable ones left out, {kept:,} to learn from, {held_out:,} held out"
    )
    blocks, tokens = counts["blocks"]["train"], counts["tokens"]["train"]
    full = tokens / max(1, blocks * counts["max_length"])
    console.print(
        f"{blocks:,} blocks of up to {counts['max_length']} tokens, {full:.0%} full: {tokens:,} tokens, "
        f"{counts['bytes'] / 1e6:,.1f} MB, in {result.content['seconds'] / 60:.1f} minutes"
    )
    console.print(f"Everything is in {result.output_dir}; distil with --corpus {result.output_dir}")


def print_general(result: StageResult) -> None:
    """Print what the student learnt of each layer, and how fast."""
    content, console = result.content, Console(stderr=True, highlight=False)
    if not content:  # another process of a distributed run
        return
    if content["held_out"]:
        table = Table(title=f"{short_path(result.output_dir)}: losses on held-out text", title_justify="left")
        for heading in ("term", "before", "after"):
            table.add_column(heading, justify="left" if heading == "term" else "right", overflow="fold")
        for name, figure in content["held_out"].items():
            table.add_row(name, f"{figure['first']:.4g}", f"{figure['last']:.4g}")
        console.print(table)
    seconds = content["seconds"]["training"]
    student, teacher = content["parameters"]["student"], content["parameters"]["teacher"]
    console.print(
        f"{content['steps']:,} steps, {content['tokens']:,} tokens ({content['epochs']:g} epochs) in "
        f"{seconds / 60:.1f} minutes since the last start; {student / 1e6:.1f}M parameters against "
        f"{teacher / 1e6:.1f}M"
    )
    console.print(f"The student is in {content['model']}; start from it with --student {content['model']}")


def print_pushed(result: Pushed) -> None:
    """Print where a folder was uploaded to, and how to use it."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    files = ", ".join(result.files)
    console.print(escape(f"{result.url}: {len(result.files)} files, {result.bytes / 1e6:.1f} MB ({files})"))
    name = result.repo if result.revision == "main" else f"{result.repo}@{result.revision}"
    if result.kind == "artifact":
        console.print(escape(f"Try it:  understudy predict {name} …"))
    if not result.has_license:
        console.print("Its card names no licence: add one on the hub, or as `license:` in README.md.")


def print_ablation(result: StageResult) -> None:
    """Print each table with its seeds, and which of the paper's orders it confirms."""
    console, num_seeds = Console(stderr=True, highlight=False), len(result.content["seeds"])
    for ablation in result.content["tables"].values():
        table = Table(title=f"{ablation['title']} ({ablation['table']})", title_justify="left")
        for heading in ("task", "", "mean (95 %, rows and seeds)", "seeds"):
            table.add_column(heading, overflow="fold")
        for row in ablation["rows"]:
            seeds = ", ".join(f"{value:.3f}" for value in row["seeds"])
            figure = _figure({"value": row["mean"], "low": row["low"], "high": row["high"]})
            table.add_row(row["task"], row["variant"], f"{row['metric']} {figure}", seeds)
        console.print(table)
        for claim in ablation["claims"]:
            console.print(
                f"{claim['task']}: {claim['claim']}: {claim['verdict']}, "
                f"{_figure(claim['difference'], sign=True)}, with {claim['seeds']} of {num_seeds} seeds"
            )
    console.print(f"Everything is in {result.output_dir}: table.md, a picture of each table, every run")


def _print_distillation(console: Console, content: dict[str, Any]) -> None:
    """Print what the student learnt, its size, and how long it took."""
    stages = content["stages"]
    if "intermediate" in stages:
        terms = [
            f"{name} {figure['first']:.3g} → {figure['last']:.3g}"
            for name, figure in stages["intermediate"]["held_out"].items()
        ]
        console.print("Losses on held-out rows, before and after: " + ", ".join(terms), highlight=False)
    for name, stage in stages.items():
        trials = stage.get("trials", ())
        if len(trials) > 1:
            chosen = ", ".join(f"{key} {value}" for key, value in trials[0]["values"].items())
            console.print(f"{name}: best of {len(trials)} trials on the development set: {chosen}")
    for who in content.get("constant", ()):
        console.print(
            f"[yellow]The {who} gives the same answer to every development row: it has learnt nothing.[/]",
            highlight=False,
        )
    student, teacher = content["parameters"]["student"], content["parameters"].get("teacher")
    smaller = f" against {teacher / 1e6:.1f}M: {teacher / student:.1f} times smaller" if teacher else ""
    console.print(f"{student / 1e6:.1f}M parameters{smaller}")
    if "vocabulary" in content:
        from understudy.artifacts.card import describe_vocabulary

        console.print(describe_vocabulary(content["vocabulary"]), highlight=False)
    console.print(
        "; ".join(
            f"{name}: {stage['steps']:,} steps in {stage['seconds']['training'] / 60:.1f} minutes"
            + (" (the best trial)" if len(stage.get("trials", ())) > 1 else "")
            for name, stage in stages.items()
        )
    )
    console.print(f"The student is in {content['model']}")


def _figure(figure: dict[str, float], *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    return f"{figure['value']:{form}} ({figure['low']:{form}}…{figure['high']:{form}})"
