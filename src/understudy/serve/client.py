"""Clients of a server, called like a Predictor."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from understudy.errors import DataError, UnderstudyError
from understudy.kinds.given import is_several

_RETRY_CODES = (429, 503)
# The request may not have been read; sending it twice does no harm.
_RETRY_ERRORS = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
_BYTES_AT_ONCE = 1_000_000
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


class ServerError(UnderstudyError):
    """A server that does not answer, or that refuses a request."""


class Client:
    """A student behind HTTP, to be called on text. Connections are kept and shared between threads.

    Args:
        url: the address of a server that `understudy serve` started.
        model: its name, if the server has several.
        api_key: the key, if the server asks for one.
        retries: how often a request is sent again after 429, 503 or a lost connection, with increasing
            waits.
        timeout: seconds to wait for an answer; longer than the server's own limit by default.
        batch_size: rows per request; a longer list, or one of more than a megabyte, is sent in parts.

    Examples:
        >>> with Client("http://127.0.0.1:8000") as predict:       # doctest: +SKIP
        ...     predict(["a fine film", "a film to forget"])
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        retries: int = 4,
        timeout: float = 40.0,
        batch_size: int = 256,
    ) -> None:
        self._path, self._retries, self._batch_size = _path(model), retries, batch_size
        self._http = httpx.Client(base_url=url, headers=_headers(api_key), timeout=timeout)

    def __call__(self, inputs: Any) -> Any:
        """Return the prediction for one input, or a list of predictions for several."""
        if not is_several(inputs):
            return self._ask([inputs])[0]
        return [one for part in _parts(inputs, self._batch_size) for one in self._ask(part)]

    def _ask(self, rows: list[Any]) -> list[dict[str, Any]]:
        for wait in _waits(self._retries):
            try:
                response = self._http.post(self._path, json={"rows": rows})
            except httpx.TransportError as error:
                if wait is None or not isinstance(error, _RETRY_ERRORS):
                    raise _no_answer(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _RETRY_CODES:
                    return _read(response)
                wait = max(wait, _asked_wait(response))
            time.sleep(wait)
        raise AssertionError("the last wait is None")

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """A client for asyncio. See `Client`.

    Examples:
        >>> async with AsyncClient("http://127.0.0.1:8000") as predict:  # doctest: +SKIP
        ...     await predict("a fine film")
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        retries: int = 4,
        timeout: float = 40.0,
        batch_size: int = 256,
    ) -> None:
        self._path, self._retries, self._batch_size = _path(model), retries, batch_size
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(api_key), timeout=timeout)

    async def __call__(self, inputs: Any) -> Any:
        """Return the prediction for one input, or a list of predictions for several."""
        if not is_several(inputs):
            return (await self._ask([inputs]))[0]
        made = [await self._ask(part) for part in _parts(inputs, self._batch_size)]
        return [one for part in made for one in part]

    async def _ask(self, rows: list[Any]) -> list[dict[str, Any]]:
        for wait in _waits(self._retries):
            try:
                response = await self._http.post(self._path, json={"rows": rows})
            except httpx.TransportError as error:
                if wait is None or not isinstance(error, _RETRY_ERRORS):
                    raise _no_answer(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _RETRY_CODES:
                    return _read(response)
                wait = max(wait, _asked_wait(response))
            await asyncio.sleep(wait)
        raise AssertionError("the last wait is None")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _path(model: str | None) -> str:
    return "/predict" if model is None else f"/predict/{model}"


def _headers(api_key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key is not None else {}


def _parts(inputs: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Split inputs into requests of limited size."""
    part: list[Any] = []
    num_bytes = 0
    for one in inputs:
        own = len(json.dumps(one))
        if part and (len(part) == size or num_bytes + own > _BYTES_AT_ONCE):
            yield part
            part, num_bytes = [], 0
        part.append(one)
        num_bytes += own
    if part:
        yield part


def _waits(retries: int) -> Iterator[float | None]:
    """Yield the seconds to wait after each attempt; None after the last one."""
    for attempt in range(retries):
        # Different clients must not retry at the same moment.
        yield min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt) * random.uniform(0.5, 1.5)
    yield None


def _asked_wait(response: httpx.Response) -> float:
    """Return the seconds to wait that a server asks for, limited to `_LONGEST_WAIT`."""
    asked = response.headers.get("retry-after", "")
    return min(_LONGEST_WAIT, float(asked)) if asked.isdigit() else 0.0


def _read(response: httpx.Response) -> list[dict[str, Any]]:
    if response.status_code == 200:
        predictions: list[dict[str, Any]] = response.json()["predictions"]
        return predictions
    try:
        message = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        message = response.text[:200]
    if response.status_code in (400, 413):
        raise DataError(message)
    raise ServerError(f"the server answers {response.status_code}: {message}")


def _no_answer(url: httpx.URL, error: Exception) -> ServerError:
    return ServerError(
        f"{url} does not answer: {error or type(error).__name__}. Is understudy serve running there?"
    )
