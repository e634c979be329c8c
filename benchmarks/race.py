"""Do all methods learn a task with the format of RACE: an article, a question, four choices?

RACE itself may not be at hand, so the task is made from Wikipedia: an article is a sentence, the question is
which sentence follows it, and three of the four choices come from other articles. Training and development
rows come from different articles. Chance is 0.25.

    python benchmarks/race.py --assets ../shared/assets --output-dir students

Fine-tunes a teacher, then distils it by each method into a student of three layers. Runs that are already
in the output folder are not repeated. `--quick` makes a few rows and steps and writes no results.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from runs import finish, settings_options

RESULTS = Path(__file__).parent / "results" / "race.json"
METHODS = {
    "tinybert": ("intermediate", "prediction"),
    "soft-labels": ("soft_labels",),
    "patient": ("patient",),
}
QUESTION = "Which sentence follows?"
NUM_CHOICES = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    folder = options.output_dir / ("race-quick" if options.quick else "race")
    num_train, num_dev, steps = (32, 16, 4) if options.quick else (1_600, 360, 200)
    write_race(options.assets / "wiki" / "train-00000-of-00008.parquet", folder / "data" / "train", num_train)
    write_race(options.assets / "wiki" / "validation.parquet", folder / "data" / "dev", num_dev)

    encoder = options.assets / "bert-12l-384h-mlm"
    training = {"max_steps": steps, "per_device_train_batch_size": 8, "learning_rate": 1e-4, "bf16": True}
    common = {"dropout": 0.0, "data.max_length": 96}
    command = ["understudy", "finetune", str(encoder), "--task", "race", "--data", str(folder / "data")]
    command += settings_options({**common, "training": training})
    command += ["--output-dir", str(folder / "teacher")]
    results = {"teacher": finish(command, folder / "teacher")}
    for method, stages in METHODS.items():
        settings: dict[str, Any] = {
            **common,
            "student": {"init": "cut", "layers": "spaced", "num_hidden_layers": 3, "source": str(encoder)},
            **{f"{stage}.training": training for stage in stages},
            **{f"{stage}.search": {} for stage in stages if stage != "intermediate"},
        }
        if method == "tinybert":
            settings["student"]["source"] = str(folder / "teacher")
            settings["intermediate.weights"] = {"attention": 0.02}
        if method == "patient":
            settings |= {"soft_labels.search": {}, "patient.beta": 100}
        command = ["understudy", "distill", str(folder / "teacher"), "--method", method, "--task", "race"]
        command += ["--data", str(folder / "data"), *settings_options(settings)]
        command += ["--output-dir", str(folder / method)]
        results[method] = finish(command, folder / method)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps({name: run["scores"]["accuracy"] for name, run in results.items()}))


def write_race(wiki: Path, folder: Path, num_questions: int) -> None:
    """Files in RACE's layout: `high/NUMBER.txt`, a JSON object each."""
    (folder / "high").mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(make_race(wiki, num_questions)):
        (folder / "high" / f"{number:05d}.txt").write_text(json.dumps(document), "utf-8")


def make_race(wiki: Path, num_questions: int, seed: int = 0) -> list[dict[str, Any]]:
    """RACE documents of one question each, no two from one article."""
    generator = random.Random(seed)
    pairs = [pair for text in _texts(wiki) if (pair := _neighbours(text, generator)) is not None]
    if len(pairs) < num_questions:
        raise SystemExit(f"{wiki} has {len(pairs)} articles that serve; {num_questions} were asked for.")
    documents = []
    for number, (sentence, following) in enumerate(pairs[:num_questions]):
        others = generator.sample([place for place in range(len(pairs)) if place != number], NUM_CHOICES - 1)
        choices = [following, *(pairs[place][1] for place in others)]
        generator.shuffle(choices)
        documents.append(
            {
                "id": f"high{number}.txt",
                "article": sentence,
                "questions": [QUESTION],
                "options": [choices],
                "answers": ["ABCD"[choices.index(following)]],
            }
        )
    return documents


def _texts(wiki: Path) -> Iterator[str]:
    for batch in pq.ParquetFile(wiki).iter_batches(columns=["text"]):
        yield from batch["text"].to_pylist()


def _neighbours(text: str, generator: random.Random) -> tuple[str, str] | None:
    """Two sentences of an article that follow each other, from behind its first, neither short nor long."""
    sentences = [sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)]
    fit = [60 <= len(sentence) <= 160 for sentence in sentences]
    places = [place for place in range(1, len(sentences) - 1) if fit[place] and fit[place + 1]]
    if not places:
        return None
    place = generator.choice(places)
    return sentences[place], sentences[place + 1]


if __name__ == "__main__":
    main()
