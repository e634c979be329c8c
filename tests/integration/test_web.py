"""A student in a real browser: the same tokens and answers as Predictor, and a page that works offline."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from kinds import EXAMPLES
from pages import ask_pages
from served import example_rows
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import OutputError
from understudy.models.vocabulary import kept_ids, trim_model, trim_tokenizer
from understudy.predictor import Predictor
from understudy.web.site import write_site

MODULES = Path(os.environ.get("BROWSER_MODULES", Path(__file__).parents[2] / ".venv" / "browser")).absolute()
MISSING = [
    name
    for name, there in {
        "Chromium": shutil.which("chromium") or shutil.which("google-chrome"),
        "npm": shutil.which("npm"),
        "playwright-core": (MODULES / "node_modules" / "playwright-core").is_dir(),
    }.items()
    if not there
]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed; make browser installs it"
)


@pytest.fixture(scope="module")
def rows(artifacts: dict[str, Path]) -> dict[str, list[dict[str, Any]]]:
    made = {kind: example_rows(Predictor(folder)) for kind, folder in artifacts.items()}
    # Signs, accents, other scripts and long words: places in the text must still be right.
    context = "café naïve don't 東京 x-ray U.S. ☃ 𝄞 the red cat. " * 9
    made["squad"][3] = {"question": "the cat?", "context": context}
    texts = ("the U.S. cat's café 東京", context, "")
    made["token-classification"][:0] = [{"text": text} for text in texts]
    return made


@pytest.fixture(scope="module")
def trimmed(artifacts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of a model that keeps the tokens of a few words and all single characters."""
    folder = tmp_path_factory.mktemp("trimmed")
    shutil.copytree(artifacts["classification"].with_name(EXAMPLES["classification"].task), folder / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForSequenceClassification.from_pretrained(folder / "model")
    kept = kept_ids(tokenizer, tokenizer("the good film")["input_ids"])
    assert len(kept) < 0.9 * len(tokenizer)
    trim_model(model, kept)
    trim_tokenizer(tokenizer, kept).save_pretrained(folder / "model")
    model.save_pretrained(folder / "model")
    understudy.export(folder / "model", output_dir=folder / "artifact", int8=False, speed=False)
    return folder / "artifact"


@pytest.fixture(scope="module")
def asked(
    artifacts: dict[str, Path],
    trimmed: Path,
    rows: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What the pages of all kinds answer, in one browser."""
    folder = tmp_path_factory.mktemp("sites")
    for kind, artifact in artifacts.items():
        write_site(artifact, folder / kind)
    write_site(artifacts["classification"], folder / "int4", model="int4")
    write_site(trimmed, folder / "trimmed")
    return ask_pages(
        folder,
        {**rows, "int4": rows["classification"], "trimmed": rows["classification"]},
        MODULES,
        pictures=os.environ.get("BROWSER_PICTURES"),
        seconds=600,
    )


def in_characters(prediction: Any, row: dict[str, Any]) -> Any:
    """Turn offsets in UTF-16 units into characters."""
    text = row.get("context", row.get("text", ""))
    units = text.encode("utf-16-le")

    def place(unit: int) -> int:
        return len(units[: 2 * unit].decode("utf-16-le"))

    changed = dict(prediction)
    if "answer" in changed:
        changed |= {name: place(changed[name]) for name in ("start", "end")}
    if "entities" in changed and "words" not in row:
        changed["entities"] = [
            one | {name: place(one[name]) for name in ("start", "end")} for one in changed["entities"]
        ]
    return changed


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return bool(abs(one - other) < 1e-4)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("kind", [*EXAMPLES, "embedding"])
def test_every_kind_answers_as_its_predictor(
    kind: str, artifacts: dict[str, Path], rows: dict[str, Any], asked: dict[str, Any]
) -> None:
    predict = Predictor(artifacts[kind], threads=1)
    expected = [predict(row) for row in rows[kind]]
    found = [in_characters(one, row) for one, row in zip(asked[kind]["predictions"], rows[kind], strict=True)]
    wrong = [
        (row, one, other)
        for row, one, other in zip(rows[kind], expected, found, strict=True)
        if not same(one, other)
    ]
    assert wrong == []
    assert asked[kind]["errors"] == []


def test_a_trimmed_vocabulary_reads_the_same_in_a_browser(
    trimmed: Path, rows: dict[str, Any], asked: dict[str, Any]
) -> None:
    predict = Predictor(trimmed, threads=1)
    for row, found in zip(rows["classification"], asked["trimmed"]["predictions"], strict=True):
        assert same(predict(row), found)


def test_weights_of_4_bits_run_in_a_browser(
    artifacts: dict[str, Path], rows: dict[str, Any], asked: dict[str, Any]
) -> None:
    predict = Predictor(artifacts["classification"], model="int4", threads=1)
    for row, found in zip(rows["classification"], asked["int4"]["predictions"], strict=True):
        assert found["probabilities"] == pytest.approx(predict(row)["probabilities"], abs=1e-2)


@pytest.mark.parametrize("kind", [*EXAMPLES, "embedding"])
def test_the_page_shows_the_answer_with_a_network_and_without(kind: str, asked: dict[str, Any]) -> None:
    shown = asked[kind]["shown"]
    assert shown == asked[kind]["offline"]
    prediction = shown["prediction"]
    label = prediction.get("label") or prediction.get("answer") or ""
    assert label in shown["text"]
    assert shown["text"]


def test_a_folder_in_use_is_refused_and_a_page_is_replaced(
    artifacts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(OutputError, match="is not empty"):
        write_site(artifacts["classification"], tmp_path)
    arguments = ["web", str(artifacts["classification"]), "--output-dir", str(tmp_path / "site")]
    for _ in range(2):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.exception
        assert "a first visit loads" in done.stderr
    package = json.loads((tmp_path / "site" / "package.json").read_text())
    assert (tmp_path / "site" / package["main"]).is_file()
