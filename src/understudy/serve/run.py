"""Start a server: worker processes on one socket, or a single process."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import uvicorn
from uvicorn.supervisors import Multiprocess

from understudy.errors import OutputError
from understudy.predictor import Predictor
from understudy.serve.settings import METRICS_FOLDER, ServeSettings

logger = logging.getLogger(__name__)

_APP = "understudy.serve.app:app_from_environment"


class Supervisor(Multiprocess):
    """uvicorn's supervisor of workers, which passes SIGHUP on instead of starting them anew."""

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGHUP)

    def keep_subprocess_alive(self) -> None:
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        from prometheus_client.multiprocess import mark_process_dead

        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


def serve(settings: ServeSettings, *, host: str = "127.0.0.1", port: int = 8000, workers: int = 1) -> None:
    """Serve artifacts over HTTP until SIGTERM or Ctrl-C.

    Args:
        workers: processes that answer, each with its own copy of the models.
    """
    settings.api_key()
    for folder in settings.models.values():  # a broken one is refused here, before any worker starts
        Predictor(folder, model=settings.form, threads=settings.threads)
    settings.write()
    config = uvicorn.Config(
        _APP,
        factory=True,
        host=host,
        port=port,
        workers=workers,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,  # longer than the usual load balancer's, so that it is the one that closes
        timeout_graceful_shutdown=round(settings.limits.seconds),
        server_header=False,
        date_header=False,
    )
    try:
        socket = config.bind_socket()
        socket.listen(config.backlog)  # from now on requests wait for the workers, and none is refused
    except SystemExit:
        raise OutputError(f"port {port} of {host} cannot be used. Use another --port.") from None
    logger.info("Serving %s on http://%s:%d", ", ".join(settings.models), host, socket.getsockname()[1])
    if workers > 1:
        with _metrics_folder():
            Supervisor(config, [socket]).run()
    else:
        uvicorn.Server(config).run([socket])
    socket.close()


@contextlib.contextmanager
def _metrics_folder() -> Iterator[None]:
    """Give the workers a folder for their figures, and remove it at the end."""
    folder = tempfile.mkdtemp(prefix="understudy-metrics-")
    os.environ[METRICS_FOLDER] = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
