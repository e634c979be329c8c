"""A student behind HTTP: the server, and a client that is called like a Predictor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.serve.client import AsyncClient, Client
    from understudy.serve.run import serve
    from understudy.serve.settings import Limits, ServeSettings

__all__ = ["AsyncClient", "Client", "Limits", "ServeSettings", "serve"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncClient", "Client"):
        from understudy.serve import client

        return getattr(client, name)
    if name == "serve":
        from understudy.serve.run import serve

        return serve
    if name in ("Limits", "ServeSettings"):
        from understudy.serve import settings

        return getattr(settings, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
