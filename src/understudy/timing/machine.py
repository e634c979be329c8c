"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from understudy.hardware import cpu_flags, cpu_info

# What a CPU must have for int8 products to be fast, as /proc/cpuinfo calls it.
_FLAGS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2", "asimddp")


def describe_machine() -> dict[str, object]:
    """The processor, how many cores this process may use, and what they can."""
    name = cpu_info().get("model name", platform.processor() or platform.machine())
    flags = cpu_flags()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": name,
        "cores": cores,
        "flags": [flag for flag in _FLAGS if flag in flags],
        "system": f"{platform.system()} {platform.machine()}",
    }


def peak_memory() -> int:
    """The most bytes of memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage, which counts what the parent had when it forked
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
