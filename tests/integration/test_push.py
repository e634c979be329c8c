"""Artifacts and students to a hub and back, by the real client over HTTP, each in its own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from exported import fine_tune
from hub_server import TOKEN, Hub
from huggingface_hub import ModelCard
from typer.testing import CliRunner

import understudy
from understudy.artifacts.upload import artifact_content
from understudy.cli.app import app
from understudy.errors import HubError, ModelError, OutputError
from understudy.predictor import Predictor
from understudy.workspace.sharing import student_content

TEXTS = ["a good film", "it was awful", "the very very bad movie"]
QUIET = {"max_steps": 2, "report_to": "none", "disable_tqdm": True}
ARTIFACT_FILES = {
    "README.md",
    "artifact.json",
    "config.json",
    "onnx/model.onnx",
    "onnx/model_quantized.onnx",
    "tokenizer.json",
    "tokenizer_config.json",
}
STUDENT_FILES = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="module")
def folders(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A distillation's folder and its artifact."""
    folder = tmp_path_factory.mktemp("shared")
    teacher = fine_tune(encoder, "classification", folder, steps=20)
    settings = {"student.shape": "1l-16d", "prediction.search": None, "prediction.training": QUIET}
    student = folder / "student-of-reviews"
    understudy.distill(teacher, output_dir=student, settings={**settings, "intermediate.training": QUIET})
    understudy.export(student, output_dir=folder / "artifact", speed=False, tolerance=100.0)
    return student, folder / "artifact"


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    yield made
    made.close()


@pytest.fixture
def network(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that reaches this hub, with a token and an empty cache."""
    given = {
        "HF_HUB_DISABLE_XET": "1",  # large files go by Git LFS then, which a test can serve
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
    }
    return os.environ | given


def run(arguments: list[str], network: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=network, timeout=120
    )


# The command on an artifact, as the base install runs it.
PUSH = """
import sys
from understudy.cli import main
try:
    main()
finally:
    assert not {"torch", "transformers"} & set(sys.modules)
"""


def push(folder: Path, *arguments: str, network: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run(["-c", PUSH, "push", str(folder), *arguments], network)


def predictions(name: str, network: dict[str, str], **options: str) -> list[dict[str, object]]:
    """What another process answers that has only the name."""
    code = (
        "import json, sys\nfrom understudy import Predictor\n"
        f"print(json.dumps(Predictor.from_pretrained({name!r}, **{options!r})({TEXTS!r})))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = run(["-c", code], network)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, object]] = json.loads(done.stdout)
    return answers


def test_an_artifact_goes_up_and_comes_back(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str], tmp_path: Path
) -> None:
    _, artifact = folders
    more = shutil.copytree(artifact, tmp_path / "artifact")
    (more / "notes.txt").write_text("not the export's")
    done = push(more, "ada/reviews", "--message", "first one", "--json", network=network)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    files = hub.files("ada/reviews")
    assert set(files) - {".gitattributes"} == set(content["files"]) == ARTIFACT_FILES
    assert content["commit"] == hub.repositories["ada/reviews"].branches["main"]
    assert content["url"] == f"{hub.url}/ada/reviews"
    assert hub.repositories["ada/reviews"].messages == ["first one"]
    assert "understudy predict ada/reviews" in done.stderr
    assert "names no licence" in done.stderr
    assert b'Predictor.from_pretrained("ada/reviews")' in files["README.md"]
    for name in ARTIFACT_FILES - {"README.md"}:
        assert files[name] == (artifact / name).read_bytes()

    expected = Predictor(artifact)(TEXTS)
    assert predictions("ada/reviews", network) == expected
    # Only what a prediction with this model needs.
    cached = [path.name for path in (tmp_path / "hf").rglob("snapshots/*/**/*") if path.is_file()]
    assert sorted(cached) == ["artifact.json", "model_quantized.onnx", "tokenizer.json"]
    fp32 = predictions("ada/reviews", network, model="fp32")
    assert fp32 == Predictor(artifact, model="fp32")(TEXTS)
    # Afterwards the cache is enough.
    assert predictions("ada/reviews", network | {"HF_HUB_OFFLINE": "1"}) == expected
    shell = run(["-m", "understudy", "predict", "ada/reviews", TEXTS[0]], network)
    assert shell.stdout.split("\t")[0] == expected[0]["label"]


def test_a_branch_and_a_private_repository(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str]
) -> None:
    _, artifact = folders
    done = push(artifact, "ada/hidden", "--private", "--revision", "v2", network=network)
    assert done.returncode == 0, done.stderr
    assert "understudy predict ada/hidden@v2" in done.stderr
    assert hub.repositories["ada/hidden"].private
    assert set(hub.files("ada/hidden")) == {".gitattributes"}
    assert set(hub.files("ada/hidden", "v2")) > ARTIFACT_FILES
    expected = Predictor(artifact)(TEXTS)
    assert predictions("ada/hidden", network, revision="v2") == expected
    assert predictions("ada/hidden@v2", network) == expected
    on_main = run(["-m", "understudy", "predict", "ada/hidden", "x"], network)
    assert on_main.returncode == 2
    assert "ada/hidden is not an artifact: it has no artifact.json; it has .gitattributes." in on_main.stderr
    without = network | {"HF_TOKEN": "", "HF_HOME": network["HF_HOME"] + "-other"}
    refused = run(["-m", "understudy", "predict", "ada/hidden@v2", "x"], without)
    assert refused.returncode == 2
    assert "ada/hidden is not a folder here, and the hub refuses it" in refused.stderr


def test_private_is_refused_for_a_public_repository(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str]
) -> None:
    assert push(folders[1], "ada/open", network=network).returncode == 0
    before = len(hub.repositories["ada/open"].commits)
    done = push(folders[1], "ada/open", "--private", network=network)
    assert done.returncode == 2
    assert "ada/open exists and is public, so --private has no effect" in done.stderr
    assert len(hub.repositories["ada/open"].commits) == before


def test_a_student_goes_up_and_loads_with_transformers(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str]
) -> None:
    student, _ = folders
    code = (
        "import understudy\nfrom transformers import AutoModelForSequenceClassification as Model\n"
        f"pushed = understudy.push({str(student)!r}, 'ada/student')\n"
        "assert pushed.kind == 'student'\n"
        f"names = ['ada/student', {str(student / 'student')!r}]\n"
        "there, here = map(Model.from_pretrained, names)\n"
        "pairs = zip(there.state_dict().values(), here.state_dict().values(), strict=True)\n"
        "assert all((one == other).all() for one, other in pairs)"
    )
    done = run(["-c", code], network)
    assert done.returncode == 0, done.stderr
    files = hub.files("ada/student")
    assert set(files) - {".gitattributes"} == STUDENT_FILES
    for name, content in files.items():
        assert str(student.parent).encode() not in content, name
    card = ModelCard(files["README.md"].decode())
    assert card.data.to_dict()["library_name"] == "transformers"
    assert "# student-of-reviews\n" in card.text
    assert 'AutoModelForSequenceClassification.from_pretrained("ada/student")' in card.text
    # It is not an artifact, and the message says how to make one.
    refused = run(["-m", "understudy", "predict", "ada/student", "x"], network)
    assert refused.returncode == 2
    assert "ada/student is a model for transformers, not an artifact" in refused.stderr
    assert "understudy export ada/student" in refused.stderr


def test_what_is_refused_before_anything_is_sent(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str], tmp_path: Path
) -> None:
    _, artifact = folders
    for name in ("reviews", "ada/reviews/4l", "./reviews", "ada/re views", "ada/a--b", "ada/-x", "ada/x.git"):
        with pytest.raises(HubError, match=r"must be user/name, e\.g\. ada/reviews-4l; got"):
            understudy.push(artifact, name)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):  # as it is in tests
        understudy.push(artifact, "ada/reviews")
    with pytest.raises(OutputError, match="nowhere is not a folder"):
        understudy.push(tmp_path / "nowhere", "ada/reviews")
    done = push(artifact, "ada/reviews", network=network | {"HF_TOKEN": ""})
    assert done.returncode == 2
    assert "there is no token for the hub. Run `hf auth login`, or set HF_TOKEN." in done.stderr

    changed = shutil.copytree(artifact, tmp_path / "changed")
    (changed / "tokenizer.json").write_text("{}")
    done = push(changed, "ada/reviews", network=network)
    assert "is not the file that was exported" in done.stderr
    assert hub.requests == []


def test_folders_that_are_neither_or_not_ready(folders: tuple[Path, Path], tmp_path: Path) -> None:
    student, artifact = folders
    (tmp_path / "empty").mkdir()
    with pytest.raises(OutputError, match=r"empty is neither an artifact .* nor a student"):
        student_content(tmp_path / "empty")
    shutil.copytree(student, tmp_path / "run" / "distilled")
    with pytest.raises(OutputError, match=r"It is a whole run: give .*run/artifact or .*run/distilled\."):
        student_content(tmp_path / "run")
    unfinished = shutil.copytree(student, tmp_path / "unfinished")
    (unfinished / "result.json").unlink()
    with pytest.raises(OutputError, match="holds an unfinished run"):
        student_content(unfinished)
    bare = shutil.copytree(artifact, tmp_path / "bare")
    (bare / "README.md").unlink()
    with pytest.raises(OutputError, match=r"has no README\.md, its model card\. Export the student again"):
        artifact_content(bare)


def test_a_student_on_its_own_needs_a_card_of_its_own(folders: tuple[Path, Path], tmp_path: Path) -> None:
    alone = shutil.copytree(folders[0] / "student", tmp_path / "alone")
    (alone / "optimizer.pt").write_bytes(b"")
    (alone / "training").mkdir()
    with pytest.raises(OutputError, match=r"no result\.json with scores to write one from"):
        student_content(alone)
    (alone / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    content = student_content(alone)
    assert content.card.startswith("---\nlicense: mit\n")
    assert set(content.files) == STUDENT_FILES - {"README.md"}


def test_a_teacher_has_a_card_too(folders: tuple[Path, Path]) -> None:
    content = student_content(folders[0].parent / "classification")
    assert set(content.files) == STUDENT_FILES - {"README.md"}
    assert "A model for classification of 0.0M parameters, for transformers." in content.card
    assert "distillation" not in ModelCard(content.card).data.to_dict()["tags"]


def test_a_wrong_token_is_an_error_without_a_traceback(
    folders: tuple[Path, Path], hub: Hub, network: dict[str, str]
) -> None:
    done = push(folders[1], "ada/reviews", network=network | {"HF_TOKEN": "hf_wrong"})
    assert done.returncode == 2
    assert "HubError: ada/reviews cannot be created or opened on the hub" in done.stderr
    assert "Traceback" not in done.stderr
    assert hub.repositories == {}


def test_a_folder_opens_without_the_client(folders: tuple[Path, Path], network: dict[str, str]) -> None:
    code = (
        "import sys\nfrom understudy import Predictor\n"
        f"Predictor.from_pretrained({str(folders[1])!r})\n"
        "print('huggingface_hub' in sys.modules)"
    )
    assert run(["-c", code], network).stdout.strip() == "False"


def test_names_that_are_no_repository(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, artifact = folders
    assert Predictor.from_pretrained(artifact)(TEXTS) == Predictor(artifact)(TEXTS)
    with pytest.raises(ModelError, match=r"is a folder here, which has no revisions; got revision='v2'"):
        Predictor.from_pretrained(artifact, revision="v2")
    with pytest.raises(ModelError, match=r"the artifact: there is no folder .*nowhere"):
        Predictor.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"is neither a folder here nor a repository's name \(user/name\)"):
        Predictor.from_pretrained("nowhere")
    with pytest.raises(ModelError, match="ada/reviews is not a folder here and cannot be downloaded"):
        Predictor.from_pretrained("ada/reviews")  # HF_HUB_OFFLINE=1 in tests
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "nowhere"), "x"])
    assert isinstance(done.exception, ModelError)
