"""Pages of students in a real browser."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("browser.mjs")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def ask_pages(
    folder: Path,
    rows: dict[str, Any],
    modules: Path,
    *,
    pictures: str | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Ask pages in Chromium, and return what each answers.

    Args:
        folder: has a folder for each page.
        rows: what to ask, by page.
        modules: where npm has installed playwright-core.
        pictures: a folder that gets a picture of each page.
        seconds: the most that it may take. Defaults to any time.
    """
    (folder / "rows.json").write_text(json.dumps(rows))
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        command = ["node", str(SCRIPT), str(modules.absolute()), address, str(folder / "rows.json")]
        command += [pictures] if pictures else []
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        server.shutdown()
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
