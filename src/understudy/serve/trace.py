"""Spans of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from understudy.errors import MissingExtraError


def find_tracer() -> Callable[[str], AbstractContextManager[Any]]:
    """Return a function that starts a span of OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "--trace needs OpenTelemetry: pip install opentelemetry-distro opentelemetry-exporter-otlp."
        ) from error
    return trace.get_tracer("understudy").start_as_current_span
