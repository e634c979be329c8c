"""A server in a process of its own, as `understudy serve` starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType


class Server:
    """A running server.

    Attributes:
        url: its address.
        log: everything that it has written so far.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / f"server-{time.monotonic_ns()}.log"
        with self._log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "understudy", "serve", *arguments, "--port", "0"],
                stderr=file,
                stdout=file,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        self.url = self._wait_for_address()

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def _wait_for_address(self) -> str:
        for _ in range(600):
            found = re.search(r"Serving .* on (http://\S+)", self.log)
            if found:
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.process.kill()
        raise AssertionError(self.log)

    def children(self) -> list[int]:
        """Return the process ids of its workers, without multiprocessing's own helper."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in listed if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
