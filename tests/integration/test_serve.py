"""A student behind HTTP: the same answers, the limits, and nothing lost when things change."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from kinds import EXAMPLES
from served import example_rows
from servers import Server

from understudy.errors import DataError, ModelError
from understudy.predictor import Predictor
from understudy.serve import AsyncClient, Client
from understudy.serve.client import ServerError


@pytest.fixture(scope="module")
def server(artifacts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All kinds in one server of one process."""
    named = [f"{kind}={folder}" for kind, folder in artifacts.items()]
    with Server(tmp_path_factory.mktemp("server"), *named, "--workers", "1", "--max-rows", "40") as made:
        yield made


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_answers_as_its_predictor(kind: str, artifacts: dict[str, Path], server: Server) -> None:
    from tritonclient import http as triton

    predict = Predictor(artifacts[kind], threads=1)
    rows = example_rows(predict)
    expected = predict(rows)
    with Client(server.url, model=kind) as client:
        assert client(rows) == expected
        assert client(rows[0]) == predict(rows[0])
    assert httpx.post(f"{server.url}/predict/{kind}", json=rows[0]).json() == predict(rows[0])

    # A client that is not ours, with binary tensors and with JSON.
    caller = triton.InferenceServerClient(server.url.removeprefix("http://"))
    assert caller.is_server_live()
    assert caller.is_model_ready(kind)
    about = caller.get_model_metadata(kind)
    assert [one["name"] for one in about["inputs"]] == list(predict.artifact.fields)
    for binary in (True, False):
        inputs = []
        for name in predict.artifact.fields:
            column = [json.dumps(row[name]) if isinstance(row[name], list) else row[name] for row in rows]
            tensor = triton.InferInput(name, [len(rows)], "BYTES")
            tensor.set_data_from_numpy(np.array(column, dtype=object), binary_data=binary)
            inputs.append(tensor)
        outputs = [triton.InferRequestedOutput(one["name"], binary_data=binary) for one in about["outputs"]]
        answer = caller.infer(kind, inputs, outputs=outputs)
        for one in about["outputs"]:
            name, tensor = one["name"], answer.as_numpy(one["name"])
            assert len(tensor.shape) == len(one["shape"])
            values = [prediction.get(name, False) for prediction in expected]
            if one["datatype"] == "FP32":
                flat = [list(value.values()) if isinstance(value, dict) else value for value in values]
                np.testing.assert_allclose(tensor, flat, atol=1e-6)
            elif one["datatype"] == "BYTES":
                texts = [value.decode() if isinstance(value, bytes) else value for value in tensor]
                assert [text if isinstance(value, str) else json.loads(text)
                        for text, value in zip(texts, values, strict=True)] == values  # fmt: skip
            else:
                assert tensor.tolist() == values


MALFORMED: dict[str, tuple[str, bytes, int]] = {
    "no JSON": ("/predict", b"{", 400),
    "not UTF-8": ("/predict", b'{"text": "\xff"}', 400),
    "a list": ("/predict", b"[]", 400),
    "deep": ("/predict", b"[" * 100_000, 400),
    "nothing": ("/predict", b"", 400),
    "a number for a text": ("/predict", b'{"text": 5}', 400),
    "null for a text": ("/predict", b'{"text": null}', 400),
    "another field": ("/predict", b'{"text": "a", "txt": "b"}', 400),
    "no field": ("/predict", b"{}", 400),
    "rows are a text": ("/predict", b'{"rows": "a"}', 400),
    "rows beside a field": ("/predict", b'{"rows": ["a"], "text": "b"}', 400),
    "half a surrogate pair": ("/predict", b'{"text": "\\ud800"}', 400),
    "half a surrogate pair in a name": ("/predict", b'{"\\ud800": "a"}', 400),
    "half a surrogate pair in a tensor": (
        "/v2/models/classification/infer",
        b'{"id": "\\ud800", "inputs": [{"name": "\\ud800", "shape": [1], "datatype": "BYTES",'
        b' "data": ["a"]}]}',
        400,
    ),
    "nested deeply": ("/predict", b'{"text": ' + b"[" * 900 + b"]" * 900 + b"}", 400),
    "a thousand choices": (
        "/predict/multiple-choice",
        json.dumps({"context": "a", "question": "", "choices": [""] * 1_000}).encode(),
        413,
    ),
    "very many empty words": (
        "/predict/token-classification",
        json.dumps({"words": [""] * 100_001}).encode(),
        413,
    ),
    "another version": ("/v2/models/classification/versions/2/infer", b"{}", 404),
    "too many rows": ("/predict", json.dumps({"rows": ["a"] * 41}).encode(), 413),
    "a long row": ("/predict", json.dumps({"text": "a" * 100_001}).encode(), 413),
    "a large body": ("/predict", b" " * 4_000_001, 413),
    "no such model": ("/predict/none", b"{}", 404),
    "no such path": ("/preddict", b"{}", 404),
    "no inputs": ("/v2/models/classification/infer", b"{}", 400),
    "inputs are a text": ("/v2/models/classification/infer", b'{"inputs": "a"}', 400),
    "a tensor without data": (
        "/v2/models/classification/infer",
        b'{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES"}]}',
        400,
    ),
    "a tensor of numbers": (
        "/v2/models/classification/infer",
        b'{"inputs": [{"name": "text", "shape": [1], "datatype": "FP32", "data": [1]}]}',
        400,
    ),
    "another shape": (
        "/v2/models/classification/infer",
        b'{"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a"]}]}',
        400,
    ),
    "a huge binary tensor": (
        "/v2/models/classification/infer",
        b'{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES",'
        b' "parameters": {"binary_data_size": 99999999}}]}',
        400,
    ),
    "another output": (
        "/v2/models/classification/infer",
        b'{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}],'
        b' "outputs": [{"name": "nonsense"}]}',
        400,
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_with_a_reason(name: str, server: Server) -> None:
    path, body, code = MALFORMED[name]
    answer = httpx.post(server.url + path, content=body)
    assert answer.status_code == code
    assert answer.json()["error"]


def test_random_bytes_are_never_a_fault_of_the_server(server: Server) -> None:
    generator = random.Random(7)
    pieces = [b'{"text":', b'"a"', b"}", b'"rows":', b"[", b"]", b"null", b"1e999", b"\xff\x00", b'"\\u',
              b",", b'{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]}']  # fmt: skip
    with httpx.Client(base_url=server.url) as client:
        for _ in range(300):
            body = b"".join(generator.choices(pieces, k=generator.randint(0, 8)))
            headers = {"inference-header-content-length": str(generator.choice([0, 5, -1, 10**9, "x"]))}
            path = generator.choice(["/predict", "/v2/models/classification/infer", "/predict/squad"])
            code = client.post(
                path, content=body, headers=headers if generator.random() < 0.3 else {}
            ).status_code
            assert code == 200 or 400 <= code < 500, body


def test_metrics_count_requests_rows_and_labels(server: Server, artifacts: dict[str, Path]) -> None:
    def figure(pattern: str) -> float:
        found = re.search(pattern + r"\S* ([\d.e+]+)", httpx.get(f"{server.url}/metrics").text)
        return float(found[1]) if found else 0.0

    label = Predictor(artifacts["classification"])("good film")["label"]
    rows = r'understudy_rows_total\{model="classification"\}'
    given = rf'understudy_predictions_total\{{label="{label}",model="classification"\}}'
    cut = r'understudy_truncated_rows_total\{model="classification"\}'
    before = [figure(one) for one in (rows, given, cut)]
    with Client(server.url, model="classification") as client:
        client(["good film"] * 3)
        client("good " * 500)
    after = [figure(one) for one in (rows, given, cut)]
    assert after[0] - before[0] == 4
    assert after[1] - before[1] in (3, 4)  # the long text may have either label
    assert after[2] - before[2] == 1
    assert figure(r'understudy_requests_total\{code="200",path="/predict/\{name\}"\}') > 0
    assert figure(r"understudy_in_flight") == 1  # the one that asks


def test_the_page_has_a_field_for_each_input(server: Server) -> None:
    page = httpx.get(server.url).text
    assert '<textarea id="text" name="text">' in page
    assert 'fetch("predict/' in page


def test_logs_are_json_with_the_callers_id(server: Server) -> None:
    answer = httpx.post(
        f"{server.url}/predict", json={"text": "secret words"}, headers={"x-request-id": "mine-1"}
    )
    assert answer.headers["x-request-id"] == "mine-1"
    wait_until(lambda: '"mine-1"' in server.log)  # the line is written after the answer
    lines = [json.loads(line) for line in server.log.splitlines() if '"mine-1"' in line]
    assert lines[0]["status"] == 200
    assert lines[0]["rows"] == 1
    assert "secret words" not in server.log


def test_a_key_lets_in_and_is_not_logged(artifacts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("open-sesame\n")
    arguments = [str(artifacts["classification"]), "--workers", "1", "--api-key-file", str(tmp_path / "key")]
    with Server(tmp_path, *arguments) as server:
        assert httpx.get(f"{server.url}/v2/health/live").status_code == 200
        assert httpx.get(f"{server.url}/v2/models/student/ready").status_code == 200
        for headers in ({}, {"authorization": "Bearer open"}, {"authorization": "open-sesame"}):
            assert httpx.post(f"{server.url}/predict", json={"text": "a"}, headers=headers).status_code == 401
        assert httpx.get(f"{server.url}/metrics").status_code == 401
        with Client(server.url) as client, pytest.raises(ServerError, match="401"):
            client("a")
        with Client(server.url, api_key="open-sesame") as client:
            assert client("a")["label"]
        assert "sesame" not in server.log


def test_a_slow_sender_is_cut_off_and_others_go_on(artifacts: dict[str, Path], tmp_path: Path) -> None:
    with Server(tmp_path, str(artifacts["classification"]), "--workers", "1", "--max-seconds", "1") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
            with Client(server.url) as client:
                assert client("a")["label"]
            assert b"408" in slow.recv(1000).splitlines()[0]


def test_clients_come_back_when_they_are_told_to(artifacts: dict[str, Path], tmp_path: Path) -> None:
    with Server(
        tmp_path, str(artifacts["classification"]), "--workers", "1", "--max-in-flight", "1"
    ) as server:

        async def ask() -> list[Any]:
            async with AsyncClient(server.url, retries=20) as client:
                return await asyncio.gather(*(client(["good film"] * 50) for _ in range(12)))

        answers = asyncio.run(ask())
        assert [len(one) for one in answers] == [50] * 12
        assert '"status": 429' in server.log
    with Client(server.url, retries=1) as client, pytest.raises(ServerError, match="does not answer"):
        client("a")


def test_refusals_are_our_errors(server: Server) -> None:
    with Client(server.url, model="classification") as client, pytest.raises(DataError, match="txt"):
        client({"txt": "a"})


class Load:
    """Threads that ask without a pause, each on its own connection, until a server tells them to leave."""

    def __init__(self, url: str, num_threads: int = 4) -> None:
        self.failed: list[str] = []
        self.num_answers = 0
        self._lock, self._stopped, self._url = threading.Lock(), threading.Event(), url
        self._threads = [threading.Thread(target=self._ask) for _ in range(num_threads)]

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as client:
            while not self._stopped.is_set():
                try:
                    answer = client.post("/predict", json={"text": "good film"})
                    problem = None if answer.status_code == 200 else answer.text
                except httpx.HTTPError as error:
                    answer, problem = None, repr(error)
                with self._lock:
                    if problem is not None:
                        self.failed.append(problem)
                    else:
                        self.num_answers += 1
                if answer is not None and answer.headers.get("connection") == "close":
                    return

    def __enter__(self) -> Load:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for one in self._threads:
            one.join()


def wait_until(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_stopping_server_loses_no_answer(artifacts: dict[str, Path], tmp_path: Path) -> None:
    # On a busy machine, a client may take seconds to ask again and learn that it must leave.
    options = ("--workers", "2", "--drain-seconds", "6")
    with (
        Server(tmp_path, str(artifacts["classification"]), *options) as server,
        Load(server.url) as load,
    ):
        wait_until(lambda: load.num_answers > 50)
        assert server.stop() == 0
    assert load.failed == []
    assert "Traceback" not in server.log


def test_a_worker_that_is_killed_is_replaced(artifacts: dict[str, Path], tmp_path: Path) -> None:
    with Server(tmp_path, str(artifacts["classification"]), "--workers", "2") as server:
        wait_until(lambda: len(server.children()) == 2)
        with Client(server.url) as client:
            client("good film")
            before = server.children()
            os.kill(before[0], signal.SIGKILL)
            for _ in range(50):  # the other one answers, and a lost connection is tried again
                assert client("good film")["label"]
            wait_until(lambda: len(server.children()) == 2 and server.children() != before)
            assert client("good film")["label"]
            rows = re.search(r'understudy_rows_total\{model="student"\} ([\d.]+)',
                             httpx.get(f"{server.url}/metrics").text)  # fmt: skip
            assert rows is not None
            assert float(rows[1]) >= 52  # those of the dead worker too


def test_another_artifact_takes_over_and_a_broken_one_does_not(
    artifacts: dict[str, Path], tmp_path: Path
) -> None:
    first, second, broken = (tmp_path / name for name in ("first", "second", "broken"))
    shutil.copytree(artifacts["classification"], first)
    shutil.copytree(artifacts["classification"], second)
    content = json.loads((second / "artifact.json").read_text())
    content["labels"] = ["negative", "positive"]
    (second / "artifact.json").write_text(json.dumps(content))
    shutil.copytree(second, broken)
    (broken / "onnx" / "model.onnx").write_bytes(b"nothing")
    # It opens, and fails at the first prediction: one label too many.
    wrong = shutil.copytree(second, tmp_path / "wrong")
    (wrong / "artifact.json").write_text(json.dumps(content | {"labels": ["a", "b", "c"]}))
    current = tmp_path / "current"
    current.symlink_to(first)

    def switch(target: Path) -> None:
        (tmp_path / "next").symlink_to(target)
        os.replace(tmp_path / "next", current)

    with Server(tmp_path, str(current), "--workers", "2") as server, Client(server.url) as client:

        def labels() -> set[str]:
            # New connections go to either worker.
            answers = [httpx.post(f"{server.url}/predict", json={"text": "a"}).json() for _ in range(10)]
            return {name for one in answers for name in one["probabilities"]}

        assert labels() == {"neg", "pos"}
        with Load(server.url) as load:
            switch(second)
            wait_until(lambda: labels() == {"negative", "positive"})
            switch(broken)
            wait_until(lambda: server.log.count("new artifact rejected, still serving the previous one") == 2)
            assert labels() == {"negative", "positive"}
            switch(wrong)
            wait_until(lambda: server.log.count("new artifact rejected, still serving the previous one") == 4)
            assert labels() == {"negative", "positive"}
            switch(first)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: labels() == {"neg", "pos"})
        assert load.failed == []
        assert client("a")["label"] in ("neg", "pos")


def test_requests_are_traced(artifacts: dict[str, Path]) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from starlette.testclient import TestClient

    from understudy.serve.app import create_app
    from understudy.serve.settings import ServeSettings

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    settings = ServeSettings({"student": str(artifacts["classification"])}, trace=True)
    client = TestClient(create_app(settings))
    assert client.post("/predict", json={"text": "a"}).status_code == 200
    assert [span.name for span in exporter.get_finished_spans()] == ["understudy request"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["a=x", "a=y"], "a is given twice"),
        (["a/b=x"], "a model's name must have"),
    ],
)
def test_mistakes_are_refused_at_the_start(arguments: list[str], message: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from understudy.cli.app import app

    done = CliRunner().invoke(app, ["serve", *arguments])
    assert message in str(done.exception)


def test_other_artifacts_have_no_vectors(artifacts: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="only embedding models make vectors"):
        Predictor(artifacts["classification"]).embed(["a"])
