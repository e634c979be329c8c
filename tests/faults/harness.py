"""Kill a command at a chosen moment, run it again, and compare with an undisturbed run.

A moment is a number: the process counts what it does to files (opening to write, renaming, removing, making
folders) and to training steps, and sends itself the signal when it gets there. So a moment is the same on a
busy machine and on an idle one, and a seed brings a failure back.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planted import plant
from processes import Command
from world import WORKLOADS, World, contents, differences, small_shards

SIGNALS = {
    "SIGKILL": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGINT": signal.SIGINT,
    "power": signal.SIGKILL,  # and what was not synced is gone
    "SIGSTOP": signal.SIGSTOP,
    "damage": signal.SIGKILL,  # and one of the files is flipped, cut or another one
}
FAULTS = (*SIGNALS, "two at once")
_WRITES = os.O_WRONLY | os.O_RDWR
_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
PAUSE = 0.2  # seconds that a stopped process stays stopped


def watch(
    places: tuple[str, ...], log: str, moment: int | None, number: int | None, defect: str | None
) -> None:
    """Count this process's changes to files below some places; at a moment, send a signal to itself.

    Runs in the process of the command, before the command. Counts are appended to `log` when the process
    ends, and a line `inode size` for every file that is synced.
    """
    small_shards()
    if defect is not None:
        plant(defect)
    count = 0
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    owner = os.getpid()

    def step() -> None:
        nonlocal count
        if os.getpid() != owner:
            return
        count += 1
        os.pwrite(file, f"{count:12d}\n".encode(), 0)
        if count == moment and number is not None:
            os.kill(owner, number)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not (isinstance(flags, int) and flags & _WRITES):
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(places):
            step()

    sys.addaudithook(hook)
    fsync = os.fsync

    def logged(descriptor: int) -> None:
        fsync(descriptor)
        known = os.fstat(descriptor)
        with open(f"{log}.synced", "a") as synced:  # noqa: PTH123
            synced.write(f"{known.st_ino} {known.st_size}\n")

    os.fsync = logged
    from transformers import Trainer

    training_step = Trainer.training_step

    @functools.wraps(training_step)
    def counted(*arguments: Any, **options: Any) -> Any:
        step()
        return training_step(*arguments, **options)

    Trainer.training_step = counted  # type: ignore[method-assign]


def drop_unsynced(places: tuple[Path, ...], log: Path, since: float, generator: random.Random) -> int:
    """Cut files that were written since a time and never synced, as a loss of power may; return how many."""
    synced: dict[int, int] = {}
    if (lines := Path(f"{log}.synced")).exists():
        for line in lines.read_text().splitlines():
            inode, size = map(int, line.split())
            synced[inode] = size
    cut = 0
    for place in places:
        for file in place.rglob("*"):
            if not file.is_file() or file.is_symlink():
                continue
            known = file.stat()
            is_new = max(known.st_mtime, known.st_ctime) >= since
            if is_new and known.st_size and synced.get(known.st_ino) != known.st_size:
                os.truncate(file, generator.choice([0, generator.randrange(known.st_size)]))
                cut += 1
    return cut


def damage(places: tuple[Path, ...], generator: random.Random) -> list[str]:
    """Flip a bit of a file, cut it, or put another one in its place; return its name."""
    files = sorted(
        file
        for place in places
        for file in place.rglob("*")
        if file.is_file() and file.stat().st_size and not file.name.endswith((".lock", ".writing", ".txt"))
    )
    if not files:
        return []
    file = generator.choice(files)
    data = file.read_bytes()
    how = generator.choice(["flip", "cut", "swap"])
    others = [other for other in files if other.suffix == file.suffix and other.read_bytes() != data]
    if how == "swap" and others:
        file.write_bytes(generator.choice(others).read_bytes())
    elif how == "cut":
        file.write_bytes(data[: generator.randrange(len(data))])
    else:
        place = generator.randrange(len(data))
        flipped = data[place] ^ (1 << generator.randrange(8))
        file.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
    return [file.name]


def _too_early(output: Path, expected: dict[str, str]) -> str | None:
    """Return a file that says that a command has finished, though it is not what it will be."""
    marks = [name for name in ("result.json", "labelled.csv") if (output / name).exists()]
    try:
        found = contents(output) if marks else {}
    except ValueError:
        return marks[0]
    return next((name for name in marks if found[name] != expected[name]), None)


@dataclass
class Try:
    """What became of one try: a command disturbed a few times, and run to its end."""

    command: str
    fault: str
    seed: int
    kills: int = 0
    problem: str | None = None
    moments: list[int] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        back = f"python tests/faults --command '{self.command}' --fault {self.fault} --seed {self.seed}"
        what = " ".join([str(self.moments), *self.damaged])
        return f"{self.command}, {self.fault} at {what}: {self.problem}\n  again: {back}"


class Bench:
    """Commands in a world, their undisturbed results, and tries to disturb them.

    Args:
        world: what the commands read.
        folder: gets the output folders.
        defect: a defect of `planted.py` to plant in every process.
    """

    def __init__(self, world: World, folder: Path, defect: str | None = None) -> None:
        self.world, self.folder, self.defect = world, folder, defect
        self._expected: dict[str, tuple[dict[str, str], int]] = {}
        self._number = 0

    def undisturbed(self, command: str) -> tuple[dict[str, str], int]:
        """Return the contents of an undisturbed run's folder, and how many moments it has."""
        if command not in self._expected:
            place = self._place(command)
            code, said, _ = self._run(command, place)
            assert code == 0, f"{command} ended with {code}: {said}"
            self._expected[command] = contents(place / "out"), int((place / "log").read_bytes()[:12])
            shutil.rmtree(place)
        return self._expected[command]

    def take_expected(self, other: Bench, command: str) -> None:
        """Take over what another bench, without a defect, knows of a command."""
        self._expected[command] = other.undisturbed(command)

    def disturb(self, command: str, fault: str, seed: int, most: int = 3) -> Try:
        """Disturb a command up to `most` times at random moments, run it to its end, and compare."""
        if fault == "two at once":
            return self._two_at_once(command, seed)
        expected, num_moments = self.undisturbed(command)
        generator = random.Random(f"{command} {fault} {seed}")
        tried, place = Try(command, fault, seed), self._place(command)
        for _ in range(generator.randint(1, most)):
            moment = generator.randint(1, num_moments)
            tried.moments.append(moment)
            since = time.time() - 0.05  # the clock of files is coarse
            code, said, was_hit = self._run(command, place, moment, SIGNALS[fault])
            tried.kills += was_hit
            if fault == "power":
                drop_unsynced((place / "out", place / "cache"), place / "log", since, generator)
            # What is finished is checked by its readers, not by the command that wrote it.
            if fault == "damage" and not (place / "out" / "result.json").exists():
                tried.damaged += damage((place / "out", place / "cache"), generator)
            elif code != 0 and (early := _too_early(place / "out", expected)):
                tried.problem = f"{early} was there before its content"
                return tried
            if code == 0 or _is_finished(said) or tried.damaged:
                break
            if not was_hit or code not in _DEATHS:
                tried.problem = f"ended with {code}: {said[-3000:]}"
                return tried
        # Where the last one was the end, the command says so; what it has left must be the same.
        code, said, _ = self._run(command, place)
        if code == 2 and any(name in "".join(said.split()) for name in tried.damaged):
            pass  # refused, with the name of the damaged file
        elif code != 0 and not _is_finished(said):
            tried.problem = f"cannot be continued, {code}: {said[-3000:]}"
        elif changed := differences(expected, contents(place / "out")):
            tried.problem = f"other files than undisturbed: {', '.join(changed[:8])}"
        if tried.problem is None:
            shutil.rmtree(place)
        return tried

    def _two_at_once(self, command: str, seed: int) -> Try:
        """Start a command a second time, to replace what the first one is writing: it must be refused."""
        expected, num_moments = self.undisturbed(command)
        tried, place = Try(command, "two at once", seed), self._place(command)
        moment = random.Random(f"{command} {seed}").randint(2, num_moments // 2)
        tried.moments.append(moment)
        first = self._start(command, place, place / "log", moment, signal.SIGSTOP)
        first.wait_until_stopped()
        second = self._start(command, place, place / "log-2", None, None, "--overwrite")
        code, said = second.wait(300), second.output
        first.go_on()
        tried.kills = 1
        if code != 2 or "is in use by process" not in " ".join(said.split()):
            tried.problem = f"the second ended with {code}: {said[-1000:]}"
        if first.wait(300) != 0:
            tried.problem = f"the first failed: {first.output[-2000:]}"
        elif changed := differences(expected, contents(place / "out")):
            tried.problem = f"other files than undisturbed: {', '.join(changed[:8])}"
        for one in (first, second):
            one.forget()
        if tried.problem is None:
            shutil.rmtree(place)
        return tried

    def _place(self, command: str) -> Path:
        """Make a folder for a try, with an output folder as it is before the command."""
        self._number += 1
        place = self.folder / f"try-{self._number}"
        place.mkdir(parents=True)
        WORKLOADS[command].before(self.world, place / "out")
        time.sleep(0.1)  # what was there before is older than what the command writes
        return place

    def _run(
        self, command: str, place: Path, moment: int | None = None, number: int | None = None
    ) -> tuple[int, str, bool]:
        """Run a command; return its exit code, what it said, and whether the moment came."""
        log = place / "log"
        for file in (log, Path(f"{log}.synced")):
            file.unlink(missing_ok=True)
        running = self._start(command, place, log, moment, number)
        if number == signal.SIGSTOP and running.wait_until_stopped():
            time.sleep(PAUSE)
            running.go_on()
        code = running.wait(300)
        said = running.output
        running.forget()
        count = int(log.read_bytes()[:12]) if log.exists() and log.stat().st_size else 0
        return code, said, moment is not None and count >= moment

    def _start(
        self, command: str, place: Path, log: Path, moment: int | None, number: int | None, *more: str
    ) -> Command:
        places = (str(place / "out"), str(place / "cache"))
        environment = os.environ | {"UNDERSTUDY_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        before = functools.partial(watch, places, str(log), moment, number, self.defect)
        arguments = [*WORKLOADS[command].arguments(self.world, place / "out"), *more]
        return Command(arguments, environment, before)


# Exit codes of a process that was stopped by a signal, or by the exception that stands for it.
_DEATHS = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143, 1)


def _is_finished(said: str) -> bool:
    """Return whether a command refuses to do again what an earlier call has finished."""
    return any(sign in " ".join(said.split()) for sign in _FINISHED)


_FINISHED = ("holds a finished run", "holds a result already", "is there already. Use --overwrite")
