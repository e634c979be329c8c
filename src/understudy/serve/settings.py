"""The settings of a server: its models, its limits and its key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from understudy.artifacts.artifact import shipped_inside
from understudy.errors import RecipeError

# A worker process reads its settings from this variable: it is a new process and inherits nothing else.
VARIABLE = "UNDERSTUDY_SERVE"
# prometheus_client sums the metrics of several processes over the files in this folder.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True)
class Limits:
    """The largest requests that are accepted.

    Attributes:
        body_bytes: size of a request.
        rows: rows of a request.
        characters: characters of a row.
        in_flight: requests that one worker handles at a time; others are asked to retry (429).
        seconds: time for a request to arrive, and again for its answer.
    """

    body_bytes: int = 4_000_000
    rows: int = 256
    characters: int = 100_000
    in_flight: int = 64
    seconds: float = 30.0


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a server.

    Attributes:
        models: the folder of each artifact, by name; the first one is used if a request names none.
        form: the form of the artifacts to use, e.g. `fp32`. Defaults to each artifact's own choice.
        threads: threads of a forward pass, in each worker.
        api_key_file: a file with the key that requests must send; None for no key.
        drain_seconds: how long a worker keeps answering after SIGTERM, asking clients to leave.
        trace: whether requests are traced with OpenTelemetry.
    """

    models: Mapping[str, str]
    form: str | None = None
    threads: int = 1
    limits: Limits = field(default_factory=Limits)
    api_key_file: str | None = None
    drain_seconds: float = 2.0
    trace: bool = False

    def write(self) -> None:
        """Put the settings into the environment, for worker processes."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def read(cls) -> ServeSettings:
        """Return the settings that `write` has put into the environment."""
        content = json.loads(os.environ[VARIABLE])
        return cls(**content | {"limits": Limits(**content["limits"])})

    def api_key(self) -> str | None:
        """Return the key in the file, without its line ending."""
        if self.api_key_file is None:
            return None
        try:
            key = Path(self.api_key_file).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"--api-key-file {self.api_key_file} cannot be read: {error}") from None
        if not key:
            raise RecipeError(f"--api-key-file {self.api_key_file} is empty. Write a key into it.")
        return key


def name_models(given: list[str]) -> dict[str, str]:
    """Return artifacts by name: `name=FOLDER`, or a folder, which is called `student`.

    >>> name_models(["artifacts/sst2"]), name_models(["a=artifacts/one", "b=artifacts/two"])
    ({'student': 'artifacts/sst2'}, {'a': 'artifacts/one', 'b': 'artifacts/two'})
    """
    models: dict[str, str] = {}
    for one in given:
        name, equals, folder = one.partition("=")
        if not equals or Path(one).expanduser().exists():
            name, folder = "student", one
        if not name or not all(letter.isalnum() or letter in "._-" for letter in name):
            raise RecipeError(f"a model's name must have letters, digits, dots and dashes; got {name!r}.")
        if name in models:
            raise RecipeError(f"{name} is given twice. Name each model: a=FOLDER b=FOLDER.")
        models[name] = str(shipped_inside(folder))
    return models
