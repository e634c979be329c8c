"""The precision that a machine trains fastest in: bf16 if its hardware supports it, otherwise fp32.

On a CPU without AMX or AVX512-BF16, bf16 is emulated: 2.8 times slower than fp32 (`docs/LOG.md`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import TrainingArguments

from understudy.hardware import cpu_flags

# CPU flags for bf16 products on Intel and AMD, and on ARM.
_BF16_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")
# Values of oneDNN's limit that still allow bf16; users set it to restrict oneDNN to older instructions.
_LIMIT = "ONEDNN_MAX_CPU_ISA"
_LIMITS_WITH_BF16 = ("BF16", "FP16", "AMX", "AVX10", "ALL", "DEFAULT")


@dataclass(frozen=True)
class Precision:
    """A precision and the reason for it, in words."""

    name: Literal["bf16", "fp16", "fp32"]
    reason: str


def hardware_precision(*, use_cpu: bool = False) -> Precision:
    """Return the precision that this machine trains fastest in."""
    if torch.accelerator.is_available() and not use_cpu:
        return _accelerator_precision()
    limit = os.environ.get(_LIMIT, "").upper()
    if limit and not any(part in limit for part in _LIMITS_WITH_BF16):
        return Precision("fp32", f"{_LIMIT}={limit} leaves no bf16 instructions")
    found = [flag for flag in _BF16_FLAGS if flag in cpu_flags()]
    if found:
        return Precision("bf16", f"this CPU has {found[0]}")
    return Precision("fp32", "this CPU has no bf16 instructions")


def _accelerator_precision() -> Precision:
    device = torch.accelerator.current_accelerator()
    kind = device.type if device is not None else "cpu"
    if kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return Precision("bf16", "this GPU computes in bf16")
    return Precision("fp32", f"this {kind} device does not compute in bf16")


def precision_of(arguments: TrainingArguments, block: Mapping[str, Any]) -> Precision:
    """Return the precision of a stage, and the reason for it, for its result."""
    name: Any = "bf16" if arguments.bf16 else "fp16" if arguments.fp16 else "fp32"
    if "bf16" in block or "fp16" in block:
        return Precision(name, "the recipe says so")
    return Precision(name, hardware_precision(use_cpu=arguments.use_cpu).reason)


def measure_precisions(repeats: int = 5) -> dict[str, float]:
    """Measure the training steps per second of one encoder layer on the CPU, in fp32 and in bf16."""
    torch.manual_seed(0)
    layer, states = torch.nn.Linear(384, 1536), torch.randn(1024, 384)
    speeds = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
                layer(states).float().square().mean().backward()
            seconds.append(time.perf_counter() - started)
        speeds[name] = 1 / min(seconds)
    return speeds
