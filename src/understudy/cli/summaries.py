"""Summaries of results for people, on standard error."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from understudy.artifacts.upload import Pushed
    from understudy.pipeline.preflight.planned_run import Finding
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


def print_choice(result: StageResult) -> None:
    """Print what each of several students costs and loses, and which was chosen."""
    from understudy.report.figures import points
    from understudy.report.frontier import describe_choice

    content, console = result.content, Console(stderr=True, highlight=False)
    table = Table(title=f"{content['task']}: {result.output_dir}", title_justify="left")
    for heading in ("", content["metric"], "points (95 %)", "file", "1 text"):
        table.add_column(heading, justify="left" if not heading else "right", overflow="fold")
    for name, one in {**content["teachers"], **content["students"]}.items():
        lost = ""
        if "difference" in one:
            value, low, high = (points(one["difference"][side]) for side in ("value", "low", "high"))
            lost = f"{value} ({low} to {high})"
        size, time = f"{one['megabytes']:.1f} MB", f"{one['milliseconds']:.1f} ms"
        shown = f"[bold green]{name}[/]" if name == content["chosen"] else name
        table.add_row(shown, f"{one['score']['value']:.3f}", lost, size, time)
    console.print(table)
    where = _short(result.output_dir)
    console.print(f"Report:    {where}/report.html", soft_wrap=True)
    if content["chosen"] is not None:
        console.print(f"Artifact:  {where}/{content['chosen']}/artifact", soft_wrap=True)
    colour = "green" if content["chosen"] is not None else "red"
    console.print(describe_choice(content), style=f"bold {colour}", soft_wrap=True)


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
        table = Table(title=f"{_short(result.output_dir)}: losses on held-out text", title_justify="left")
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


def print_plan(content: dict[str, Any]) -> None:
    """Print the cost of a run: its parts, then hours, disk and memory."""
    console = Console(stderr=True, highlight=False)
    table = Table(title="What it will cost", title_justify="left")
    for heading in ("part", "steps", "tokens", "FLOP", "time here"):
        table.add_column(heading, justify="left" if heading == "part" else "right", overflow="fold")
    for part in content["parts"]:
        steps = f"{part['steps']:,}" if part["steps"] else ""
        flop = f"{part['flop']:.2g}" if part["flop"] else ""
        table.add_row(part["name"], steps, f"{part['tokens']:.3g}", flop, _duration(part["seconds"] / 3600))
    console.print(table)
    hours, assumed = content["hours"], content["assumed"]
    console.print(f"This machine, measured: {_duration(hours['this machine'])}")
    for name, figure in assumed.items():
        if content["flop"]:
            console.print(
                f"{name}, computed: {_duration(hours[name])} at {figure['share']:.0%} of "
                f"{figure['flop_per_second'] / 1e12:g} TFLOP/s in {figure['precision']}"
            )
    seconds = {part["name"]: part["seconds"] for part in content["parts"]}
    longest = max(seconds, key=lambda name: seconds[name])
    console.print(
        f"Most of it, {seconds[longest] / (sum(seconds.values()) or 1):.0%}, is {longest}: fewer "
        "steps or rows of it take less."
    )
    disk, memory = content["disk"], content["memory"]
    console.print(
        f"Disk: {disk['at most'] / 1e6:,.0f} MB at most, {disk['when done'] / 1e6:,.0f} MB when done"
    )
    console.print(
        f"Memory: {memory['measured'] / 1e9:.1f} GB at most in this process; weights, gradients and Adam are "
        f"{memory['weights'] / 1e9:.2f} GB"
    )


def print_exported(result: StageResult) -> None:
    """Print each form with its score, size and speed, and the result of the gate."""
    from understudy.artifacts.gate import describe_loss

    content, console = result.content, Console(stderr=True, highlight=False)
    speed = content["details"].get("speed", {"rows": []})["rows"]
    forms = {"fp32 (torch)": {"bytes": None, "scores": content["details"]["torch"]}}
    forms |= {f"{name} ({one['engine']})": one for name, one in content["models"].items()}
    table = Table(title=f"{content['task']}: {result.output_dir}", title_justify="left")
    split, metrics = next(iter(content["details"]["torch"].items()))
    times = [(row["batch"], row["length"]) for row in speed if row["form"] == "fp32 (torch)"]
    headings = ["form", *metrics, "file", *(f"{batch} × {length} tokens" for batch, length in times)]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "form" else "right", overflow="fold")
    for name, form in forms.items():
        cells = [name, *(f"{form['scores'][split][metric]['value']:.3f}" for metric in metrics)]
        cells.append(f"{form['bytes'] / 1e6:.1f} MB" if form["bytes"] else "")
        cells += [f"{row['median_ms']:.2f} ms" for row in speed if row["form"] == name]
        table.add_row(*cells)
    console.print(table)
    parity = content["details"]["gate"]["fp32"]
    console.print(f"fp32: at most {parity['max_difference']:.1e} from torch on {parity['rows']:,} rows")
    for name, gate in content["details"]["gate"].items():
        if name != "fp32":
            last = gate["tried"][-1]
            kept = f"; in fp32: {', '.join(last['kept_in_fp32'])}" if last["kept_in_fp32"] else ""
            console.print(f"{name}: against fp32, {describe_loss(last, gate['tolerance'])}{kept}")
    console.print(f"Everything is in {result.output_dir}; try understudy predict {result.output_dir} …")


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


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings of a preflight, or that there are none."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for finding in findings:
        colour = {"error": "red", "warning": "yellow", "note": "cyan"}[finding.level]
        console.print(f"[{colour}]{finding.level} {finding.check}[/]: {escape(finding.message)}")
    if all(finding.level != "error" for finding in findings):
        console.print("Nothing that would fail was found.")


def print_run(result: StageResult) -> None:
    """Print teacher against student, and where everything is."""
    from understudy.report.figures import busy_note, headline, main_models, speed_at
    from understudy.timing.rounds import short_speed

    content, console = result.content, Console(stderr=True, highlight=False)
    table = Table(title=f"{content['task']}: {result.output_dir}", title_justify="left")
    metrics = list(content["models"][0]["scores"])
    table.add_column("", no_wrap=True)
    # With two metrics, times of 32 texts do not fit a narrow terminal; they are in the report.
    batches = ("1",) if len(metrics) > 1 and console.width < 90 else ("1", "32")
    for heading in (*metrics, "file", *(f"{batch} text{'s' * (batch != '1')}" for batch in batches)):
        table.add_column(heading, justify="right", overflow="fold")
    for place, one in enumerate(main_models(content)):  # two lines each, for narrow terminals
        smaller = f"[dim]{one['times_smaller']:.1f}× smaller[/]" if place else ""
        faster = {b: f"[dim]{short_speed(speed_at(one, b))}[/]" if place else "" for b in one["busy"]}
        scores = [one["scores"][name] for name in metrics]
        table.add_row(
            f"{one['model']}\n[dim]{one['parameters'] / 1e6:.1f}M parameters[/]",
            *(f"{score['value']:.3f}\n[dim]{score['low']:.3f}–{score['high']:.3f}[/]" for score in scores),
            f"{one['bytes'] / 1e6:.1f} MB\n{smaller}",
            *(f"{one['milliseconds'][batch]:.1f} ms\n{faster[batch]}" for batch in batches),
            end_section=True,
        )
    console.print(table)
    precision = content["precision"]
    console.print(f"Trained in {precision['name']}: {precision['reason']}.", style="dim")
    for note in content["notes"]:
        console.print(note, style="bold yellow")
    console.print(headline(content))
    if (busy := busy_note(content)) is not None:
        console.print(busy, style="bold yellow")
    where = _short(result.output_dir)
    console.print(f"Report:    {where}/report.html", soft_wrap=True)
    console.print(f"Artifact:  {where}/artifact (int8 and fp32 ONNX, tokenizer, model card)", soft_wrap=True)
    console.print(f"Try it:    understudy predict {where}/artifact …", soft_wrap=True)
    verdict = content["verdict"]
    for cause in verdict["causes"]:
        console.print(cause, soft_wrap=True)
    colour = {"ready": "green", "close": "yellow", "not ready": "red"}[verdict["level"]]
    console.print(verdict["sentence"], style=f"bold {colour}", soft_wrap=True)
    if verdict["alternative"] is not None:
        style = "bold" if verdict["prefers_teacher"] else None
        console.print(verdict["alternative"], style=style, soft_wrap=True)
    if verdict["steps"]:
        assert result.output_dir is not None  # a run has one
        console.print(f"Next:      {next_command(result.output_dir, verdict['steps'][0])}", soft_wrap=True)


def next_command(folder: Path, step: str) -> str:
    """Return the command that repeats a run with one more option, in a folder of its own.

    The teacher is taken as it is, unless the option gives it more rows to learn from.
    """
    from understudy.workspace.folders import TEACHER

    if not step.startswith("--"):
        return step
    number = next(number for number in itertools.count(2) if not Path(f"{folder}-{number}").exists())
    has_teacher = (folder / TEACHER).is_dir() and "data.max_rows" not in step
    model = f" {_short(folder / TEACHER)}" if has_teacher else ""
    return (
        f"understudy run{model} --recipe {_short(folder)}/recipe.yaml {step} "
        f"--output-dir {_short(folder)}-{number}"
    )


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


def _short(path: Path | None) -> str:
    """Return a path relative to the current folder if it lies below it."""
    assert path is not None
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def print_bench(result: StageResult) -> None:
    """Print the size and memory of each model, then its times, and the machine."""
    from understudy.timing.rounds import short_speed

    content, console = result.content, Console(stderr=True, highlight=False)
    models, rows = content["models"], content["rows"]
    table = Table(title="Size", title_justify="left")
    for heading in ("model", "form", "file", "smaller", "parameters", "peak memory", "score"):
        table.add_column(heading, overflow="fold")
    shown = _last_parts(models)
    for name, one in models.items():
        scores = ", ".join(f"{metric} {value:.3f}" for metric, value in one["scores"].items())
        size, memory = f"{one['bytes'] / 1e6:.1f} MB", f"{one['peak_memory'] / 1e6:,.0f} MB"
        smaller, parameters = f"{one['times_smaller']:.1f}×", f"{one['parameters'] / 1e6:.1f}M"
        table.add_row(shown[name], one["form"], size, smaller, parameters, memory, scores)
    console.print(table)
    table = Table(title="Speed", title_justify="left")
    table.add_column("texts × tokens")
    table.add_column("model", overflow="fold")
    for heading in ("median", "95 %", "CPU time", "speed, texts/s"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:  # two lines each, for narrow terminals
        threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
        table.add_row(
            f"{row['batch']} × {row['length']}\n[dim]{threads}[/]",
            f"{shown[row['model']]}\n[dim]{row['flop'] / 1e6:,.0f} MFLOP[/]",
            f"{row['median_ms']:.2f} ms\n[dim]{_range(row['quartiles_ms'])}[/]",
            f"{row['p95_ms']:.2f} ms",
            f"{row['cpu_ms']:.2f} ms\n[dim]{_range(row['cpu_quartiles_ms'])}[/]",
            f"{short_speed(row) if row['model'] != next(iter(models)) else ''}\n"
            f"[dim]{row['texts_per_second']:,.0f}/s[/]",
            end_section=row["model"] == list(models)[-1],
        )
    console.print(table)
    machine = content["machine"]
    can = f", {' '.join(machine['flags'])}" if machine["flags"] else ""
    console.print(
        f"On {machine['processor']}, {machine['cores']} cores{can}. Ratios are to {next(iter(models))}, in "
        "this run alone."
    )
    if any(row["busy"] for row in rows):
        console.print(_BUSY, style="bold yellow")
    if result.output_dir is not None:
        console.print(f"Everything is in {result.output_dir}")
        if content.get("picture") is None:
            console.print("No picture of score against latency: fewer than two of them have a score.")


def _range(quartiles: Sequence[float]) -> str:
    return "–".join(f"{one:,.0f}" if one >= 100 else f"{one:.3g}" for one in quartiles)


_BUSY = (
    "The machine was busy: some passes waited for a core, or times differ too much from round to round. "
    "CPU times are less affected. For wall times, measure again when nothing else runs."
)


def _last_parts(names: Iterable[str]) -> dict[str, str]:
    """Shorten paths to their last parts if those differ, to fit into a table."""
    short = {name: Path(name).name for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


def _duration(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"


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
