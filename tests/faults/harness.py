"""Disturb a command at a chosen moment, run it again, and compare with an undisturbed run.

A moment is a number: the process counts what it does to files (opening to write, renaming, removing, making
folders) and to training steps, and sends itself the signal when it gets there, or gets an error of the disk
from what it does to a file. So a moment is the same on a busy machine and on an idle one, and a seed brings
a failure back.

Of a command on several processes one is disturbed; the others are ended as `torchrun` ends them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
DISK_ERRORS = (errno.EIO, errno.EDQUOT, errno.ENOSPC, errno.EACCES, errno.EROFS)
ON_A_DISK = ("disk full", "read-only disk")
FAULTS = (*SIGNALS, "disk error", *ON_A_DISK, "two at once")
SLOW = ("run", "bench", "export", "export --overwrite")  # disturbed by every fourth seed only
# Commands that write once, at their end: nothing to damage before, and a second process comes too late.
_SHORT = ("predict", "evaluate", "export", "export --overwrite", "bench")
SKIPPED = {(name, fault) for name in _SHORT for fault in ("two at once", "damage")}
# These have no --overwrite, or take a port that a second one would wait for.
SKIPPED |= {(name, "two at once") for name in ("ablate", "distill joint, 2 ranks", "general, 2 ranks")}
_WRITES = os.O_WRONLY | os.O_RDWR
_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
MOST = 3  # disturbances of one try
PAUSE = 0.2  # seconds that a stopped process stays stopped


@dataclass(frozen=True)
class Disturbance:
    """What happens to a process at a moment: a signal, or an error at its next change to a file."""

    moment: int
    number: int
    is_error: bool = False


def watch(places: tuple[str, ...], log: str, disturbance: Disturbance | None, defect: str | None) -> None:
    """Count this process's changes to files below some places; at a moment, disturb it.

    Runs in the process of the command, before the command. Counts are appended to `log` when the process
    ends, and a line `inode size` for every file that is synced.
    """
    small_shards()
    if defect is not None:
        plant(defect)
    count = 0
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    owner = os.getpid()
    is_due = False  # an error, at the next change to a file

    def step(path: str | None = None) -> None:
        nonlocal count, is_due
        if os.getpid() != owner:
            return
        count += 1
        os.pwrite(file, f"{count:12d}\n".encode(), 0)
        if disturbance is None:
            return
        if count == disturbance.moment and not disturbance.is_error:
            os.kill(owner, disturbance.number)
        is_due = is_due or (count == disturbance.moment and disturbance.is_error)
        if is_due and path is not None:
            is_due = False
            raise OSError(disturbance.number, os.strerror(disturbance.number), path)

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
            step(os.fsdecode(path))

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


def drop_unsynced(places: tuple[Path, ...], logs: list[Path], since: float, generator: random.Random) -> int:
    """Cut files that were written since a time and never synced, as a loss of power may; return how many."""
    synced: dict[int, int] = {}
    for lines in (Path(f"{log}.synced") for log in logs):
        for line in lines.read_text().splitlines() if lines.exists() else ():
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


def damage(
    places: tuple[Path, ...], generator: random.Random, finished: Sequence[Path] = ()
) -> list[tuple[Path, str]]:
    """Flip a bit of a file, cut it, or put another one in its place; return its path, and how.

    Args:
        finished: folders that are checked by their readers, not by the command that wrote them.
    """
    files = sorted(
        file
        for place in places
        for file in place.rglob("*")
        if file.is_file() and file.stat().st_size and not file.name.endswith((".lock", ".writing", ".txt"))
        if not any(file.is_relative_to(folder) for folder in finished)
    )
    if not files:
        return []
    file = generator.choice(files)
    data = file.read_bytes()
    how = generator.choice(["flipped", "cut", "swapped"])
    others = [other for other in files if other.suffix == file.suffix and other.read_bytes() != data]
    if how == "swapped" and others:
        file.write_bytes(generator.choice(others).read_bytes())
    elif how == "cut":
        file.write_bytes(data[: generator.randrange(len(data))])
    else:
        place = generator.randrange(len(data))
        flipped = data[place] ^ (1 << generator.randrange(8))
        file.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
        how = "flipped"
    return [(file, how)]


def _too_early(output: Path, expected: dict[str, str], timed: tuple[str, ...]) -> str | None:
    """Return a file that says that a command has finished, though it is not what it will be."""
    marks = [name for name in ("result.json", "labelled.csv") if (output / name).exists()]
    found = contents(output, timed) if marks else {}
    return next((name for name in marks if found[name] != expected[name]), None)


def _mount(place: Path, *options: str) -> None:
    """Put a file system in memory at a folder, or change it; CalledProcessError without the right to."""
    where = ["-o", ",".join(options)]
    kind = [] if "remount" in options else ["-t", "tmpfs", "understudy"]
    subprocess.run(["mount", *kind[:2], *where, *kind[2:], str(place)], check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Return whether this process may mount file systems."""
    try:
        with _disk(folder / "probe", "size=64k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def _disk(place: Path, *options: str) -> Iterator[None]:
    """Mount a file system of its own at a folder for a while."""
    place.mkdir(parents=True, exist_ok=True)
    _mount(place, *options)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _kilobytes(folder: Path) -> int:
    """Return what a folder takes on a disk with blocks of 4 kB."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(4 * -(-file.stat().st_size // 4096) for file in files)


@dataclass
class Try:
    """What became of one try: a command disturbed a few times, and run to its end."""

    command: str
    fault: str
    seed: int
    kills: int = 0
    problem: str | None = None
    moments: list[int] = field(default_factory=list)
    damaged: list[tuple[Path, str]] = field(default_factory=list)

    def __str__(self) -> str:
        back = f"python tests/faults --command '{self.command}' --fault '{self.fault}' --seed {self.seed}"
        what = " ".join([str(self.moments), *(f"{file.name} {how}" for file, how in self.damaged)])
        return f"{self.command}, {self.fault} at {what}: {self.problem}\n  again: {back}"


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed command leaves: its files, the moments of each process, and its room on a disk."""

    contents: dict[str, str]
    moments: list[int]
    kilobytes: int


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, what it said, and whether the moment of a disturbance came."""

    code: int
    said: str
    was_hit: bool

    @property
    def told(self) -> str:
        """What it said, on one line."""
        return " ".join(self.said.split())

    @property
    def is_finished(self) -> bool:
        """Whether it refused to do again what an earlier call has finished."""
        return any(sign in self.told for sign in _FINISHED)


class Bench:
    """Commands in a world, their undisturbed results, and tries to disturb them.

    Args:
        world: what the commands read.
        folder: gets the output folders.
        defect: a defect of `planted.py` to plant in every process.
    """

    def __init__(self, world: World, folder: Path, defect: str | None = None) -> None:
        self.world, self.folder, self.defect = world, folder, defect
        self._expected: dict[str, Undisturbed] = {}
        self._number = 0

    def undisturbed(self, command: str) -> Undisturbed:
        """Return what an undisturbed run of a command leaves."""
        if command not in self._expected:
            place = self._place(command)
            ended = self._run(command, place)
            assert ended.code == 0, f"{command} ended with {ended.code}: {ended.said}"
            moments = [int(log.read_bytes()[:12]) for log in _logs(command, place)]
            self._expected[command] = Undisturbed(self._contents(command, place), moments, _kilobytes(place))
            shutil.rmtree(place)
        return self._expected[command]

    def take_expected(self, other: Bench, command: str) -> None:
        """Take over what another bench, without a defect, knows of a command."""
        self._expected[command] = other.undisturbed(command)

    def disturb(self, command: str, fault: str, seed: int) -> Try:
        """Disturb a command a few times at random moments, run it to its end, and compare."""
        generator = random.Random(f"{command} {fault} {seed}")
        tried, place = Try(command, fault, seed), self._place(command)
        ways = {
            "two at once": self._two_at_once,
            "disk full": self._fill_disk,
            "read-only disk": self._forbid_writing,
            "disk error": self._break_disk,
        }
        try:
            ways.get(fault, self._interrupt)(tried, place, generator)
        except AssertionError as error:  # e.g. it is still running after minutes
            tried.problem = str(error)[-3000:]
        if tried.problem is None:
            shutil.rmtree(place)
        return tried

    def _interrupt(self, tried: Try, place: Path, generator: random.Random) -> None:
        """Send signals to a command, damage what it has written, and run it to its end."""
        command, fault = tried.command, tried.fault
        expected, timed = self.undisturbed(command), WORKLOADS[command].timed
        for _ in range(generator.randint(1, MOST)):
            disturbance, rank = self._moment(tried, generator, SIGNALS[fault])
            time.sleep(0.1)  # what was written before is older
            since = time.time() - 0.05  # the clock of files is coarse
            ended = self._run(command, place, disturbance, rank)
            tried.kills += ended.was_hit
            if fault == "power":
                drop_unsynced((place / "out", place / "cache"), _logs(command, place), since, generator)
            outputs = [place / "out" / name for name in WORKLOADS[command].outputs]
            finished = [output for output in outputs if (output / "result.json").exists()]
            if fault == "damage" and finished != outputs:
                tried.damaged += damage((place / "out", place / "cache"), generator, finished)
            elif ended.code != 0 and (early := _too_early(place / "out", expected.contents, timed)):
                tried.problem = f"{early} was there before its content"
                return
            if ended.code == 0 or ended.is_finished or tried.damaged:
                break
            if not ended.was_hit or ended.code not in _DEATHS:
                tried.problem = f"ended with {ended.code}: {ended.said[-3000:]}"
                return
        self._finish(tried, place)

    def _fill_disk(self, tried: Try, place: Path, generator: random.Random) -> None:
        """Run a command on a disk that is too small, then on the same disk with room."""
        expected, before = self.undisturbed(tried.command), _kilobytes(place)
        size = before + max(8, int(generator.uniform(0.02, 0.95) * expected.kilobytes))
        with _disk(place / "disk", f"size={size}k"):
            self._move(place, place / "disk")
            ended = self._run(tried.command, place / "disk")
            if ended.code:  # else it had room enough
                tried.kills += 1
                self._check_told(tried, ended, errno.ENOSPC)
            _mount(place / "disk", "remount", "size=1G")
            if tried.problem is None:
                self._finish(tried, place / "disk")

    def _forbid_writing(self, tried: Try, place: Path, generator: random.Random) -> None:
        """Kill a command, run it on the disk as read-only, then on one that it may write to."""
        disturbance, rank = self._moment(tried, generator, signal.SIGKILL)
        with _disk(place / "disk", "size=1G"):
            self._move(place, place / "disk")
            ended = self._run(tried.command, place / "disk", disturbance, rank)
            if not ended.was_hit or ended.code == 0:
                if ended.code:
                    tried.problem = f"ended with {ended.code}: {ended.said[-3000:]}"
                else:
                    self._compare(tried, place / "disk")
                return
            _mount(place / "disk", "remount", "ro")
            ended = self._run(tried.command, place / "disk")
            tried.kills += 1
            if not ended.is_finished:
                self._check_told(tried, ended, errno.EROFS)
            _mount(place / "disk", "remount", "rw")
            if tried.problem is None:
                self._finish(tried, place / "disk")

    def _break_disk(self, tried: Try, place: Path, generator: random.Random) -> None:
        """Let a change to a file fail once, then run the command to its end."""
        number = generator.choice(DISK_ERRORS)
        disturbance, rank = self._moment(tried, generator, number, is_error=True)
        ended = self._run(tried.command, place, disturbance, rank)
        tried.kills += ended.was_hit
        if ended.code:
            self._check_told(tried, ended, number)
        if tried.problem is None:
            self._finish(tried, place)

    def _two_at_once(self, tried: Try, place: Path, generator: random.Random) -> None:
        """Start a command a second time, to replace what the first one is writing: it must be refused."""
        moment = generator.randint(2, self.undisturbed(tried.command).moments[0] // 2)
        tried.moments.append(moment)
        log, other = place.with_suffix(".log-0"), place.with_suffix(".log-other")
        first = self._start(tried.command, place, log, Disturbance(moment, signal.SIGSTOP))
        first.wait_until_stopped()
        second = self._start(tried.command, place, other, None, more=["--overwrite"])
        try:
            code, said = second.wait(300), second.output
            first.go_on()
            tried.kills = 1
            # The first may have been stopped while it read its rows, before it wrote to the folder.
            came_first = code == 0
            if not came_first and (code != 2 or "is in use by process" not in " ".join(said.split())):
                tried.problem = f"the second ended with {code}: {said[-1000:]}"
            ended = first.wait(300)
            is_refused = ended == 2 and "holds a finished run" in " ".join(first.output.split())
            if not (is_refused if came_first else ended == 0):
                tried.problem = f"the first failed: {first.output[-2000:]}"
            elif tried.problem is None:
                self._compare(tried, place)
        finally:
            for one in (first, second):
                one.end(grace=0)
                one.forget()

    def _moment(
        self, tried: Try, generator: random.Random, number: int, *, is_error: bool = False
    ) -> tuple[Disturbance, int]:
        """Choose a moment of one of a command's processes, and what happens then."""
        moments = self.undisturbed(tried.command).moments
        rank = generator.randrange(len(moments))
        moment = generator.randint(1, moments[rank])
        tried.moments.append(moment)
        return Disturbance(moment, number, is_error), rank

    def _check_told(self, tried: Try, ended: Ended, number: int) -> None:
        """An error of the disk ends a command with a message that says so, and with nothing else."""
        preflight = "are free. Make room" if number == errno.ENOSPC else os.strerror(number)
        is_named = os.strerror(number) in ended.told or preflight in ended.told
        if ended.code != 2 or not is_named or "Traceback" in ended.told:
            tried.problem = f"{os.strerror(number)}: ended with {ended.code}: {ended.said[-3000:]}"

    def _finish(self, tried: Try, place: Path) -> None:
        """Run a command to its end, and compare.

        Where the last disturbance was the end, the command says so; what it has left must be the same.
        """
        ended = self._run(tried.command, place)
        said = "".join(ended.said.split())
        if ended.code == 2 and any(
            file.name in said or f"{file.parent}isnotthemodel" in said for file, _ in tried.damaged
        ):
            return  # refused, with the name of the damaged file or model
        if ended.code != 0 and not ended.is_finished:
            tried.problem = f"cannot be continued, {ended.code}: {ended.said[-3000:]}"
        else:
            self._compare(tried, place)

    def _compare(self, tried: Try, place: Path) -> None:
        expected = self.undisturbed(tried.command).contents
        if changed := differences(expected, self._contents(tried.command, place)):
            tried.problem = f"other files than undisturbed: {', '.join(changed[:8])}"

    def _contents(self, command: str, place: Path) -> dict[str, str]:
        return contents(place / "out", WORKLOADS[command].timed)

    def _place(self, command: str) -> Path:
        """Make a folder for a try, with an output folder as it is before the command."""
        self._number += 1
        place = self.folder / f"try-{self._number}"
        place.mkdir(parents=True)
        WORKLOADS[command].before(self.world, place / "out")
        return place

    def _move(self, place: Path, disk: Path) -> None:
        """Move what is there before a command to another disk."""
        if (place / "out").exists():
            shutil.move(place / "out", disk / "out")

    def _run(self, command: str, place: Path, disturbance: Disturbance | None = None, rank: int = 0) -> Ended:
        """Run a command on all its processes; one of them may be disturbed."""
        logs = _logs(command, place)
        for file in [*logs, *(Path(f"{log}.synced") for log in logs)]:
            file.unlink(missing_ok=True)
        ranks = _ranks(len(logs))
        running = [
            self._start(command, place, log, disturbance if number == rank else None, variables)
            for number, (log, variables) in enumerate(zip(logs, ranks, strict=True))
        ]
        is_pause = disturbance is not None and disturbance == Disturbance(disturbance.moment, signal.SIGSTOP)
        if is_pause and running[rank].wait_until_stopped():
            time.sleep(PAUSE)
            running[rank].go_on()
        codes, ended = _end_together(running)
        said = "\n".join(one.output for one in running if one not in ended)
        for one in running:
            one.forget()
        count = int(logs[rank].read_bytes()[:12] or 0) if logs[rank].exists() else 0
        code = next((code for code in (codes[rank], *codes) if code), 0)
        return Ended(code, said, disturbance is not None and count >= disturbance.moment)

    def _start(
        self,
        command: str,
        place: Path,
        log: Path,
        disturbance: Disturbance | None,
        variables: Mapping[str, str] | None = None,
        more: Sequence[str] = (),
    ) -> Command:
        places = (str(place / "out"), str(place / "cache"))
        environment = os.environ | {"UNDERSTUDY_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        before = functools.partial(watch, places, str(log), disturbance, self.defect)
        arguments = [*WORKLOADS[command].arguments(self.world, place / "out"), *more]
        return Command(arguments, environment | dict(variables or {}), before)


def _logs(command: str, place: Path) -> list[Path]:
    """Return the log of each process, which is not on the disk that is disturbed."""
    beside = place.parent if place.name == "disk" else place
    return [beside.with_suffix(f".log-{rank}") for rank in range(WORKLOADS[command].num_processes)]


def _ranks(count: int) -> list[dict[str, str]]:
    """Return the variables of each process, as `torchrun` sets them; none for one process."""
    if count == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _end_together(running: Sequence[Command]) -> tuple[list[int], list[Command]]:
    """Wait until all processes have ended; if one fails, end the others as `torchrun` does.

    Return their exit codes, and those that were ended.
    """
    while len(running) > 1 and all(one.is_running for one in running):
        time.sleep(0.01)
    failed = [one for one in running if not one.is_running and one.wait()]
    others = [one for one in running if failed and one.is_running]
    for one in others:
        one.end()
    try:
        return [one.wait(300) for one in running], others
    finally:
        for one in running:
            one.end(grace=0)


# Exit codes of a process that was stopped by a signal, or by the exception that stands for it.
_DEATHS = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143, 1)
# What commands say that have nothing left to do.
_FINISHED = ("holds a finished run", "holds a result already", "is there already. Use --overwrite")


def disturb_all(world: World, folder: Path, minutes: float, seeds: Iterable[int]) -> list[Try]:
    """Disturb every command by every fault, seed after seed, until the time is up."""
    bench, done = Bench(world, folder), []
    faults = FAULTS if can_mount(folder) else [name for name in FAULTS if name not in ON_A_DISK]
    if len(faults) < len(FAULTS):
        print(f"Left out, because no disk can be mounted here: {', '.join(ON_A_DISK)}", file=sys.stderr)
    deadline = time.monotonic() + 60 * minutes
    for seed in seeds:
        for fault, command in itertools.product(faults, WORKLOADS):
            if (command, fault) in SKIPPED or (command in SLOW and seed % 4):
                continue
            parent = multiprocessing.parent_process()
            if time.monotonic() > deadline or (parent is not None and not parent.is_alive()):
                return done
            done.append(bench.disturb(command, fault, seed))
            if done[-1].problem is not None:
                print(f"LOST {done[-1]}", file=sys.stderr, flush=True)
    return done
