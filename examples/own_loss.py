"""Distil with a loss of your own: one function of both models' representations.

python examples/own_loss.py TEACHER student/
"""

import sys

from datasets import Dataset
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments

from understudy import DistillationTrainer, FunctionObjectives


# B batch, L tokens, H hidden size
def cosine_loss(student, teacher, batch):
    """Mean squared difference of the cosines between an example's tokens in the last layer: loss_B.

    Cosines do not depend on the width of the states, so no projection is needed.
    """
    mask_BL = batch["attention_mask"]
    pairs_BLL = mask_BL[:, :, None] * mask_BL[:, None, :]
    student_BLH, teacher_BLH = (normalize(side.hidden[-1], dim=-1) for side in (student, teacher))
    difference_BLL = student_BLH @ student_BLH.mT - teacher_BLH.detach() @ teacher_BLH.detach().mT
    return (difference_BLL**2 * pairs_BLL).sum((1, 2)) / pairs_BLL.sum((1, 2))


def main(teacher_name: str, output_dir: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(teacher_name)
    teacher = AutoModelForSequenceClassification.from_pretrained(teacher_name)
    config = AutoConfig.from_pretrained(teacher_name)
    config.num_hidden_layers, config.hidden_size, config.intermediate_size = 1, 16, 32
    student = AutoModelForSequenceClassification.from_config(config)
    texts = ["a good film", "an awful movie", "it was great", "the cat sleeps in the city"] * 8
    rows = Dataset.from_dict(dict(tokenizer(texts)))

    trainer = DistillationTrainer(
        model=student,
        teacher=teacher,
        objectives=FunctionObjectives(cosine_loss, layer_map="uniform", projection="per-layer"),
        args=TrainingArguments(f"{output_dir}/training", max_steps=20, report_to="none", save_strategy="no"),
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(output_dir)


if __name__ == "__main__":
    main(*sys.argv[1:])
