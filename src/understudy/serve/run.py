"""Start a server: worker processes on one port, or a single process."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from understudy.errors import ModelError, OutputError
from understudy.serve.models import Models
from understudy.serve.settings import METRICS_FOLDER, ServeSettings
from understudy.serve.trace import find_tracer

logger = logging.getLogger(__name__)

_APP = "understudy.serve.app:app_from_environment"
_BACKLOG = 2048
# Seconds: a worker that dies sooner is not replaced at once.
_SHORTEST_LIFE, _PAUSE = 20.0, 2.0


class Supervisor(Multiprocess):
    """uvicorn's supervisor of workers, with a socket for each of them.

    With a single socket, the worker that wakes up first would take all waiting connections and keep them.
    With a socket each, the kernel spreads connections over the workers. The supervisor holds all sockets, so
    that the connections of a worker that died wait for its successor.
    """

    def __init__(self, config: uvicorn.Config, sockets: Sequence[socket.socket]) -> None:
        super().__init__(config, list(sockets))
        self.has_failed = False
        self._started: dict[int | None, float] = {}

    def init_processes(self) -> None:
        self.processes = [self._start(one) for one in self.sockets]

    def _start(self, own: socket.socket) -> Process:
        process = Process(self.config, [own])
        process.start()
        self._started[process.pid] = time.monotonic()
        return process

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang."""
        from prometheus_client.multiprocess import mark_process_dead

        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            lived = time.monotonic() - self._started.pop(process.pid, 0.0)
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            if process.exitcode == STARTUP_FAILURE:  # it would fail again
                self.has_failed = True
                self.should_exit.set()
                return
            logger.warning("Worker %s died and is replaced.", process.pid)
            if lived < _SHORTEST_LIFE:
                self.should_exit.wait(_PAUSE)  # it may fail again and again
            self.processes[place] = self._start(self.sockets[place])

    def terminate_all(self) -> None:
        """Stop the workers, which drain on their own sockets; ours would only keep new clients waiting."""
        super().terminate_all()
        for one in self.sockets:
            one.close()

    def handle_hup(self) -> None:
        """Tell the workers to reload their artifacts; one that is still starting reads the new one anyway."""
        for process in self.processes:
            if process.pid is not None and process.is_ready(timeout=1):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGHUP)

    def handle_ttin(self) -> None:
        logger.warning("The number of workers cannot be changed while the server runs.")

    handle_ttou = handle_ttin


def serve(settings: ServeSettings, *, host: str = "127.0.0.1", port: int = 8000, workers: int = 1) -> None:
    """Serve artifacts over HTTP until SIGTERM or Ctrl-C.

    Args:
        workers: the number of worker processes, each with its own copy of the models.
    """
    # Broken settings and artifacts are refused here, before any worker starts.
    settings.api_key()
    Models(settings.models, form=settings.form, threads=settings.threads)
    if settings.trace:
        find_tracer()
    settings.write()
    config = uvicorn.Config(
        _APP,
        factory=True,
        loop="asyncio",  # uvloop lets some connections wait for seconds while others are served twice
        workers=workers,
        backlog=_BACKLOG,
        lifespan="on",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,  # longer than a load balancer's usual one, so that the balancer closes first
        timeout_graceful_shutdown=math.ceil(settings.limits.seconds),
        server_header=False,
        date_header=False,
    )
    sockets = _listen(host, port, workers)
    logger.info("Serving %s on %s", ", ".join(settings.models), _address(host, sockets[0]))
    try:
        if workers > 1:
            with _metrics_folder():
                supervisor = Supervisor(config, sockets)
                supervisor.run()
            if supervisor.has_failed:
                raise ModelError("a worker could not start; the log says why.")
        else:
            uvicorn.Server(config).run(sockets)
    finally:
        for one in sockets:
            one.close()


def _listen(host: str, port: int, count: int) -> list[socket.socket]:
    """Open sockets on one port; from now on requests wait for the workers, and none is refused."""
    shares = count > 1 and sys.platform == "linux"
    try:
        with _bind(
            host, port
        ) as first:  # refused if another server has the port, even one that would share it
            port = first.getsockname()[1]  # chosen by the system if it was 0
            if not shares:
                first.listen(_BACKLOG)
                return [first.dup() for _ in range(count)]
        sockets = [_bind(host, port, shares=True) for _ in range(count)]
        for one in sockets:
            one.listen(_BACKLOG)
    except OSError as error:
        raise OutputError(f"{host}:{port} cannot be used: {error}. Use another --port or --host.") from None
    return sockets


def _bind(host: str, port: int, *, shares: bool = False) -> socket.socket:
    # TCP is named: otherwise asyncio does not turn Nagle's algorithm off, and every answer takes 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def _address(host: str, bound: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


@contextlib.contextmanager
def _metrics_folder() -> Iterator[None]:
    """Give the workers a folder for their metrics, and remove it at the end."""
    folder = tempfile.mkdtemp(prefix="understudy-metrics-")
    os.environ[METRICS_FOLDER] = folder
    try:
        yield
    finally:
        del os.environ[METRICS_FOLDER]
        shutil.rmtree(folder, ignore_errors=True)
