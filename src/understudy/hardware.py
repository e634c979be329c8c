"""The cores of this machine and their features."""

from __future__ import annotations

import os
from pathlib import Path


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags() -> set[str]:
    """Return the processor's instruction sets as named in /proc/cpuinfo; empty if there is no such file."""
    values = cpu_info()
    return set(values.get("flags", values.get("Features", "")).split())


def cpu_info() -> dict[str, str]:
    """Return the entries of /proc/cpuinfo for the first core."""
    file = Path("/proc/cpuinfo")
    text = file.read_text().split("\n\n")[0] if file.exists() else ""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}
