from __future__ import annotations

import re
from typing import Any

import pytest

from understudy.cli.speed_summary import print_bench
from understudy.timing.rounds import compare_rounds, describe_rounds
from understudy.workspace.results import BenchResult

MODELS = ["teachers/mrpc", "artifacts/mrpc-shipped-six-1:fp32", "artifacts/mrpc-shipped-six-1:int8"]


def row(model: str, batch: int) -> dict[str, Any]:
    seconds = [0.0194 * batch] * 10
    return {
        "model": model,
        "threads": 1,
        "batch": batch,
        "length": 64,
        "p95_ms": 27.71 * batch,
        "texts_per_second": 51.5,
        "flop": 1_397_000_000 * batch,
        **describe_rounds(seconds, seconds),
        **compare_rounds((seconds, seconds), (seconds, seconds)),
    }


def content() -> dict[str, Any]:
    model = {
        "form": "int8 (onnxruntime)",
        "bytes": 23_000_000,
        "times_smaller": 4.0,
        "parameters": 22_700_000,
        "peak_memory": 105_000_000,
        "scores": {"f1": 0.897, "accuracy": 0.853},
    }
    return {
        "models": dict.fromkeys(MODELS, model),
        "rows": [row(model, batch) for batch in (1, 32) for model in MODELS],
        "machine": {"processor": "Some CPU", "cores": 2, "flags": []},
    }


def test_times_and_sizes_fit_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_bench(BenchResult(None, content()))
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 80
    for batch in (1, 32):
        start = next(i for i, line in enumerate(lines) if f"{batch} × 64 tokens, 1 thread" in line)
        named = [line for line in lines[start + 1 : start + 7] if "ms" in line]
        assert [line.split()[0] for line in named] == ["mrpc", *(name.split("/")[1] for name in MODELS[1:])]
        assert all(len(re.findall(r"\d ms\b", line)) == 3 for line in named)
    assert any(re.search(r"mrpc-shipped-six-1:int8 +23\.0 MB +105 MB +f1 0\.897", line) for line in lines)
