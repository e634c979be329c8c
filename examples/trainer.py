"""Distil a teacher with models and datasets in memory, as with transformers' Trainer.

    python examples/trainer.py TEACHER student/

TEACHER is a model fine-tuned on two classes: a folder or a hub name. The student is half as deep and learns
its layers, and lands in `student/` as an ordinary model.
"""

import sys

from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainerCallback,
    TrainingArguments,
)

from understudy import DistillationTrainer, TinyBertObjectives


class PrintLosses(TrainerCallback):
    """Prints each term whenever Trainer logs."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        terms = {name: round(value, 4) for name, value in (logs or {}).items() if name.startswith("loss_")}
        if terms:
            print(f"step {state.global_step}: {terms}")


def main(teacher_name: str, output_dir: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(teacher_name)
    teacher = AutoModelForSequenceClassification.from_pretrained(teacher_name)
    # The teacher's layers are needed, not its labels: any text will do.
    texts = ["a good film", "an awful movie", "it was great", "the cat sleeps in the city"] * 8
    rows = Dataset.from_dict(dict(tokenizer(texts, truncation=True, max_length=64)))

    config = AutoConfig.from_pretrained(teacher_name)
    config.num_hidden_layers = max(1, teacher.config.num_hidden_layers // 2)
    student = AutoModelForSequenceClassification.from_config(config)

    trainer = DistillationTrainer(
        model=student,
        teacher=teacher,
        objectives=TinyBertObjectives(layer_map="uniform", weights={"attention": 0.02}),
        args=TrainingArguments(
            output_dir=f"{output_dir}/training",
            num_train_epochs=3,
            per_device_train_batch_size=8,
            learning_rate=1e-3,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=rows,
        eval_dataset=rows,
        processing_class=tokenizer,
        callbacks=[PrintLosses()],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(output_dir)


if __name__ == "__main__":
    main(*sys.argv[1:])
