"""Commands in processes of their own, to be killed, that start at once.

Importing torch and transformers takes seconds. A server does it once for all tests of a worker and forks
each process from there. A forked process runs the command line as a started one would.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "onnxruntime.quantization",
        "torch.onnx._internal.exporter._core",
        "transformers.models.bert.modeling_bert",
        "understudy.cli.app",
        "understudy.pipeline.run",
        "understudy.stages.augment",
        "understudy.stages.corpus",
        "understudy.stages.evaluate",
        "understudy.stages.export",
        "understudy.stages.finetune",
        "understudy.stages.general",
        "understudy.stages.mine",
    ]
)


class Command:
    """`understudy ARGUMENTS`, running.

    Args:
        before: called in the process first, e.g. to make something slow enough to be killed in.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        with tempfile.NamedTemporaryFile(prefix="output-", delete=False) as file:
            self._output = Path(file.name)
        variables = dict(os.environ if environment is None else environment)
        self._process: Any = _FORKS.Process(
            target=_run, args=(list(arguments), variables, str(Path.cwd()), str(self._output), before)
        )
        self._process.start()

    @property
    def output(self) -> str:
        """What it has printed so far, to both streams."""
        return self._output.read_text("utf-8", errors="replace")

    def forget(self) -> None:
        """Remove the file of its output."""
        self._output.unlink(missing_ok=True)

    @property
    def is_running(self) -> bool:
        return bool(self._process.is_alive())

    def wait(self, timeout: float = 600) -> int:
        """Wait for the end, and return the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self._process.kill()  # or the end of the tests would wait for it
            raise AssertionError(f"still running after {timeout} seconds:\n{self.output}")
        return int(self._process.exitcode)

    def end(self, grace: float = 30) -> None:
        """Ask it to end, and kill it if it has not ended after so many seconds."""
        if self.is_running:
            os.kill(self._process.pid, signal.SIGTERM)
            self._process.join(grace)
        if self.is_running:
            os.kill(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def wait_until_stopped(self) -> bool:
        """Wait until it has stopped itself with SIGSTOP, or ended; return whether it has stopped."""
        while self.is_running:
            try:
                state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return False
            if state == "T":
                return True
            time.sleep(0.005)
        return False

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill_when(self, happened: Callable[[], bool], delay: float = 0.0, timeout: float = 300) -> None:
        """Kill it as soon as something has happened, or a little later; fail if it ends before."""
        deadline = time.monotonic() + timeout
        while not happened():
            assert self.is_running, f"it ended before it could be killed:\n{self.output}"
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"nothing happened for {timeout} seconds:\n{self.output}")
            time.sleep(0.001)
        time.sleep(delay)
        self.kill()


def run_command(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> str:
    """Run a command to its end and return what it printed; fail if it fails."""
    command = Command(arguments, environment, before)
    code, output = command.wait(), command.output
    command.forget()
    assert code == 0, output
    return output


def _run(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    output: str,
    before: Callable[[], None] | None,
) -> None:
    import torch

    from understudy.cli import main

    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # Read when torch was imported, before the fork.
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    sys.argv = ["understudy", *arguments]
    if before is not None:
        before()
    main()
