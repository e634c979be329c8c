"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

# What a CPU must have for int8 products to be fast, as /proc/cpuinfo calls it.
_FLAGS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2", "asimddp")


def describe_machine() -> dict[str, object]:
    """The processor, how many cores this process may use, and what they can."""
    name = _cpuinfo().get("model name", platform.processor() or platform.machine())
    flags = cpu_flags()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": name,
        "cores": cores,
        "flags": [flag for flag in _FLAGS if flag in flags],
        "system": f"{platform.system()} {platform.machine()}",
    }


def cpu_flags() -> set[str]:
    """What the processor can, as /proc/cpuinfo calls it; empty where there is none."""
    values = _cpuinfo()
    return set(values.get("flags", values.get("Features", "")).split())


def _cpuinfo() -> dict[str, str]:
    """Of the first core."""
    file = Path("/proc/cpuinfo")
    text = file.read_text().split("\n\n")[0] if file.exists() else ""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def peak_memory() -> int:
    """The most bytes of memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage, which counts what the parent had when it forked
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
