"""A small hub on this machine: the endpoints that huggingface_hub uses to upload and download a model."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_test"


@dataclass
class Repository:
    """Branches to commits, commits to files."""

    private: bool
    branches: dict[str, str]
    commits: dict[str, dict[str, bytes]]
    messages: list[str] = field(default_factory=list)

    def resolve(self, revision: str) -> str | None:
        commit = self.branches.get(revision, revision)
        return commit if commit in self.commits else None


class Hub:
    """The server; `repositories` is what it holds, `requests` what it was asked."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[str] = []
        hub = self

        class Handler(_Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def files(self, repo: str, branch: str = "main") -> dict[str, bytes]:
        repository = self.repositories[repo]
        return repository.commits[repository.branches[branch]]


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._read_repository()

    def do_HEAD(self) -> None:
        self._read_repository()

    def do_PUT(self) -> None:
        """A large file, under its SHA-256."""
        self._start()
        oid, content = self.path.rpartition("/")[2], self._body()
        assert hashlib.sha256(content).hexdigest() == oid
        self.state.blobs[oid] = content
        self._answer({})

    def do_POST(self) -> None:
        parts, body = self._start(), self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._refuse(401, "Invalid credentials")
        if parts == ["api", "repos", "create"]:
            return self._create(json.loads(body))
        if parts == ["api", "validate-yaml"]:
            return self._answer({"errors": _card_errors(json.loads(body)["content"]), "warnings": []})
        if parts[-4:] == ["info", "lfs", "objects", "batch"]:
            return self._large_files(json.loads(body))
        _, _, user, name, action, branch = parts
        repository = self.state.repositories[f"{user}/{name}"]
        if action == "branch":
            if branch in repository.branches:
                return self._refuse(409, "Reference already exists")
            repository.branches[branch] = repository.branches["main"]
            return self._answer({})
        if action == "preupload":
            return self._answer({"files": [_upload_mode(file["path"]) for file in json.loads(body)["files"]]})
        assert action == "commit", self.path
        return self._commit(f"{user}/{name}", branch, [json.loads(line) for line in body.splitlines()])

    def _start(self) -> list[str]:
        path = urlsplit(self.path).path
        self.state.requests.append(f"{self.command} {path}")
        return [unquote(part) for part in path.strip("/").split("/")]

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        content = b""
        while size := int(self.rfile.readline(), 16):  # chunked
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.state.repositories:
            there = {"error": "You already created this model repo", "url": f"{self.state.url}/{name}"}
            return self._send(409, json.dumps(there).encode(), {})
        first = hashlib.sha1(name.encode()).hexdigest()
        self.state.repositories[name] = Repository(
            asked.get("visibility") == "private", {"main": first}, {first: {".gitattributes": b""}}
        )
        return self._answer({"url": f"{self.state.url}/{name}"})

    def _large_files(self, asked: dict[str, Any]) -> None:
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.state.url}/large/{one['oid']}"}}}
            for one in asked["objects"]
        ]
        self._answer({"transfer": "basic", "objects": objects})

    def _commit(self, repo: str, branch: str, lines: list[dict[str, Any]]) -> None:
        repository = self.state.repositories[repo]
        files = dict(repository.commits[repository.branches[branch]])
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                repository.messages.append(value["summary"])
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert line["key"] == "lfsFile"
                files[value["path"]] = self.state.blobs[value["oid"]]
        commit = hashlib.sha1(repr((sorted(files.items()), repository.messages)).encode()).hexdigest()
        repository.commits[commit] = files
        repository.branches[branch] = commit
        self._answer({"commitOid": commit, "commitUrl": f"{self.state.url}/{repo}/commit/{commit}"})

    def _read_repository(self) -> None:
        parts = self._start()
        user, name, *rest = parts[2:] if parts[:2] == ["api", "models"] else parts
        repository = self.state.repositories.get(f"{user}/{name}")
        allowed = repository is not None and (
            not repository.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"
        )
        if repository is None or not allowed:
            return self._refuse(404, "Repository not found", "RepoNotFound")
        commit = repository.resolve(rest[1] if rest else "main")
        if commit is None:
            return self._refuse(404, "Invalid rev id", "RevisionNotFound")
        files = repository.commits[commit]
        if rest[:1] == ["resolve"]:
            return self._file(commit, files.get("/".join(rest[2:])))
        if rest[:1] == ["tree"]:
            return self._answer(
                [{"type": "file", "path": path, "size": len(one), "oid": ""} for path, one in files.items()]
            )
        return self._answer(
            {
                "id": f"{user}/{name}",
                "sha": commit,
                "private": repository.private,
                "siblings": [{"rfilename": path} for path in files],
            }
        )

    def _file(self, commit: str, content: bytes | None) -> None:
        if content is None:
            return self._refuse(404, "Entry not found", "EntryNotFound")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        return self._send(200, content, headers)

    def _refuse(self, status: int, message: str, code: str = "") -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _answer(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _upload_mode(path: str) -> dict[str, Any]:
    mode = "lfs" if path.endswith((".onnx", ".safetensors")) else "regular"
    return {"path": path, "uploadMode": mode, "shouldIgnore": False}


def _card_errors(card: str) -> list[dict[str, str]]:
    """What the hub refuses: no metadata, or values of another type."""
    try:
        data = yaml.safe_load(card.split("---\n")[1])
        wrong = [name for name in ("library_name", "pipeline_tag") if not isinstance(data[name], str)]
        wrong += [name for name in ("tags", "model-index") if not isinstance(data[name], list)]
    except (IndexError, KeyError, yaml.YAMLError) as error:
        return [{"message": str(error)}]
    return [{"message": f"{name} is of another type"} for name in wrong]
