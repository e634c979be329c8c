"""`understudy web`."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.options import OutputOption


def web_command(
    artifact: Annotated[str, typer.Argument(help="Artifact's folder.", show_default=False)],
    output_dir: OutputOption,
    model: Annotated[
        str | None, typer.Option("--model", help="Form to load: int8, int4 or fp32; default: the artifact's.")
    ] = None,
) -> None:
    """Write a web page that runs a student in the visitor's browser.

    `understudy web runs/sst2/artifact --output-dir site`

    `python -m http.server --directory site` shows it on port 8000.

    The page needs only a static file server. It shows its progress while it loads, computes in the
    background, and works without a network after the first visit. The folder can also be imported:
    `import { Predictor } from "./site/student.js"`. Needs npm once, to fetch onnxruntime-web.
    """
    from understudy.web.site import write_site

    site = write_site(artifact, output_dir, model=model)
    total = sum(site.bytes.values()) / 1e6
    typer.echo(
        f"{site.folder}: a first visit loads {total:.1f} MB, {len(site.bytes)} files. Try it: python -m "
        f"http.server --directory {site.folder}",
        err=True,
    )
