"""`understudy bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import JsonOption


def bench_command(
    models: Annotated[
        list[str],
        typer.Argument(help="Model folders and artifacts; ratios are to the first.", show_default=False),
    ],
    batch: Annotated[str, typer.Option("--batch", help="Batch sizes, separated by commas.")] = "1,32",
    lengths: Annotated[
        str, typer.Option("--lengths", help="Text lengths in tokens, separated by commas.")
    ] = "16,64,128",
    threads: Annotated[str, typer.Option("--threads", help="Numbers of threads, separated by commas.")] = "1",
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", help="Folder for result.json and a picture.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the speed, memory and size of models side by side.

    `understudy bench teachers/sst2 artifacts/sst2:int8 --threads 1,2`

    A folder runs in torch; an artifact runs in each of its forms, or in the one after the colon. The models
    take turns, so that other activity on the machine affects all alike. Only times from one run can be
    compared, so a result.json of another run is refused.
    """
    from understudy.cli.checks import check_timed

    given = {"--batch": batch, "--lengths": lengths, "--threads": threads}
    batches, all_lengths, all_threads = (_numbers(text, name) for name, text in given.items())
    check_timed(models)

    from understudy.cli.console import people_on_stderr, print_json
    from understudy.cli.speed_summary import print_bench
    from understudy.stages.bench import bench

    with people_on_stderr():
        result = bench(
            models,
            batches=batches,
            lengths=all_lengths,
            threads=all_threads,
            output_dir=output_dir,
        )
        print_bench(result)
    if as_json:
        print_json(result)


def _numbers(text: str, name: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"{name} must be whole numbers from 1 on with commas between, e.g. 1,32; got {text!r}."
        )
    return [int(part) for part in parts]
