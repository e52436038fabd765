"""Runs in the environment of unbabel-comet and torchmetrics: does what it is told, and says how long it took.

python peer_side.py JOB.json, where the job holds the rows and the folder of a tokenizer and a config. Every
line on standard input is a command ("score", "train", "train in bf16"); every answer a line "@@ {json}".
"""

import functools
import json
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")


def build_comet(job):
    from comet.models import RegressionMetric

    model = RegressionMetric(
        nr_frozen_epochs=0.0,
        keep_embeddings_frozen=True,
        encoder_model="XLM-RoBERTa",
        pretrained_model=job["encoder"],
        load_pretrained_weights=False,
        local_files_only=True,
        layer_transformation="softmax",
        hidden_sizes=job["hidden"],
        batch_size=job["batch_size"],
    )
    return model.to(job["device"]).eval()


def score(model, job):
    gpus = int(job["device"] == "cuda")
    model.predict(job["rows"], batch_size=job["batch_size"], gpus=gpus, progress_bar=False)
    model.to(job["device"])  # the trainer that predicts takes it back


def train(model, job, half=False):
    import torch

    model.train()
    rows = [{**row, "score": 0.5} for row in job["train_rows"]]
    optimizer = model.configure_optimizers()[0][0]
    size = job["train_batch_size"]
    for start in range(0, len(rows), size):
        inputs, target = model.prepare_sample(rows[start : start + size], stage="fit")
        optimizer.zero_grad()
        inputs = {name: tensor.to(job["device"]) for name, tensor in inputs.items()}
        target = type(target)(score=target.score.to(job["device"]))
        with torch.autocast(job["device"], torch.bfloat16, enabled=half):
            loss = model.compute_loss(model(**inputs), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    if job["device"] == "cuda":
        torch.cuda.synchronize()
    model.eval()


def answer(content):
    sys.stdout.write("\n@@ " + json.dumps(content) + "\n")
    sys.stdout.flush()


def main():
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import torch

    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    from importlib.metadata import version

    model = build_comet(job)
    answer({"ready": True, "version": version("unbabel-comet"), "torch": torch.__version__})
    commands = {"score": score, "train": train, "train in bf16": functools.partial(train, half=True)}
    for line in sys.stdin:
        start = time.perf_counter()
        commands[line.strip()](model, job)
        answer({"seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
