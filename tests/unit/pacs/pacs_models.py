"""Settings of runs that train tiny dual encoders, and pictures."""

import numpy as np
from PIL import Image

COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250), "white": (250, 250, 250)}


def picture(number=0):
    return Image.fromarray(np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8))


def arguments(folder, output, *more):
    return [
        f"--data.train={folder / 'train.jsonl'}",
        f"--data.validation={folder / 'train.jsonl'}",
        "--data.batch_size=4",
        f"--output={output}",
        "--trainer.max_steps=6",
        "--trainer.val_check_interval=2",
        "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false",
        *more,
    ]
