"""Summaries of a whole run: what would fail, what it will cost, and whether it was worth it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.cli.console import short_path

if TYPE_CHECKING:
    from understudy.pipeline.preflight.planned_run import Finding
    from understudy.workspace.result import StageResult


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings of a preflight, or that there are none."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for finding in findings:
        colour = {"error": "red", "warning": "yellow", "note": "cyan"}[finding.level]
        console.print(f"[{colour}]{finding.level} {finding.check}[/]: {escape(finding.message)}")
    if all(finding.level != "error" for finding in findings):
        console.print("Nothing that would fail was found.")


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
        "steps or rows there save most."
    )
    disk, memory = content["disk"], content["memory"]
    console.print(
        f"Disk: {disk['at most'] / 1e6:,.0f} MB at most, {disk['when done'] / 1e6:,.0f} MB when done"
    )
    console.print(
        f"Memory: {memory['measured'] / 1e9:.1f} GB at most in this process; weights, gradients and Adam are "
        f"{memory['weights'] / 1e9:.2f} GB"
    )


def print_run(result: StageResult) -> None:
    """Print teacher against student, and where everything is."""
    from understudy.report.figures import busy_note, headline, main_models, speed_at
    from understudy.report.verdict import next_command
    from understudy.timing.rounds import say_size, short_speed

    content, console = result.content, Console(stderr=True, highlight=False)
    table = Table(title=f"{content['task']}: {result.output_dir}", title_justify="left")
    metrics = list(content["models"][0]["scores"])
    table.add_column("", no_wrap=True)
    # With two metrics, the times for 32 texts do not fit a narrow terminal; they are in the report.
    batches = ("1",) if len(metrics) > 1 and console.width < 90 else ("1", "32")
    for heading in (*metrics, "file", *(f"{batch} text{'s' * (batch != '1')}" for batch in batches)):
        table.add_column(heading, justify="right", overflow="fold")
    for place, one in enumerate(main_models(content)):  # two lines each, for narrow terminals
        smaller = f"[dim]{say_size(one['times_smaller'], '×')}[/]" if place else ""
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
    console.print(headline(content))
    if (busy := busy_note(content)) is not None:
        console.print(busy, style="bold yellow")
    precision = content["precision"]
    console.print(f"Trained in {precision['name']}: {precision['reason']}.", style="dim")
    where = short_path(result.output_dir)
    console.print(f"Report:    {where}/report.html", soft_wrap=True)
    console.print(f"Artifact:  {where}/artifact (int8 and fp32 ONNX, tokenizer, model card)", soft_wrap=True)
    console.print(f"Try it:    understudy predict {where}/artifact …", soft_wrap=True)
    console.print()
    for note in content["notes"]:
        console.print(note, style="bold yellow", soft_wrap=True)
    verdict = content["verdict"]
    colour = {"ready": "green", "close": "yellow", "not ready": "red"}[verdict["level"]]
    console.print(verdict["sentence"], style=f"bold {colour}", soft_wrap=True)
    for cause in verdict["causes"]:
        console.print(cause, soft_wrap=True)
    if verdict["alternative"] is not None:
        style = "bold" if verdict["prefers_teacher"] else None
        console.print(verdict["alternative"], style=style, soft_wrap=True)
    if verdict["steps"]:
        assert result.output_dir is not None  # a run has one
        command = next_command(result.output_dir, verdict["steps"][0], shown=where)
        console.print(f"Next:      {command}", soft_wrap=True)


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
    where = short_path(result.output_dir)
    console.print(f"Report:    {where}/report.html", soft_wrap=True)
    if content["chosen"] is not None:
        console.print(f"Artifact:  {where}/{content['chosen']}/artifact", soft_wrap=True)
    colour = "green" if content["chosen"] is not None else "red"
    console.print(describe_choice(content), style=f"bold {colour}", soft_wrap=True)


def _duration(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
