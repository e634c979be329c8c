"""Metrics for Prometheus, summed over the worker processes.

The workers write to files in one folder; PROMETHEUS_MULTIPROC_DIR must be set before this module is imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from understudy.data.kind import Prediction, RowKind
from understudy.serve.settings import METRICS_FOLDER

CONTENT_TYPE = CONTENT_TYPE_LATEST

REQUESTS = Counter("understudy_requests", "Requests, by path and status code.", ["path", "code"])
SECONDS = Histogram(
    "understudy_request_seconds",
    "Time from a request to its answer.",
    ["path"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
IN_FLIGHT = Gauge("understudy_in_flight", "Requests being worked on.", multiprocess_mode="livesum")
ROWS = Counter("understudy_rows", "Rows that were predicted.", ["model"])
TRUNCATED = Counter("understudy_truncated_rows", "Rows longer than the model reads.", ["model"])
PREDICTIONS = Counter(
    "understudy_predictions", "Predictions of each label: a drift shows here.", ["model", "label"]
)


def count_predictions(model: str, kind: RowKind, predictions: Sequence[Prediction]) -> None:
    """Count rows, cut rows, and the predicted labels."""
    ROWS.labels(model).inc(len(predictions))
    cut = sum(bool(one.get("truncated")) for one in predictions)
    if cut:
        TRUNCATED.labels(model).inc(cut)
    for one in predictions:
        for label in kind.labels_given(one):
            PREDICTIONS.labels(model, label).inc()


def render() -> bytes:
    """Return the metrics of all workers in Prometheus' format."""
    if METRICS_FOLDER not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
