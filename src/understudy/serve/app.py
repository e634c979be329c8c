"""The HTTP application: predictions as plain JSON and by the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from understudy.data.kind import Prediction
from understudy.errors import DataError
from understudy.predictor import Predictor
from understudy.serve.form import render_form
from understudy.serve.gate import AsciiResponse, Gate, RequestError, error_response, read_body
from understudy.serve.metrics import CONTENT_TYPE, count_predictions, render
from understudy.serve.models import Models, ServedModel, is_short
from understudy.serve.settings import Limits, ServeSettings
from understudy.serve.tensors import (
    HEADER,
    check_outputs,
    describe_model,
    parse_infer,
    parse_json,
    write_infer,
)
from understudy.serve.trace import find_tracer

Handler = Callable[[Request], Awaitable[Response]]
_POLL_SECONDS = 1.0


class Handlers:
    """The handlers of all paths.

    Args:
        models: the models that answer.
        limits: the largest requests that are accepted.
    """

    def __init__(self, models: Models, limits: Limits) -> None:
        self.models, self.limits = models, limits
        self.is_draining = False
        self._num_in_flight = 0

    async def live(self, _: Request) -> Response:
        return AsciiResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        """Report whether new requests are accepted: no longer, once the worker is about to stop."""
        return AsciiResponse({"ready": not self.is_draining}, 503 if self.is_draining else 200)

    async def about(self, _: Request) -> Response:
        return AsciiResponse(
            {
                "name": "understudy",
                "version": version("understudy-distill"),
                "extensions": ["binary_tensor_data"],
                "models": [model.name for model in self.models],
            }
        )

    async def describe(self, request: Request) -> Response:
        model = self._model(request)
        loaded = model.loaded
        return AsciiResponse(describe_model(model.name, loaded.predictor.artifact, model.form, loaded.sample))

    async def model_ready(self, request: Request) -> Response:
        self._model(request)
        return await self.ready(request)

    async def metrics(self, _: Request) -> Response:
        return Response(render(), media_type=CONTENT_TYPE)

    async def form(self, request: Request) -> Response:
        return HTMLResponse(render_form(self._model(request)))

    async def predict(self, request: Request) -> Response:
        """Predict one row, or the rows of a list: `{"text": …}` or `{"rows": [{"text": …}, …]}`."""
        model = self._model(request)
        content = parse_json(await read_body(request, self.limits))
        predictor = model.loaded.predictor
        if "rows" not in content:
            return AsciiResponse((await self._predict(request, model.name, predictor, [content]))[0])
        if len(content) > 1 or not isinstance(content["rows"], list):
            raise DataError('rows must be a list and stand alone: {"rows": [{"text": "…"}, …]}.')
        predictions = await self._predict(request, model.name, predictor, content["rows"])
        return AsciiResponse({"predictions": predictions})

    async def infer(self, request: Request) -> Response:
        """Predict the rows of named tensors, by the Open Inference Protocol."""
        model = self._model(request)
        body = await read_body(request, self.limits)
        loaded = model.loaded  # used for the whole request, even if it is replaced meanwhile
        predictor = loaded.predictor
        asked = parse_infer(body, request.headers.get(HEADER), predictor.kind, predictor.artifact.fields)
        check_outputs(asked, loaded.sample)
        predictions = await self._predict(request, model.name, predictor, asked.rows)
        content, size = write_infer(model.name, asked, predictions, loaded.sample)
        if size is None:
            return Response(content, media_type="application/json")
        return Response(content, headers={HEADER: str(size)}, media_type="application/octet-stream")

    def _model(self, request: Request) -> ServedModel:
        name = request.path_params.get("name")
        model = self.models.find(name)
        if request.path_params.get("version", "1") != "1":
            raise RequestError(404, "there is no other version than 1.")
        if model is None:
            known = ", ".join(model.name for model in self.models)
            raise RequestError(404, f"there is no model {name!r}; there are {known}.")
        return model

    async def _predict(
        self, request: Request, name: str, predictor: Predictor, given: Sequence[Any]
    ) -> list[Prediction]:
        """Check rows against the limits, and predict them."""
        if len(given) > self.limits.rows:
            raise RequestError(
                413, f"a request may have at most {self.limits.rows:,} rows; got {len(given):,}."
            )
        kind = predictor.kind
        rows = [kind.parse(row, predictor.artifact.fields) for row in given]
        sizes = [_num_characters(row) for row in rows]
        for number, size in enumerate(sizes):
            if size > self.limits.characters:
                raise RequestError(413, f"row {number} has more than {self.limits.characters:,} characters.")
        num_texts = sum(map(kind.num_texts, rows))
        if num_texts > self.limits.rows:
            raise RequestError(413, f"a request may have at most {self.limits.rows:,} texts.")
        if self._num_in_flight >= self.limits.in_flight:
            raise RequestError(429, "too many requests; try again in a second.", {"retry-after": "1"})
        self._num_in_flight += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                predictions = await self.models.predict(
                    predictor, rows, is_short=is_short(num_texts, sum(sizes))
                )
        except TimeoutError:
            raise RequestError(504, f"the answer took longer than {self.limits.seconds:g} seconds.") from None
        finally:
            self._num_in_flight -= 1
        count_predictions(name, predictor.kind, predictions)
        request.scope["understudy"].update(model=name, rows=len(rows))
        return predictions


def _num_characters(row: Mapping[str, Any]) -> int:
    """Return how much text a parsed row has; each string in a list counts as one more, even if empty."""
    return sum(
        len(value) if isinstance(value, str) else sum(map(len, value)) + len(value)
        for value in row.values()
        if value
    )


def create_app(settings: ServeSettings) -> Gate:
    """Build the application; its artifacts are opened now."""
    models = Models(settings.models, form=settings.form, threads=settings.threads)
    server = Handlers(models, settings.limits)
    infer = ["/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer"]
    about = ["/v2/models/{name}", "/v2/models/{name}/versions/{version}"]
    routes: list[tuple[str, Handler, str]] = [
        # Matched in this order.
        ("/predict", server.predict, "POST"),
        ("/predict/{name}", server.predict, "POST"),
        *((path, server.infer, "POST") for path in infer),
        ("/v2/health/live", server.live, "GET"),
        ("/v2/health/ready", server.ready, "GET"),
        ("/v2", server.about, "GET"),
        *((path, server.describe, "GET") for path in about),
        *((f"{path}/ready", server.model_ready, "GET") for path in about),
        ("/metrics", server.metrics, "GET"),
        ("/", server.form, "GET"),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        _drain_on_sigterm(gate, server, settings.drain_seconds)
        gc.collect()
        gc.freeze()  # everything so far stays, so the collector can ignore it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, models)
            yield
            tasks.cancel_scope.cancel()

    app = Starlette(
        routes=[Route(path, _answer(handler), methods=[method]) for path, handler, method in routes],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refuse, 500: _fail},
    )
    gate = Gate(
        app,
        api_key=settings.api_key(),
        span=find_tracer() if settings.trace else None,
    )
    return gate


def app_from_environment() -> Gate:
    """Build the application of a worker process."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return create_app(ServeSettings.read())


def _answer(handler: Handler) -> Handler:
    """Wrap a handler so that refusals are answered as JSON."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return error_response(error)
        except DataError as error:
            return error_response(RequestError(400, str(error)))
        except RecursionError:
            return error_response(RequestError(400, "the request is nested too deeply."))
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone, so nobody reads it

    return answer


def _refuse(_: Request, error: Exception) -> Response:
    """Answer a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    return error_response(RequestError(error.status_code, error.detail))


def _fail(_: Request, __: Exception) -> Response:
    return error_response(RequestError(500, "the server failed; its log says why."))


async def _watch(models: Models) -> None:
    """Reload artifacts when they change, or at once after SIGHUP."""
    asked = asyncio.Event()
    with contextlib.suppress(NotImplementedError, AttributeError):  # no such signal on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await asked.wait()
        force = asked.is_set()
        asked.clear()
        await asyncio.to_thread(models.refresh, force=force)


def _drain_on_sigterm(gate: Gate, server: Handlers, seconds: float) -> None:
    """Keep serving for a while after SIGTERM, as not ready, asking clients to leave with each answer.

    Otherwise, a request that is in flight when its connection is closed would be lost.
    """
    stop, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
    if not callable(stop):  # uvicorn's handler; there is none in tests
        return

    def drain(number: int, frame: Any) -> None:
        gate.is_draining = server.is_draining = True
        loop.call_soon_threadsafe(lambda: loop.call_later(seconds, stop, number, frame))

    signal.signal(signal.SIGTERM, drain)
