"""Summaries of forms and models with their sizes and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from understudy.workspace.result import StageResult


def print_bench(result: StageResult) -> None:
    """Print the size and memory of each model, then its times, and the machine."""
    from understudy.timing.rounds import say_size, short_speed

    content, console = result.content, Console(stderr=True, highlight=False)
    models, rows = content["models"], content["rows"]
    table = Table(title="Size", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("model, form, parameters", overflow="fold")
    for heading in ("file", "peak memory", "score"):
        table.add_column(heading, justify="left" if heading == "score" else "right")
    shown = _last_parts(models)
    for name, one in models.items():  # two lines each, for narrow terminals
        size = say_size(one["times_smaller"], "×") if name != next(iter(models)) else ""
        table.add_row(
            f"{shown[name]}\n[dim]{one['form']}, {one['parameters'] / 1e6:.1f}M[/]",
            f"{one['bytes'] / 1e6:.1f} MB\n[dim]{size}[/]",
            f"{one['peak_memory'] / 1e6:,.0f} MB",
            "\n".join(f"{metric} {value:.3f}" for metric, value in one["scores"].items()),
        )
    console.print(table)
    table = Table(title="Speed", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    for heading in ("median", "p95", "CPU time", "speed"):
        table.add_column(heading, justify="right", no_wrap=True)
    shape = None
    for row in rows:
        if shape != (shape := (row["threads"], row["batch"], row["length"])):
            threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
            table.add_row(f"[bold]{row['batch']} × {row['length']} tokens, {threads}[/]")
        table.add_row(
            f"{shown[row['model']]}\n[dim]{row['flop'] / 1e6:,.0f} MFLOP[/]",
            f"{row['median_ms']:.2f} ms\n[dim]{_range(row['quartiles_ms'])}[/]",
            f"{row['p95_ms']:.2f} ms",
            f"{row['cpu_ms']:.2f} ms\n[dim]{_range(row['cpu_quartiles_ms'])}[/]",
            f"{short_speed(row) if row['model'] != next(iter(models)) else ''}\n"
            f"[dim]{row['texts_per_second']:,.0f} texts/s[/]",
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


_BUSY = (
    "The machine was busy: some passes waited for a core, or times differ too much from round to round. "
    "CPU times are less affected. For wall times, measure again when nothing else runs."
)


def _range(quartiles: Sequence[float]) -> str:
    return "–".join(f"{one:,.0f}" if one >= 100 else f"{one:.3g}" for one in quartiles)


def _last_parts(names: Iterable[str]) -> dict[str, str]:
    """Shorten paths to their last parts if those differ, to fit into a table."""
    short = {name: Path(name).name for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in short}
