"""Process settings that make training on a CPU faster and its step times more even."""

from __future__ import annotations

import ctypes
import platform

import torch

# glibc's malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def tune_cpu() -> None:
    """Flush denormal numbers to zero, and keep freed memory for the next step.

    By default glibc maps every block of more than 32 MB anew, so each of its pages is faulted in on every
    step; the dense gradient of an embedding is such a block. Weights are not affected.
    """
    torch.set_flush_denormal(True)
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
