"""Artifacts in memory: opened, run, and replaced by new ones without a pause."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT
from understudy.data.kind import Prediction
from understudy.predictor import Predictor

logger = logging.getLogger(__name__)

_SHORT = 1_000  # characters, about 250 tokens


@dataclass(frozen=True)
class Loaded:
    """An opened artifact.

    Attributes:
        sample: one of its predictions, which shows the names and types of its outputs.
    """

    predictor: Predictor
    sample: Prediction


class ServedModel:
    """A model with a name, reloaded when its folder changes.

    Attributes:
        name: its name in addresses and metrics.
        form: the form of the artifact to use; None for its default.
        loaded: the artifact in use. Read it once for each request: it may be replaced at any time.
    """

    def __init__(self, name: str, folder: str, *, form: str | None, threads: int) -> None:
        self.name, self._folder, self.form, self._threads = name, folder, form, threads
        self._signature = self._read_signature()
        self._problem = ""
        self.loaded = self._load()

    def _read_signature(self) -> tuple[str, int, int] | None:
        """Return values that change if another artifact replaces the folder, or the link to it."""
        folder = os.path.realpath(Path(self._folder).expanduser())
        try:
            status = (Path(folder) / ARTIFACT).stat()
        except OSError:
            return None
        return folder, status.st_mtime_ns, status.st_ino

    def _load(self) -> Loaded:
        """Open the artifact and make a prediction: one that cannot predict must not take over."""
        # The link is followed once, so that all files belong to one artifact.
        folder = os.path.realpath(Path(self._folder).expanduser())
        predictor = Predictor(folder, model=self.form, threads=self._threads)
        lists = predictor.kind.list_fields
        row = {name: ["a", "b"] if name in lists else "a" for name in predictor.artifact.fields}
        return Loaded(predictor, predictor(row))

    def refresh(self, *, force: bool = False) -> None:
        """Reload the artifact if it has changed. A broken one is tried again later."""
        signature = self._read_signature()
        if signature == self._signature and not force:
            return
        try:
            self.loaded = self._load()
        except Exception as error:  # whatever is wrong with it, the old one stays in use
            if str(error) != self._problem:
                logger.error(
                    "%s: new artifact rejected, still serving the previous one: %s", self.name, error
                )
            self._problem = str(error)
            return
        self._signature, self._problem = signature, ""
        logger.info("%s: now serving the new artifact", self.name)


class Models:
    """The models of a worker.

    Args:
        folders: the folder of each artifact, by name.
    """

    def __init__(self, folders: Mapping[str, str], *, form: str | None, threads: int) -> None:
        self._models = {
            name: ServedModel(name, folder, form=form, threads=threads) for name, folder in folders.items()
        }
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def find(self, name: str | None) -> ServedModel | None:
        """Return a model by name, or the first one; None if there is no such model."""
        return next(iter(self), None) if name is None else self._models.get(name)

    def refresh(self, *, force: bool = False) -> None:
        """Reload every artifact that has changed."""
        for model in self:
            model.refresh(force=force)

    async def predict(self, predictor: Predictor, rows: Sequence[Any], *, is_short: bool) -> list[Prediction]:
        """Return predictions for rows.

        A short text is predicted in this thread: in another one it would take half as long again, because
        that thread's core does not have the model in its cache. Longer requests go to another thread, one at
        a time, so that the event loop is not blocked.

        Args:
            is_short: whether the rows are one text of a few words.
        """
        if is_short:
            return list(predictor(list(rows)))
        loop = asyncio.get_running_loop()
        return list(await loop.run_in_executor(self._thread, predictor, list(rows)))


def is_short(num_texts: int, num_characters: int) -> bool:
    """Return whether texts are predicted so quickly that everything else can wait."""
    return num_texts == 1 and num_characters <= _SHORT
