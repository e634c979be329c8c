"""Ten defects planted by hand, to show that the suite would find them. The product knows nothing of them.

Each is a function that patches the process of a command, before the command runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def no_sync() -> None:
    """Files get their names before they are on the disk."""
    import understudy.files

    understudy.files.sync = lambda path: None


def no_checkpoint_hashes() -> None:
    """Any folder named like a checkpoint is resumed from."""
    import understudy.training.checkpoint

    understudy.training.checkpoint.is_whole_folder = lambda folder: True


def no_shard_hashes() -> None:
    """A shard that exists is taken as it is."""
    import understudy.stages.augment
    import understudy.workspace.corpus_shards

    understudy.stages.augment.is_whole = Path.exists
    understudy.workspace.corpus_shards.is_whole = Path.exists


def no_random_state() -> None:
    """A resumed run draws other dropout."""
    from transformers import Trainer

    Trainer._load_rng_state = lambda self, checkpoint: None  # type: ignore[method-assign]


def other_order() -> None:
    """A resumed run reads from the start of its epoch, instead of where it stopped."""
    import transformers.trainer

    transformers.trainer.skip_first_batches = lambda loader, count: loader


def no_optimizer_state() -> None:
    """A resumed run begins with an empty optimizer."""
    from transformers import Trainer

    Trainer._load_optimizer_and_scheduler = lambda self, checkpoint: None  # type: ignore[method-assign]


def one_step_more() -> None:
    """A run that is resumed from its last step takes another one, as Trainer does."""
    from transformers import Trainer

    from understudy.training.trainer import OrderedTrainer

    OrderedTrainer._run_epoch = Trainer._run_epoch  # type: ignore[method-assign]


def writes_in_place() -> None:
    """Files are written under their names, bit by bit."""
    import understudy.files

    def write(path: Path, content: Any) -> None:
        if isinstance(content, str):
            with path.open("w", encoding="utf-8") as file:
                for start in range(0, len(content), 100):
                    file.write(content[start : start + 100])
                    file.flush()
                    os.truncate(path, file.tell())  # a moment to be killed in
        else:
            content(path)

    _replace_everywhere(understudy.files.write_atomically, write)


def result_first() -> None:
    """The run is marked as finished before its model is saved."""
    import understudy.stages.finetune as stage

    save = stage.save_model

    def save_late(model: Any, tokenizer: Any, folder: Path, config: Any) -> None:
        (folder / "result.json").write_text("{}", "utf-8")
        save(model, tokenizer, folder, config)

    stage.save_model = save_late


def no_lock() -> None:
    """Two processes may write to one folder."""
    import understudy.workspace.lock

    @contextlib.contextmanager
    def free(output_dir: Path | None) -> Iterator[None]:
        yield

    understudy.workspace.lock.only_process_in = free


def _replace_everywhere(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Replace a function in every module of ours that has imported it."""
    import sys

    for name, module in list(sys.modules.items()):
        if name.startswith("understudy") and getattr(module, old.__name__, None) is old:
            setattr(module, old.__name__, new)


@dataclass(frozen=True)
class Planted:
    """A defect, and the command and the fault that show it."""

    plant: Callable[[], None]
    command: str
    fault: str


DEFECTS: dict[str, Planted] = {
    one.plant.__name__: one
    for one in (
        Planted(no_sync, "corpus", "power"),
        Planted(no_checkpoint_hashes, "finetune", "SIGKILL"),
        Planted(no_shard_hashes, "corpus", "damage"),
        Planted(no_random_state, "finetune", "SIGKILL"),
        Planted(other_order, "finetune", "SIGKILL"),
        Planted(no_optimizer_state, "finetune", "SIGKILL"),
        Planted(one_step_more, "distill joint", "SIGKILL"),
        Planted(writes_in_place, "corpus", "SIGKILL"),
        Planted(result_first, "finetune", "SIGKILL"),
        Planted(no_lock, "augment", "two at once"),
    )
}


def plant(name: str) -> None:
    """Plant a defect in this process."""
    DEFECTS[name].plant()
