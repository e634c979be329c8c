r"""Is a general student a better start for a task than random weights?

A `tinybert-4l-312d` student learns from the pretrained encoder on Wikipedia's text, and then MRPC, RTE, CoLA
and STS-B in both of TinyBERT's task stages, with three seeds each. It is compared with the same student from
random weights for equally many steps. `pairs` is the general student after some more steps with two segments
per block, on CoLA and STS-B.

    understudy corpus ../shared/assets/wiki --tokenizer ../shared/assets/bert-12l-384h-mlm \
        --output-dir corpora/wiki --workers 2
    understudy general ../shared/assets/bert-12l-384h-mlm --recipe desk-general --corpus corpora/wiki \
        --set student.init=random --set general.training.learning_rate=0.001 \
        --set general.training.max_steps=4500 --set general.training.eval_steps=500 \
        --output-dir students/general
    understudy corpus ../shared/assets/wiki --tokenizer ../shared/assets/bert-12l-384h-mlm \
        --set corpus.pairs=true --output-dir corpora/wiki-pairs --workers 2
    understudy general ../shared/assets/bert-12l-384h-mlm --recipe desk-general --corpus corpora/wiki-pairs \
        --student students/general/student --set general.training.max_steps=400 \
        --set general.training.learning_rate=0.0005 --output-dir students/general-pairs
    python benchmarks/general.py --teachers teachers --output-dir students

`cut` in `benchmarks/results/general_cut_run.json` is a general student that begins as a cut of the pretrained
encoder, fitted to it by least squares; `desk.py` has it on the tasks (`wiki`):

    understudy general ../shared/assets/bert-12l-384h-mlm --recipe desk-general --corpus corpora/wiki-pairs \
        --output-dir students/general-cut

Stores the contents of the runs' result.json, and the curves of the first and the last, in
`benchmarks/results`. Results of general distillation whose folders are missing are left unchanged. Runs on
tasks that are in the results or in the output folder are not repeated, nor those from random weights that
`starts.py` made with the same settings. It can be started twice side by side with different --tasks or
--starts. `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from runs import collect, show_means, students_parser, tinybert_student

RESULTS = Path(__file__).parent / "results" / "general.json"
RUN = RESULTS.with_name("general_run.json")
PAIRS_RUN = RESULTS.with_name("general_pairs_run.json")
CUT_RUN = RESULTS.with_name("general_cut_run.json")
TASKS, SEEDS, STARTS = ("mrpc", "rte", "cola", "stsb"), (1, 2, 3), ("random", "general", "pairs")
PAIRS_TASKS = ("cola", "stsb")
STEPS = {"intermediate": 200, "prediction": 200}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--general", type=Path, default=Path("students/general"))
    parser.add_argument("--pairs", type=Path, default=Path("students/general-pairs"))
    parser.add_argument("--cut", type=Path, default=Path("students/general-cut"))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({start: learn("mrpc", start, 1, options)["scores"] for start in options.starts}))
        return
    keep_run(options.general, RUN, ["losses", "held_out"])
    keep_run(options.pairs, PAIRS_RUN, [])
    keep_run(options.cut, CUT_RUN, ["held_out"])
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    made = json.loads(RESULTS.with_name("starts.json").read_text())
    known = {name: run for name, run in made.items() if "-random-" in name and run["steps"] == STEPS} | known
    RESULTS.write_text(json.dumps(known, indent=2) + "\n")
    for seed in SEEDS:
        for task in options.tasks:
            for start in options.starts:
                if f"{task}-{start}-{seed}" not in known and (start != "pairs" or task in PAIRS_TASKS):
                    learn(task, start, seed, options)
    results = collect(RESULTS, options)
    show_means(results, [f"{task}-{start}" for task in TASKS for start in STARTS])
    print(json.dumps(results))


def keep_run(folder: Path, kept: Path, curves: list[str]) -> None:
    """Keep what a finished general distillation says of itself; nothing if it is not here."""
    if not (folder / "result.json").exists():
        return
    run = json.loads((folder / "result.json").read_text("utf-8"))
    run["model"] = str(folder / "student")  # not where it lies on this machine
    kept.write_text(json.dumps(run, indent=2) + "\n", "utf-8")
    for name in curves:
        shutil.copyfile(folder / f"{name}.csv", kept.with_name(kept.name.replace("run.json", f"{name}.csv")))


def learn(task: str, start: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    shape = {"shape": "tinybert-4l-312d", "init": "random"}
    models = {"general": options.general, "pairs": options.pairs}
    student = {"model": str(models[start] / "student")} if start in models else shape
    settings = {"seed": seed, "student": student}
    return tinybert_student(task, f"{RESULTS.stem}-{task}-{start}-{seed}", settings, STEPS, options)


if __name__ == "__main__":
    main()
