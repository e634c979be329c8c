"""`understudy serve`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from understudy.hardware import num_cores


def serve_command(
    artifacts: Annotated[
        list[str],
        typer.Argument(help="Artifact's folder; several as NAME=FOLDER.", show_default=False),
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; default: one for each core.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Form: int8, fp32 …; default: the artifact's.")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help="File with a key that requests must send.")
    ] = None,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=1, help="Maximum size of a request, in bytes.")
    ] = 4_000_000,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Maximum rows per request.")] = 256,
    max_characters: Annotated[
        int, typer.Option("--max-characters", min=1, help="Maximum length of a row, in characters.")
    ] = 100_000,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, help="Maximum requests at a time, in each worker.")
    ] = 64,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0.1, help="Maximum time to receive or answer a request.")
    ] = 30.0,
    drain_seconds: Annotated[
        float,
        typer.Option(
            "--drain-seconds", min=0.0, help="Time to keep serving after SIGTERM, so that clients can leave."
        ),
    ] = 2.0,
    trace: Annotated[
        bool, typer.Option("--trace", metavar="", help="Trace requests with OpenTelemetry.")
    ] = False,
) -> None:
    """Serve a student over HTTP.

    `understudy serve runs/sst2/artifact`

    `curl localhost:8000/predict -d '{"text": "a fine film"}'`

    Several students, for other machines too, with a key:

    `understudy serve sentiment=artifacts/sst2 same=artifacts/mrpc --host 0.0.0.0 --api-key-file key.txt`

    `/predict` takes plain JSON, `/v2/models/NAME/infer` the Open Inference Protocol (KServe, Triton),
    `/metrics` is for Prometheus, and `/` is a page to try it by hand. A new artifact in the same folder, or
    behind the same symlink, takes over within a second, without losing a request.
    """
    from understudy.errors import require
    from understudy.serve.settings import Limits, ServeSettings, name_models

    require("uvicorn", "serve")
    settings = ServeSettings(
        models=name_models(artifacts),
        form=model,
        api_key_file=str(api_key_file) if api_key_file is not None else None,
        limits=Limits(max_bytes, max_rows, max_characters, max_in_flight, max_seconds),
        drain_seconds=drain_seconds,
        trace=trace,
    )
    logging.basicConfig(level=logging.INFO, format="%(message)s")

    from understudy.serve.run import serve

    serve(settings, host=host, port=port, workers=workers or num_cores())
