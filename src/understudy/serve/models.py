"""Artifacts in memory: opened, run one at a time, and swapped for new ones without a pause."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from understudy.artifacts.artifact import ARTIFACT
from understudy.data.kind import Prediction
from understudy.errors import UnderstudyError
from understudy.predictor import Predictor

logger = logging.getLogger(__name__)

_SHORT = 1_000  # characters, about 250 tokens


class ServedModel:
    """An artifact that answers, and is opened anew when its folder changes.

    Attributes:
        name: its name in addresses and metrics.
        predictor: what answers now.
        sample: a prediction of it, which shows the names and types of its outputs.
    """

    def __init__(self, name: str, folder: str, *, form: str | None, threads: int) -> None:
        self.name, self._folder, self._form, self._threads = name, folder, form, threads
        self._seen = self._signature()
        self.predictor, self.sample = self._open()

    def _signature(self) -> tuple[str, int, int] | None:
        """Return what changes if another artifact takes the folder's place, or its link's."""
        folder = os.path.realpath(Path(self._folder).expanduser())
        try:
            status = (Path(folder) / ARTIFACT).stat()
        except OSError:
            return None
        return folder, status.st_mtime_ns, status.st_ino

    def _open(self) -> tuple[Predictor, Prediction]:
        """Open the artifact and make a prediction: what cannot answer must not take over."""
        # The link is followed once, so that all files are of one artifact.
        folder = os.path.realpath(Path(self._folder).expanduser())
        predictor = Predictor(folder, model=self._form, threads=self._threads)
        lists = predictor.kind.list_fields
        row = {name: ["a", "b"] if name in lists else "a" for name in predictor.artifact.fields}
        return predictor, predictor(row)

    def refresh(self, *, force: bool = False) -> bool:
        """Open the artifact anew if it has changed; a broken one is named and the old one goes on.

        Returns:
            Whether a new artifact has taken over.
        """
        signature = self._signature()
        if signature == self._seen and not force:
            return False
        self._seen = signature  # also of a broken one, so that it is not tried every second
        try:
            self.predictor, self.sample = self._open()
        except (UnderstudyError, OSError) as error:
            logger.error("%s: the new artifact is refused, the old one goes on: %s", self.name, error)
            return False
        logger.info("%s: a new artifact answers", self.name)
        return True


class Models:
    """The models of a worker.

    Args:
        folders: names with the folders of their artifacts.
    """

    def __init__(self, folders: Mapping[str, str], *, form: str | None, threads: int) -> None:
        self._models = {
            name: ServedModel(name, folder, form=form, threads=threads) for name, folder in folders.items()
        }
        self._limiter: anyio.CapacityLimiter | None = None

    def __iter__(self) -> Any:
        return iter(self._models.values())

    def find(self, name: str | None) -> ServedModel | None:
        """Return a model by name, or the first one; None if there is no such model."""
        return next(iter(self), None) if name is None else self._models.get(name)

    def refresh(self, *, force: bool = False) -> None:
        """Open every artifact anew that has changed."""
        for model in self:
            model.refresh(force=force)

    async def predict(self, model: ServedModel, rows: Sequence[Any], characters: int) -> list[Prediction]:
        """Return the predictions of a model for rows with so many characters.

        A short text is predicted right here: in another thread it would take half as long again, because
        that thread's core has none of the model in its cache. What takes longer goes to a thread, one at a
        time, so that the event loop goes on.
        """
        predictor = model.predictor  # the same for all rows, whatever takes its place meanwhile
        if characters <= _SHORT:
            return list(predictor(list(rows)))
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(predictor, list(rows), limiter=self._limiter)
