"""Ctrl-C in a terminal, which the command and all of its worker processes get."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from world import World, contents, differences


def in_terminal(arguments: list[str], *, interrupt: Callable[[], bool] | None = None) -> tuple[int, str]:
    """Run a command in a terminal of its own; press Ctrl-C there once `interrupt` returns true.

    Return its exit code and what the terminal shows.
    """
    process, terminal = pty.fork()
    if process == 0:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # a shell that runs the tests in the background ignores it
        os.execv(sys.executable, [sys.executable, "-m", "understudy", *arguments])
    os.set_blocking(terminal, False)
    shown, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 65536)
        except BlockingIOError:
            if interrupt is not None and interrupt():
                os.write(terminal, b"\x03")
                interrupt = None
            time.sleep(0.001)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), shown.decode("utf-8", errors="replace")


def test_ctrl_c_ends_a_command_and_its_workers(world: World, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(6):
        lines = [json.dumps({"text": f"the film was good. the cat {row} runs."}) for row in range(3000)]
        (texts / f"{number}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")

    def command(output: Path) -> list[str]:
        start = ["corpus", str(texts), "--tokenizer", str(world.encoder), "--workers", "2"]
        return [*start, "--set", "corpus.max_length=16", "--output-dir", str(output)]

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert in_terminal(command(whole))[0] == 0
    code, shown = in_terminal(command(stopped), interrupt=lambda: any(stopped.rglob("*.arrow")))
    assert code == 130, shown
    assert "Interrupted. Run the same command again" in " ".join(shown.split())
    assert "Traceback" not in shown
    assert not (stopped / "result.json").exists()
    code, shown = in_terminal(command(stopped))
    assert code == 0, shown
    assert not differences(contents(whole), contents(stopped))
