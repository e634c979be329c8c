"""Does a token classifier find the same entities in raw text as in words?

CoNLL-2003's development set once as its words and once as one string, the words with spaces between them:
F1 of whole entities for both, and how many sentences get other entities.

    understudy finetune ENCODER --recipe desk-finetune-conll2003 --data NER --output-dir teachers/ner
    understudy export teachers/ner --output-dir artifacts/ner
    python benchmarks/raw_text.py artifacts/ner --data NER

Prints one JSON object. `--quick` reads 200 sentences and writes no results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from runs import git_commit, machine
from understudy import Predictor
from understudy.data.decode import entities
from understudy.data.readers import read_conll
from understudy.kinds.token_classification.rows import to_iob2

RESULTS = Path(__file__).parent / "results" / "raw_text.json"
Found = set[tuple[str, int, int]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/assets/ner"))
    parser.add_argument("--model", default="fp32")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    (file,) = (path for path in options.data.rglob("*") if path.stem in ("dev", "valid", "eng.testa"))
    sentences = [row.values for row in read_conll(file, "utf-8") if row.problem is None]
    sentences = sentences[:200] if options.quick else sentences
    predict = Predictor(options.artifact, model=options.model)
    gold = [of_tags(one["words"], one["tags"]) for one in sentences]
    words = predict([{"words": one["words"]} for one in sentences])
    texts = predict([" ".join(one["words"]) for one in sentences])
    by_words = [of_words(one["words"], said["entities"]) for one, said in zip(sentences, words, strict=True)]
    by_text = [{(one["label"], one["start"], one["end"]) for one in said["entities"]} for said in texts]
    results = {
        "sentences": len(sentences),
        "f1_words": round(f1(by_words, gold), 4),
        "f1_raw_text": round(f1(by_text, gold), 4),
        "sentences_that_differ": sum(one != other for one, other in zip(by_words, by_text, strict=True)),
        "commit": git_commit(),
        "machine": machine(),
    }
    print(json.dumps(results))
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def spans(words: list[str]) -> list[tuple[int, int]]:
    """First and last character of each word, with one space between them."""
    found, start = [], 0
    for word in words:
        found.append((start, start + len(word)))
        start += len(word) + 1
    return found


def of_tags(words: list[str], tags: list[str]) -> Found:
    places = spans(words)
    return {
        (label, places[first][0], places[last][1]) for label, first, last in entities(to_iob2(list(tags)))
    }


def of_words(words: list[str], said: list[dict[str, object]]) -> Found:
    places = spans(words)
    return {
        (str(one["label"]), places[int(str(one["start"]))][0], places[int(str(one["end"])) - 1][1])
        for one in said
    }


def f1(found: list[Found], gold: list[Found]) -> float:
    right = sum(len(one & other) for one, other in zip(found, gold, strict=True))
    return 2 * right / (sum(map(len, found)) + sum(map(len, gold)))


if __name__ == "__main__":
    main()
