"""The errors a user can cause and mend. Each message says what was expected, what came, and what to do."""

from __future__ import annotations


class UnderstudyError(Exception):
    """Base of every error that is the user's to mend; the command line prints it without a traceback."""


class MissingExtraError(UnderstudyError, ImportError):
    """A package of an extra is not installed."""

    @classmethod
    def of(cls, error: ModuleNotFoundError) -> MissingExtraError:
        """Say which extra has the module that was not found."""
        return cls(
            f"this needs the package {error.name}, which is not installed: "
            "pip install 'understudy-distill[train]'"
        )


class DataError(UnderstudyError):
    """A file, a column or a row is not what the task needs."""


class RecipeError(UnderstudyError):
    """A recipe names something that does not exist, or gives it a value that cannot be."""


class ModelError(UnderstudyError):
    """A model or tokenizer cannot be loaded, or does not fit the task."""


class OutputError(UnderstudyError):
    """An output folder cannot be used as it is."""


class TrainingError(UnderstudyError):
    """Training cannot go on: a loss is no number any more."""


class PreflightError(UnderstudyError):
    """A run would fail later: everything that was found, each with what to do."""
