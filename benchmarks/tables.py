"""Write the tables of README.md and of pages of docs/ from `benchmarks/results`.

    python benchmarks/tables.py

They are placed between markers. A test checks that they match the results.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/LOG.md",
    "docs/results.md",
    "docs/explanation/compared.md",
    "docs/how-to/resume.md",
)
NAMES = {
    "sst2": "SST-2",
    "cola": "CoLA",
    "mrpc": "MRPC",
    "rte": "RTE",
    "stsb": "STS-B",
    "conll2003": "CoNLL-2003 NER",
    "squad": "extractive QA (MLQA English)",
}


def main() -> None:
    for name in PAGES:
        file = ROOT / name
        file.write_text(with_tables(file.read_text("utf-8")), "utf-8")


def with_tables(text: str) -> str:
    """The text with its tables made anew."""
    for mark, (name, make) in TABLES.items():
        if f"<!-- {mark} -->" not in text:
            continue
        table = make(json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text()))
        text = re.sub(
            rf"(<!-- {mark} -->\n).*?(<!-- end -->)",
            lambda marks, table=table: marks[1] + table + marks[2],
            text,
            flags=re.DOTALL,
        )
    return text


def starts_table(results: dict) -> str:
    return _two_ways(results, ("mrpc", "cola", "stsb"), "random", "cut")


def general_table(results: dict) -> str:
    return _two_ways(results, ("mrpc", "rte", "cola", "stsb"), "random", "general")


def general_pairs_table(results: dict) -> str:
    return _two_ways(results, ("cola", "stsb"), "general", "pairs")


def general_losses_table(results: dict) -> str:
    lines = ["| loss on held-out text | before | after |", "|---|---|---|"]
    for term, figure in results["held_out"].items():
        lines.append(f"| {term} | {figure['first']:.4g} | {figure['last']:.4g} |")
    return "\n".join(lines) + "\n"


def deploy_table(results: dict) -> str:
    """Every form of every model, with its score, size and times."""
    lines = [
        "| task | model | form | score | file | 1 text, median (95 %) | 32 texts, median (95 %) |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, content in results["tasks"].items():
        for name, model in content["models"].items():
            who = "teacher" if "teacher" in name else "student"
            metric, score = next(iter(model["scores"].items()))
            rows = {row["batch"]: row for row in content["rows"] if row["model"] == name}
            times = [
                f"{row['median_ms']:.2f} ms ({row['p95_ms']:.2f}), {row['times_faster']:.1f}×"
                for row in (rows[1], rows[32])
            ]
            lines.append(
                f"| {NAMES[task]} | {who} | {model['form']} | {metric} {score:.3f} | "
                f"{model['bytes'] / 1e6:.1f} MB | {' | '.join(times)} |"
            )
    return "\n".join(lines) + "\n"


def large_table(results: dict) -> str:
    """BERT-base's shape in torch against a student of four layers, by shape of the input."""
    lines = [
        "| threads | texts | tokens | BERT-base's shape, torch | student, fp32 | int8 | OpenVINO int8 |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = results["large"]
    shapes = dict.fromkeys((row["threads"], row["batch"], row["length"]) for row in rows)
    for shape in shapes:
        found = [row for row in rows if (row["threads"], row["batch"], row["length"]) == shape]
        cells = [f"{found[0]['median_ms']:.1f} ms"]
        cells += [f"{row['median_ms']:.2f} ms, {row['times_faster']:.1f}×" for row in found[1:]]
        lines.append(f"| {' | '.join(map(str, shape))} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


DESK_TASKS = ("sst2", "cola", "mrpc", "rte", "stsb")
# A way to its row: what it is called, and which of the timed models it is.
DESK_WAYS = {
    "labels": ("labels only, 3 layers of 384", 1),
    "soft-labels": ("soft labels, 3 layers of 384", 1),
    "pkd-skip": ("PKD-Skip, 3 layers of 384", 1),
    "random": ("TinyBERT4, random start, 200 + 200 steps", 2),
    "general": ("TinyBERT4, general start, 200 + 200 steps", 2),
    "cut": ("TinyBERT4, cut, 200 + 200 steps", 2),
    "long": ("TinyBERT4, cut, 600 + 300 steps", 2),
    "augmented": ("the same on augmented rows (RTE 200 + 200 steps)", 2),
    "int8": ("TinyBERT4, cut, **int8**, 600 + 300 steps (RTE 200 + 200)", 4),
}


def desk_table(results: dict) -> str:
    """Every way on every task: the mean of its seeds, and what it keeps of the teacher."""
    speed, metrics, teachers = results["speed"], {}, {}
    for task in DESK_TASKS:
        run = _runs(results, f"{task}-cut-")[0]
        metrics[task] = next(iter(run["scores"]))
        teachers[task] = run["teacher"][metrics[task]]
    heads = [f"{NAMES[task]}, {metrics[task]}" for task in DESK_TASKS]
    lines = [
        f"| | {' | '.join(heads)} | average | of the teacher | parameters | file | 1 text | 32 texts |",
        f"|---|{'---|' * (len(heads) + 6)}",
    ]
    names = list(speed["models"])

    def line(name: str, scores: dict[str, float | None], timed: int) -> str:
        known = [task for task in DESK_TASKS if scores[task] is not None]
        cells = [f"{scores[task]:.3f}" if task in known else "–" for task in DESK_TASKS]
        share = sum(scores[task] for task in known) / sum(teachers[task] for task in known)
        cells.append(
            f"{statistics.mean(scores[task] for task in known):.3f}" if cells.count("–") == 0 else "–"
        )
        model = speed["models"][names[timed]]
        times = {row["batch"]: row["median_ms"] for row in speed["rows"] if row["model"] == names[timed]}
        cells += [
            f"{100 * share:.1f} %",
            f"{model['parameters'] / 1e6:.1f}M",
            f"{model['bytes'] / 1e6:.1f} MB",
        ]
        return f"| {name} | {' | '.join(cells)} | {times[1]:.1f} ms | {times[32]:.0f} ms |"

    lines.append(line("teacher, 12 layers of 384", teachers, 0))
    for way, (name, timed) in DESK_WAYS.items():
        runs = {task: _runs(results, f"{task}-{way}-") for task in DESK_TASKS}
        scores = {task: _mean(found, metrics[task]) if found else None for task, found in runs.items()}
        lines.append(line(name, scores, timed))
    return "\n".join(lines) + "\n"


def desk_six_table(results: dict) -> str:
    """The student of 6 layers of 384 on every task, beside its own teachers."""
    return _student_table(results, "six", "6 layers of 384")


def desk_fitted_table(results: dict) -> str:
    """The fitted student of 4 layers of 312 on every task, beside its own teachers."""
    return _student_table(results, "fitted", "4 layers of 312", labels="alone")


def desk_wiki_table(results: dict) -> str:
    """The student of 4 layers of 312 that went through general distillation first."""
    return _student_table(results, "wiki", "4 layers of 312")


def desk_minilm_table(results: dict) -> str:
    """The public student of 6 layers of 384 on every task."""
    return _student_table(results, "minilm", "all-MiniLM-L6-v2", labels="untaught")


def _student_table(results: dict, way: str, shape: str, *, labels: str | None = None) -> str:
    """One student on every task: fp32, int8, and its steps. Scores are means over seeds.

    Args:
        labels: the way that learns from labels alone, from the same start.
    """
    learnt = {task: _runs(results, f"{task}-{way}-") for task in DESK_TASKS}
    runs = {task: found[0] for task, found in learnt.items()}
    shipped = {task: _runs(results, f"{task}-shipped-{way}-") for task in DESK_TASKS}
    alone = {task: found for task in DESK_TASKS if labels and (found := _runs(results, f"{task}-{labels}-"))}
    metrics = {task: next(iter(run["scores"])) for task, run in runs.items()}
    teachers = [runs[task]["teacher"][metrics[task]] for task in DESK_TASKS]

    def line(name: str, scores: list[float], cells: list[str]) -> str:
        if len(scores) < len(teachers):
            return f"| {name} | {' | '.join(cells)} | | |"
        kept = 100 * sum(scores) / sum(teachers)
        figures = [*cells, f"{statistics.mean(scores):.3f}", f"{kept:.1f} %"]
        return f"| {name} | {' | '.join(figures)} |"

    def scored(name: str, found: dict) -> str:
        figures = [
            _with_interval(found[task], metrics[task]) if task in found else None for task in DESK_TASKS
        ]
        cells = [f"{one[0]:.3f} ({one[1]:.3f}–{one[2]:.3f})" if one else "–" for one in figures]
        return line(name, [one[0] for one in figures if one], cells)

    heads = [f"{NAMES[task]}, {metrics[task]}" for task in DESK_TASKS]
    lines = [
        f"| | {' | '.join(heads)} | average | of the teacher |",
        f"|---|{'---|' * (len(heads) + 2)}",
        line("teacher, 12 layers of 384", teachers, [f"{one:.3f}" for one in teachers]),
        *([scored("labels alone, same start and steps", alone)] if alone else []),
        scored(f"{shape}, fp32", learnt),
        scored(f"{shape}, **int8**", shipped),
    ]
    steps = [" + ".join(map(str, runs[task]["steps"].values())) for task in DESK_TASKS]
    lines.append(f"| steps | {' | '.join(steps)} | | |")
    return "\n".join(lines) + "\n"


def fit_table(results: dict) -> str:
    """A start, its held-out losses before and after the steps, and its score."""
    lines = [
        "| task | start | hidden states, before: layers 1 to 4 | after | score (95 %) | teacher |",
        "|---|---|---|---|---|---|",
    ]
    for name, run in results.items():
        task, start, steps, _ = name.split("-")
        metric, figure = next(iter(run["scores"].items()))
        score = f"{figure['value']:.3f} ({figure['low']:.3f}–{figure['high']:.3f})"
        states = [loss for term, loss in run["held_out"].items() if term.startswith("hidden_")]
        before, after = (", ".join(f"{loss[when]:.3f}" for loss in states) for when in ("first", "last"))
        cells = [f"{NAMES[task]}, {metric}", f"{start}, {steps}", before, after, score]
        lines.append(f"| {' | '.join(cells)} | {run['teacher'][metric]:.3f} |")
    return "\n".join(lines) + "\n"


def desk_seeds_table(results: dict) -> str:
    """The same with intervals and seeds, a task after the other."""
    lines = ["| task | way | metric | mean (95 % of a run): seeds |", "|---|---|---|---|"]
    for task in DESK_TASKS:
        for way, (name, _) in DESK_WAYS.items():
            runs = _runs(results, f"{task}-{way}-")
            for metric in runs[0]["scores"] if runs else ():
                lines.append(f"| {NAMES[task]} | {name} | {metric} | {_seeds(runs, metric)} |")
    return "\n".join(lines) + "\n"


def desk_commands(results: dict) -> str:
    """The command behind each row, of MRPC's first seed."""
    lines = []
    for way, (name, _) in DESK_WAYS.items():
        run = _runs(results, f"mrpc-{way}-")[0]
        lines.append(f"- {name.replace('**', '')}: `{run['command']}`")
    return "\n".join(lines) + "\n"


def ablation_tables(results: dict) -> str:
    """As `understudy ablate` writes them.

    Runs of before intervals over rows and seeds were known say what is so in the mean, and no more.
    """
    from understudy.pipeline.ablate import as_markdown

    for table in results["tables"].values():
        for claim in table["claims"]:
            if "seen" in claim:
                claim["verdict"] = "in the mean" if claim["seen"] else "not seen"
                claim["difference"] = {"value": claim["difference"], "low": None, "high": None}
    return as_markdown(results)


def augmented_table(results: dict) -> str:
    return _two_ways(results, ("mrpc", "cola"), "plain", "augmented")


def _two_ways(results: dict, tasks: tuple[str, ...], first: str, second: str) -> str:
    """Two ways to learn a task side by side, by metric."""
    lines = [
        f"| task | metric | teacher | {first} | {second} | difference |",
        "|---|---|---|---|---|---|",
    ]
    for task in tasks:
        ways = {way: _runs(results, f"{task}-{way}-") for way in (first, second)}
        for metric in ways[second][0]["scores"]:
            lines.append(
                f"| {NAMES[task]} | {metric} | {ways[second][0]['teacher'][metric]:.3f} | "
                f"{_seeds(ways[first], metric)} | {_seeds(ways[second], metric)} | "
                f"{_mean(ways[second], metric) - _mean(ways[first], metric):+.3f} |"
            )
    return "\n".join(lines) + "\n"


def augment_rows_table(results: dict) -> str:
    lines = [
        "| task | rows | tried | duplicates dropped | unchanged dropped | rows written | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, run in results.items():
        names = ("rows", "tried", "duplicates", "unchanged", "written")
        counts = " | ".join(f"{run['augmented'].get(name, 0):,}" for name in names)
        lines.append(f"| {NAMES[task]} | {counts} | {run['seconds']:,.0f} |")
    return "\n".join(lines) + "\n"


def augment_examples(results: dict) -> str:
    lines = ["| task | row | before | after | label |", "|---|---|---|---|---|"]
    for task, run in results.items():
        for example in run["examples"]:
            before, after = (example[name].replace("|", "\\|") for name in ("before", "after"))
            lines.append(f"| {NAMES[task]} | {example['row']} | {before} | {after} | {example['label']} |")
    return "\n".join(lines) + "\n"


def held_out_table(results: dict) -> str:
    terms = list(_runs(results, "mrpc-cut-")[0]["held_out"])
    lines = [f"| task | start | | {' | '.join(terms)} |", f"|---|---|---|{'---|' * len(terms)}"]
    for task in ("mrpc", "cola", "stsb"):
        for start in ("random", "cut"):
            runs = _runs(results, f"{task}-{start}-")
            for when, shown in (("first", "step 0"), ("last", "end")):
                figures = [statistics.mean(run["held_out"][term][when] for run in runs) for term in terms]
                cells = " | ".join(f"{figure:.3g}" for figure in figures)
                lines.append(f"| {NAMES[task]} | {start} | {shown} | {cells} |")
    return "\n".join(lines) + "\n"


def patient_table(results: dict) -> str:
    ways = ("labels", "soft-labels", "pkd-skip", "pkd-last")
    lines = [
        "| task | layers | metric | teacher | labels | soft labels | PKD-Skip | PKD-Last |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in ("mrpc", "rte", "sst2"):
        for layers in (6, 3):
            runs = {way: _runs(results, f"{task}-{layers}l-{way}-") for way in ways}
            first = next((found[0] for found in runs.values() if found), None)
            for metric in first["scores"] if first else ():
                cells = " | ".join(_seeds(runs[way], metric) for way in ways)
                teacher = first["teacher"][metric]
                lines.append(f"| {NAMES[task]} | {layers} | {metric} | {teacher:.3f} | {cells} |")
    return "\n".join(lines) + "\n"


def _runs(results: dict, prefix: str) -> list[dict]:
    return [record for name, record in sorted(results.items()) if name.startswith(prefix)]


def _mean(runs: list[dict], metric: str) -> float:
    return statistics.mean(run["scores"][metric]["value"] for run in runs)


def _with_interval(runs: list[dict], metric: str) -> list[float]:
    """The mean score over seeds, and the mean ends of the interval of a run."""
    figures = [run["scores"][metric] for run in runs]
    return [statistics.mean(one[part] for one in figures) for part in ("value", "low", "high")]


def _seeds(runs: list[dict], metric: str) -> str:
    """The mean, the mean interval of one run over the rows, and each seed's score."""
    if not runs:
        return "not run"
    figures = [run["scores"][metric] for run in runs]
    low, high = (statistics.mean(figure[end] for figure in figures) for end in ("low", "high"))
    values = ", ".join(f"{figure['value']:.3f}" for figure in figures)
    return f"**{_mean(runs, metric):.3f}** ({low:.3f}–{high:.3f}): {values}"


def teachers_table(results: dict) -> str:
    lines = ["| task | rows | metric | dev score (95 %) | minutes |", "|---|---|---|---|---|"]
    for task, name in NAMES.items():
        record = results[task]
        low, high = record["interval"]
        lines.append(
            f"| {name} | {record['rows']['train']:,} | {record['metric'].replace('_', ' ')} | "
            f"{record['score']:.3f} ({low:.3f}–{high:.3f}) | {record['minutes']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def students_table(results: dict) -> str:
    lines = [
        "| task | metric | teacher | labels only | distilled | difference |",
        "|---|---|---|---|---|---|",
    ]
    for task in ("sst2", "mrpc"):
        ways = {
            way: [record for name, record in sorted(results.items()) if name.startswith(f"{task}-{way}-")]
            for way in ("labels", "distilled")
        }
        for metric in ways["distilled"][0]["scores"]:
            values = {
                way: [record["scores"][metric]["value"] for record in records]
                for way, records in ways.items()
            }
            mean = {way: statistics.mean(found) for way, found in values.items()}
            shown = {
                way: f"{mean[way]:.3f} ({', '.join(f'{value:.3f}' for value in found)})"
                for way, found in values.items()
            }
            teacher = ways["distilled"][0]["teacher"][metric]
            lines.append(
                f"| {NAMES[task]} | {metric} | {teacher:.3f} | {shown['labels']} | {shown['distilled']} | "
                f"{mean['distilled'] - mean['labels']:+.3f} |"
            )
    return "\n".join(lines) + "\n"


# A mark in the text to the results it shows and how.
def parity_table(results: dict) -> str:
    """Every loss that the authors' code and ours both have, of one batch with the same weights."""
    lines = ["| loss | theirs | ours | ours without padding |", "|---|---|---|---|"]
    for part in results["parity"].values():
        for name, term in part["terms"].items():
            real = f"{term['ours_without_padding']:.6g}" if "ours_without_padding" in term else ""
            lines.append(f"| {_loss_name(name)} | {term['theirs']:.6g} | {term['ours']:.6g} | {real} |")
    return "\n".join(lines) + "\n"


def _loss_name(name: str) -> str:
    kind, _, setting = name.partition(".")
    if not setting:
        return name.replace("_", " ")
    if kind == "patient":
        return "Patient KD, first tokens" + (", normalised" if setting == "True" else "")
    names = {"soft": "soft labels", "labels": "labels", "total": "half of each"}
    return f"Patient KD, {names[kind]}, T = {setting}"


def peer_steps_table(results: dict) -> str:
    names = {
        "authors": "the authors' task_distill.py",
        "textbrewer": "TextBrewer, GeneralDistiller",
        "ours_padded": "ours, padded to 128 tokens as theirs",
        "ours": "ours, batches of like length",
    }
    ours = results["step"]["ours_padded"]["seconds_a_step"]
    lines = ["| | CPU seconds a step | of ours, padded |", "|---|---|---|"]
    for key, name in names.items():
        seconds = results["step"][key]["seconds_a_step"]
        lines.append(f"| {name} | {seconds:.2f} | {seconds / ours:.2f} |")
    return "\n".join(lines) + "\n"


SAME_WORK = {
    "authors": "the authors' task_distill.py",
    "textbrewer": "TextBrewer, GeneralDistiller",
    "torchdistill": "torchdistill, DistillationBox",
    "theirs": "ours, with the authors' losses",
    "ours": "ours, `desk-tinybert-mrpc`",
}


def same_work_table(results: dict) -> str:
    """Score, time and memory of both task stages by each tool, and what its user writes."""
    lines = [
        "| task | | score (95 % of a run): seeds | CPU seconds | real tokens a second | memory | lines |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in ("mrpc", "cola"):
        for tool, name in SAME_WORK.items():
            runs = _runs(results, f"{task}-{tool}-")
            if not runs:
                continue
            metric = next(iter(runs[0]["scores"]))
            means = {
                key: statistics.mean(run[key] for run in runs)
                for key in ("cpu_seconds", "real_tokens_a_second", "peak_mb")
            }
            lines.append(
                f"| {NAMES[task]}, {metric} | {name} | {_seeds(runs, metric)} | {means['cpu_seconds']:.0f} | "
                f"{means['real_tokens_a_second']:.0f} | {means['peak_mb'] / 1000:.1f} GB | "
                f"{runs[0].get('lines', '–')} |"
            )
    return "\n".join(lines) + "\n"


def peer_augmentation_table(results: dict) -> str:
    lines = [
        "| | rows | theirs | ours | times faster | in the algorithm's order | candidates in both |"
        " rows written for each: theirs, ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, found in results["augmentation"].items():
        lines.append(
            f"| {NAMES[task]} | {found['rows']} | {found['authors']['seconds']:.0f} s |"
            f" {found['ours']['seconds']:.1f} s | {found['speedup']:.1f} |"
            f" {found['speedup_sequential']:.2f} |"
            f" {100 * found['candidates_in_both']:.0f} % |"
            f" {found['authors']['written_a_row']:.1f}, {found['ours']['written_a_row']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def alternatives_table(results: dict) -> str:
    """Each alternative's score on each task, and its time and size on the first."""
    tasks = {task: results["tasks"][task] for task in DESK_TASKS if task in results["tasks"]}
    names = dict.fromkeys(name for found in tasks.values() for name in found)
    metrics = {task: next(iter(found.values()))["score"]["metric"] for task, found in tasks.items()}
    heads = [f"{NAMES[task]}, {metric}" for task, metric in metrics.items()]
    lines = [
        "| | " + " | ".join(heads) + " | CPU ms, one text | MB | CPU minutes of training |",
        "|---|" + "---|" * (len(heads) + 3),
    ]
    for name in names:
        found = {task: figures[name] for task, figures in tasks.items() if name in figures}
        scores = [f"{found[task]['score']['value']:.3f}" if task in found else "" for task in tasks]
        times, sizes, trained = (
            [one[key] for one in found.values() if key in one]
            for key in ("milliseconds", "megabytes", "seconds")
        )
        minutes = _span([value / 60 for value in trained])
        lines.append(f"| {name} | {' | '.join(scores)} | {_span(times)} | {_span(sizes)} | {minutes} |")
    return "\n".join(lines) + "\n"


def embeddings_table(results: dict) -> str:
    """Each embedding model as shipped, with its scores and the share that it keeps of its teacher's."""
    metrics = ("stsb_spearman", "mrpc_average_precision", "qnli_mrr_at_10")
    searched = ("nfcorpus_ndcg_at_10", "scifact_ndcg_at_10")
    heads = ["STS-B Spearman", "MRPC average precision", "QNLI MRR@10", "NFCorpus nDCG@10", "SciFact nDCG@10"]
    lines = [
        f"| | {' | '.join(heads)} | kept of STS-B and QNLI | neighbours kept | file |",
        "|---" * (len(heads) + 4) + "|",
    ]
    for name, run in results.items():
        if not isinstance(run, dict):
            continue
        model, _, way = name.partition("-")
        is_teacher = way == "teacher"
        for form in ("fp32", "int8") if is_teacher else ("int8",):
            found = run[form]
            cells = [_interval(found["scores"][metric]) for metric in metrics]
            cells += [
                f"{found['scores'][metric]['value']:.3f}" if metric in found["scores"] else ""
                for metric in searched
            ]
            kept = " and ".join(f"{found['kept_percent'][metric]:.1f}" for metric in metrics[::2])
            neighbours = f"{100 * found['closeness']['neighbours']:.0f} %"
            cells += ["", "", ""] if is_teacher and form == "fp32" else [f"{kept} %", neighbours, ""]
            cells[-1] = f"{found['megabytes']:.1f} MB"
            label = f"teacher, {form}" if is_teacher else _way_name(way)
            lines.append(f"| {EMBEDDING_TEACHERS[model]}: {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _way_name(way: str) -> str:
    shape, _, name = way.rpartition("-")
    layers, width = re.fullmatch(r"(\d+)l-(\d+)d", shape).groups()
    return f"{layers} layers of {width}, {EMBEDDING_WAYS[name]}"


def _interval(score: dict) -> str:
    return f"{score['value']:.3f} ({score['low']:.3f}–{score['high']:.3f})"


EMBEDDING_TEACHERS = {"minilm": "all-MiniLM-L6", "mpnet": "all-mpnet-base"}
EMBEDDING_WAYS = {"cut": "cut, untrained", "vectors": "vectors alone", "layers": "layers, then vectors"}


def embedding_speed_table(results: dict) -> str:
    lines = ["| | CPU ms, one text | CPU ms, 32 texts | file |", "|---|---|---|---|"]
    for name, found in results["models"].items():
        times = " | ".join(f"{found[key]['median']:.3g}" for key in ("cpu_ms_1", "cpu_ms_32"))
        lines.append(f"| {name} | {times} | {found['megabytes']:.1f} MB |")
    return "\n".join(lines) + "\n"


def faults_table(results: dict) -> str:
    """What was done to all commands, and whether they ended as undisturbed."""
    return _counted(results["rows"], "fault", FAULTS)


def faulted_commands_table(results: dict) -> str:
    return _counted(results["rows"], "command", {})


def _counted(rows: list[dict], key: str, names: dict[str, str]) -> str:
    lines = [f"| {key} | tries | times disturbed | ended as undisturbed | lost |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row[key] for row in rows):
        counts = [
            sum(row[count] for row in rows if row[key] == name)
            for count in ("tries", "faults", "survived", "lost")
        ]
        lines.append(f"| {names.get(name, name)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def _span(values: list[float]) -> str:
    """The smallest and the largest, or the one there is."""
    shown = [f"{value:.1f}" for value in (min(values), max(values))] if values else [""]
    return "–".join(dict.fromkeys(shown))


FAULTS = {
    "SIGKILL": "killed (SIGKILL)",
    "SIGTERM": "asked to end (SIGTERM)",
    "SIGINT": "Ctrl-C (SIGINT)",
    "SIGSTOP": "stopped for a while (SIGSTOP)",
    "power": "killed, and what was not synced is lost (power)",
    "damage": "killed, and a file is flipped, cut or swapped",
    "disk error": "one change to a file fails: EIO, quota, full, no permission, read-only",
    "disk full": "a disk that is too small, then with room",
    "read-only disk": "killed, then the disk is read-only, then writable",
    "two at once": "a second process with --overwrite in the same folder",
}

TABLES = {
    "teachers": ("teachers", teachers_table),
    "students": ("students", students_table),
    "starts": ("starts", starts_table),
    "held-out": ("starts", held_out_table),
    "patient": ("patient", patient_table),
    "augmented": ("augmented", augmented_table),
    "general": ("general", general_table),
    "general-pairs": ("general", general_pairs_table),
    "general-losses": ("general_run", general_losses_table),
    "general-cut-losses": ("general_cut_run", general_losses_table),
    "deploy": ("deploy", deploy_table),
    "deploy-large": ("deploy", large_table),
    "augment-rows": ("augment_rows", augment_rows_table),
    "augment-examples": ("augment_rows", augment_examples),
    "desk": ("desk", desk_table),
    "desk-six": ("desk", desk_six_table),
    "desk-fitted": ("desk", desk_fitted_table),
    "desk-wiki": ("desk", desk_wiki_table),
    "desk-minilm": ("desk", desk_minilm_table),
    "fit": ("fit", fit_table),
    "desk-seeds": ("desk", desk_seeds_table),
    "desk-commands": ("desk", desk_commands),
    "ablations": ("ablations", ablation_tables),
    "parity": ("peers", parity_table),
    "peer-steps": ("peers", peer_steps_table),
    "same-work": ("same_work", same_work_table),
    "peer-augmentation": ("peers", peer_augmentation_table),
    "alternatives": ("alternatives", alternatives_table),
    "embeddings": ("embeddings", embeddings_table),
    "embedding-speed": ("embedding_speed", embedding_speed_table),
    "faults": ("faults", faults_table),
    "faulted-commands": ("faults", faulted_commands_table),
}

if __name__ == "__main__":
    main()
