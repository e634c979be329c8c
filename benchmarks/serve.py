"""What does the server add to the Predictor, under load and under faults?

A server with two workers is started as a user would start it, and gets requests of one text each:

- throughput of the bare Predictor in as many processes, and of the server, in turns, as a ratio;
- latency by a closed loop (wrk, at 1, 8, 64 and 256 connections) and by an open loop, where requests come at
  random times whether or not the last was answered;
- faults under load: the artifact is swapped, a worker is killed, the server is stopped, and requests are
  malformed; every failed request is counted;
- batching: would collecting concurrent requests for a few milliseconds pay?

    python benchmarks/serve.py ARTIFACT --texts ../shared/assets/glue/SST-2/dev.tsv

Needs wrk (Debian's package). `--quick` sends fewer requests of every kind, and writes no results.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from understudy.predictor import Predictor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from servers import Server

RESULTS = Path(__file__).parent / "results" / "serve.json"
WORKERS = 2
WRK = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
local bodies = {}
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local place = 0
request = function()
  place = place %% #bodies + 1
  return wrk.format(nil, "/predict", nil, bodies[place])
end
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--texts", type=Path, default=Path("../shared/assets/glue/SST-2/dev.tsv"))
    parser.add_argument("--parts", nargs="+", default=["load", "faults", "soak", "batching"])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    texts = [line.split("\t")[0] for line in options.texts.read_text("utf-8").splitlines()[1:]]
    figures: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        measures = {"load": load, "faults": faults, "soak": soak, "batching": batching}
        for name in options.parts:
            figures |= measures[name](options.artifact, texts, Path(folder), quick=options.quick)
    figures["cpu"] = next(
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    figures |= {"date": time.strftime("%Y-%m-%d"), "commit": commit.stdout.strip()}
    figures["command"] = "python benchmarks/serve.py ARTIFACT --texts ../shared/assets/glue/SST-2/dev.tsv"
    if not options.quick:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))


def say(text: str) -> None:
    print(text, file=sys.stderr)


def load(artifact: Path, texts: list[str], folder: Path, *, quick: bool) -> dict[str, Any]:
    """Measure throughput and latency, in turns with the bare Predictor."""
    seconds, rounds = (3, 1) if quick else (10, 5)
    (folder / "bodies").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    (folder / "post.lua").write_text(WRK % (folder / "bodies"))
    bare, served, overheads = [], [], []
    with Server(folder, str(artifact), "--workers", str(WORKERS), "--max-in-flight", "256") as server:
        wait_for_workers(server)
        alone = Predictor(artifact, threads=1)
        for _ in range(rounds):
            bare.append(bare_throughput(artifact, texts, seconds))
            served.append(wrk(server.url, folder, 8, seconds)["per_second"])
            overheads.append(overhead_ms(server.url, alone, texts[:200]))
            say(
                f"Predictor {bare[-1]:.0f}/s, server {served[-1]:.0f}/s, one text {overheads[-1]:.2f} ms more"
            )
        closed = {str(count): wrk(server.url, folder, count, seconds) for count in (1, 8, 64, 256)}
        for count, row in closed.items():
            say(f"{count:>4} connections: {row}")
        capacity = float(np.median(served))
        opened = {}
        for share in (0.3, 0.6, 0.8):
            opened[f"{share:g}"] = asyncio.run(open_loop(server.url, texts, share * capacity, seconds))
            say(f"open loop at {share:.0%}: {opened[f'{share:g}']}")
        memory = [psutil.Process(pid).memory_info().rss for pid in server.children()]
    ratios = [one / other for one, other in zip(served, bare, strict=True)]
    return {
        "throughput_of_predictor": round(float(np.median(ratios)), 3),
        "median_overhead_ms": round(float(np.median(overheads)), 2),
        "rounds": {"predictor_per_second": bare, "server_per_second": served, "overhead_ms": overheads},
        "closed_loop": closed,
        "open_loop": opened,
        "worker_memory_mb": [round(one / 1e6) for one in memory],
    }


def wait_for_workers(server: Server) -> None:
    while len(server.children()) < WORKERS:
        time.sleep(0.1)
    for _ in range(50):
        httpx.post(f"{server.url}/predict", json={"text": "a"})


def bare_throughput(artifact: Path, texts: list[str], seconds: float) -> float:
    """Return the texts a second of Predictors in as many processes as there are workers."""
    context = multiprocessing.get_context("spawn")
    ready, queue = context.Barrier(WORKERS), context.Queue()
    processes = [
        context.Process(target=predict_for, args=(str(artifact), texts, seconds, ready, queue))
        for _ in range(WORKERS)
    ]
    for one in processes:
        one.start()
    total = sum(queue.get() for _ in processes)
    for one in processes:
        one.join()
    return float(total) / seconds


def predict_for(artifact: str, texts: list[str], seconds: float, ready: Any, queue: Any) -> None:
    predict = Predictor(artifact, threads=1)
    for text in texts[:50]:
        predict(text)
    ready.wait()
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        predict(texts[count % len(texts)])
        count += 1
    queue.put(count)


def overhead_ms(url: str, predict: Predictor, texts: list[str]) -> float:
    """Return how much longer one text takes through the server, in turns with the Predictor."""
    direct, served = [], []
    raw = RawConnection(url)
    for text in texts:
        started = time.perf_counter()
        predict(text)
        middle = time.perf_counter()
        raw.ask(text)
        direct.append(middle - started)
        served.append(time.perf_counter() - middle)
    raw.close()
    return 1000 * float(np.median(served) - np.median(direct))


class RawConnection:
    """A connection that is kept, with as little of its own as possible."""

    def __init__(self, url: str) -> None:
        import socket

        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, text: str) -> bytes:
        self._socket.sendall(request_bytes(text))
        answer = b""
        while True:
            answer += self._socket.recv(65536)
            head, found, body = answer.partition(b"\r\n\r\n")
            if found:
                size = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
                if len(body) >= size:
                    return body

    def close(self) -> None:
        self._socket.close()


def request_bytes(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    return b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def wrk(url: str, folder: Path, connections: int, seconds: int) -> dict[str, float]:
    """Ask in a closed loop: each connection waits for its answer before it asks again."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(folder / "post.lua")]
    text = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    times = {share: to_ms(*re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", text).groups())  # type: ignore[union-attr]
             for share in (50, 75, 90, 99)}  # fmt: skip
    failed = sum(int(one) for one in re.findall(r"(?:connect|read|write|timeout) (\d+)", text))
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return {
        "per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),  # type: ignore[index]
        **{f"p{share}_ms": value for share, value in times.items()},
        "failed": failed + (int(refused[1]) if refused else 0),
    }


def to_ms(number: str, unit: str) -> float:
    return round(float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit], 2)


async def open_loop(url: str, texts: list[str], rate: float, seconds: float) -> dict[str, float]:
    """Ask at random times. A latency counts from when its request was due, not from when it could be sent."""
    host, port = url.removeprefix("http://").split(":")
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    latencies: list[float] = []
    failed = 0

    async def ask(text: str, due: float) -> None:
        nonlocal failed
        try:
            reader, writer = free.pop() if free else await asyncio.open_connection(host, int(port))
            writer.write(request_bytes(text))
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            await reader.readexactly(size)
            failed += b" 200 " not in head.splitlines()[0]
            free.append((reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            failed += 1
        latencies.append(time.perf_counter() - due)

    generator, tasks = random.Random(0), []
    started = due = time.perf_counter()
    while due < started + seconds:
        due += generator.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(texts[len(tasks) % len(texts)], due)))
    await asyncio.gather(*tasks)
    for _, writer in free:
        writer.close()
    p50, p95, p99 = (1000 * np.quantile(latencies, [0.5, 0.95, 0.99])).round(2).tolist()
    return {"rate": round(rate), "requests": len(tasks), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99,
            "failed": failed}  # fmt: skip


class Asking:
    """Threads that ask one request after the other; what fails is kept."""

    def __init__(self, url: str, texts: list[str], *, retries: int = 0, threads: int = 8) -> None:
        self.count, self.failed = 0, list[str]()
        self._url, self._texts, self._retries = url, texts, retries
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(threads)]

    def _ask(self, number: int) -> None:
        from understudy.serve import Client

        generator = random.Random(number)
        with Client(self._url, retries=self._retries) as client, httpx.Client(base_url=self._url) as plain:
            while not self._stopped.is_set():
                text = generator.choice(self._texts)
                try:
                    if self._retries:
                        client(text)
                        left = False
                    else:
                        answer = plain.post("/predict", json={"text": text})
                        answer.raise_for_status()
                        left = answer.headers.get("connection") == "close"
                except Exception as error:
                    left = False
                    with self._lock:
                        self.failed.append(repr(error)[:200])
                with self._lock:
                    self.count += 1
                if left:
                    return

    def __enter__(self) -> Asking:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for one in self._threads:
            one.join()


def faults(artifact: Path, texts: list[str], folder: Path, *, quick: bool) -> dict[str, Any]:
    """Swap artifacts, kill workers, stop servers and send nonsense, under load."""
    swaps, kills, stops, nonsense = (5, 2, 2, 300) if quick else (100, 10, 10, 10_000)
    found = {
        "swaps": swap_artifacts(artifact, texts, folder, swaps),
        "kills": kill_workers(artifact, texts, folder, kills),
        "stops": stop_servers(artifact, texts, folder, stops),
        "malformed": send_nonsense(artifact, folder, nonsense),
    }
    for name, row in found.items():
        say(f"{name}: {row}")
    failed = sum(found[name]["failed"] for name in ("swaps", "kills", "stops"))
    return {"faults": found, "failed_requests": failed + found["malformed"]["server_errors"]}


def swap_artifacts(artifact: Path, texts: list[str], folder: Path, count: int) -> dict[str, Any]:
    copies = [shutil.copytree(artifact, folder / f"copy-{number}") for number in range(2)]
    current, following = folder / "current", folder / "next"
    current.symlink_to(copies[0])
    with (
        Server(folder, str(current), "--workers", str(WORKERS)) as server,
        Asking(server.url, texts) as asking,
    ):
        wait_for_workers(server)
        for number in range(count):
            following.symlink_to(copies[(number + 1) % 2])
            os.replace(following, current)
            while server.log.count("now serving the new artifact") < WORKERS * (number + 1):
                time.sleep(0.05)
    return {"swaps": count, "requests": asking.count, "failed": len(asking.failed)}


def kill_workers(artifact: Path, texts: list[str], folder: Path, count: int) -> dict[str, Any]:
    """The client tries a lost connection again, as any client must when a process dies under it."""
    with (
        Server(folder, str(artifact), "--workers", str(WORKERS)) as server,
        Asking(server.url, texts, retries=4) as asking,
    ):
        for _ in range(count):
            while len(server.children()) < WORKERS:
                time.sleep(0.05)
            time.sleep(0.5)
            os.kill(server.children()[0], signal.SIGKILL)
            time.sleep(1.0)
        while len(server.children()) < WORKERS:
            time.sleep(0.05)
    return {"kills": count, "requests": asking.count, "failed": len(asking.failed)}


def stop_servers(artifact: Path, texts: list[str], folder: Path, count: int) -> dict[str, Any]:
    requests, failed = 0, 0
    for _ in range(count):
        with Server(folder, str(artifact), "--workers", str(WORKERS)) as server:
            with Asking(server.url, texts) as asking:
                while asking.count < 100:
                    time.sleep(0.05)
                server.stop()
            requests, failed = requests + asking.count, failed + len(asking.failed)
    return {"stops": count, "requests": requests, "failed": failed}


def nonsense_bodies(generator: random.Random) -> Iterator[tuple[str, bytes, dict[str, str]]]:
    pieces = [b'{"text":', b'"a"', b"}", b'"rows":', b"[", b"]", b"null", b"1e999", b"\xff\x00", b'"\\ud800"',
              b",", b'{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]}',
              '"☃𝄞\u202e"'.encode(), b"[" * 2000]  # fmt: skip
    while True:
        body = b"".join(generator.choices(pieces, k=generator.randint(0, 8)))
        length = str(generator.choice([0, 5, -1, 10**9, "x"]))
        headers = {"inference-header-content-length": length} if generator.random() < 0.3 else {}
        yield generator.choice(["/predict", "/v2/models/student/infer", "/predict/none"]), body, headers


def send_nonsense(artifact: Path, folder: Path, count: int) -> dict[str, Any]:
    codes: dict[int, int] = {}
    with (
        Server(folder, str(artifact), "--workers", "1") as server,
        httpx.Client(base_url=server.url) as client,
    ):
        client.post("/predict", json={"text": "a"})
        before = psutil.Process(server.process.pid).memory_info().rss
        bodies = nonsense_bodies(random.Random(0))
        for number in range(count):
            path, body, headers = next(bodies)
            if number % 1000 == 999:
                body = b"x" * 100_000_000
            code = client.post(path, content=body, headers=headers, timeout=60).status_code
            codes[code] = codes.get(code, 0) + 1
        grown = psutil.Process(server.process.pid).memory_info().rss - before
    errors = sum(number for code, number in codes.items() if code >= 500)
    return {"requests": count, "codes": dict(sorted(codes.items())), "server_errors": errors,
            "memory_grown_mb": round(grown / 1e6, 1)}  # fmt: skip


def soak(artifact: Path, texts: list[str], folder: Path, *, quick: bool) -> dict[str, Any]:
    """Ask for as many texts as an hour of a busy service, and watch the memory."""
    wanted = 2_000 if quick else 200_000
    (folder / "bodies").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    (folder / "post.lua").write_text(WRK % (folder / "bodies"))
    with Server(folder, str(artifact), "--workers", str(WORKERS)) as server:
        wait_for_workers(server)
        done, failed, memory = 0.0, 0.0, []
        while done < wanted:
            memory.append(sum(psutil.Process(pid).memory_info().rss for pid in server.children()) / 1e6)
            row = wrk(server.url, folder, 16, 5 if quick else 20)
            done, failed = done + row["per_second"] * (5 if quick else 20), failed + row["failed"]
    row = {"requests": round(done), "failed": int(failed), "memory_mb": [round(one) for one in memory]}
    say(f"soak: {row}")
    return {"soak": row}


def batching(artifact: Path, texts: list[str], _: Path, *, quick: bool) -> dict[str, Any]:
    """Compare one text a pass with collecting concurrent texts for some milliseconds, in one process."""
    predict = Predictor(artifact, threads=1)
    found = {}
    for name, window in (("none", None), ("1 ms", 0.001), ("5 ms", 0.005)):
        found[name] = asyncio.run(ask_concurrently(predict, texts, window, 200 if quick else 3_000))
        say(f"window {name}: {found[name]}")
    return {"batching": found}


async def ask_concurrently(
    predict: Predictor, texts: list[str], window: float | None, count: int
) -> dict[str, float]:
    """Return throughput and latency of 32 callers that ask one after the other."""
    loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    waiting: list[tuple[str, asyncio.Future[Any]]] = []
    latencies: list[float] = []

    async def flush() -> None:
        await asyncio.sleep(window or 0)
        taken, waiting[:] = waiting[:], []
        answers = await loop.run_in_executor(pool, predict, [text for text, _ in taken])
        for (_, future), answer in zip(taken, answers, strict=True):
            future.set_result(answer)

    async def ask(text: str) -> None:
        started = time.perf_counter()
        if window is None:
            await loop.run_in_executor(pool, predict, text)
        else:
            future = loop.create_future()
            waiting.append((text, future))
            if len(waiting) == 1:
                tasks.add(asyncio.create_task(flush()))
            await future
        latencies.append(time.perf_counter() - started)

    async def caller(number: int) -> None:
        for place in range(number, count, 32):
            await ask(texts[place % len(texts)])

    tasks: set[asyncio.Task[None]] = set()
    started = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(32)))
    taken = time.perf_counter() - started
    p50, p99 = (1000 * np.quantile(latencies, [0.5, 0.99])).round(2).tolist()
    return {"per_second": round(count / taken, 1), "p50_ms": p50, "p99_ms": p99}


if __name__ == "__main__":
    main()
