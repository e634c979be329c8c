"""A description of the machine that a measurement ran on."""

from __future__ import annotations

import platform
from pathlib import Path

from understudy.hardware import cpu_flags, cpu_info, num_cores

# CPU features that make int8 products fast, as named in /proc/cpuinfo.
_FLAGS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2", "asimddp")


def describe_machine() -> dict[str, object]:
    """Return the processor, the number of cores available to this process, and their features."""
    name = cpu_info().get("model name", platform.processor() or platform.machine())
    flags = cpu_flags()
    return {
        "processor": name,
        "cores": num_cores(),
        "flags": [flag for flag in _FLAGS if flag in flags],
        "system": f"{platform.system()} {platform.machine()}",
    }


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage, which includes the parent's memory at the fork
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
