"""Settings of runs that train tiny parts of RECAP."""

import torch

LENGTH = ["--trainer.max_steps=6", "--trainer.val_check_interval=2", "--trainer.log_every_n_steps=1"]
QUIET = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]


def common(data, output, *more):
    pairs = data / "pairs.jsonl"
    given = [f"--data.train={pairs}", f"--data.validation={pairs}", "--data.batch_size=4"]
    return [*given, f"--output={output}", *LENGTH, *QUIET, *more]


SIZES = [
    "--model.language_model=null", "--model.train_language_model=true", "--model.tiny.vocabulary=300",
    "--model.tiny.width=16", "--model.tiny.layers=1", "--model.tiny.heads=2", "--model.layers=1",
    "--model.heads=4", "--model.prefix=3", "--model.spread=2", "--model.learning_rate=0.01",
    "--model.warmup_steps=1",
]  # fmt: skip
LATENT = ["--model.hidden=24", "--model.heads=2", "--model.max_tokens=40", "--model.learning_rate=0.01"]


def states(output):
    return torch.load(output / "checkpoints" / "last.ckpt", weights_only=True)
