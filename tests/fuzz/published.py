"""Readers of what benchmarks are published as: pickled arrays, and each its own layout."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.fuzz import mutations as change
from tests.fuzz.readers import ANNOTATIONS, BY_SUFFIX, Made, Reader, lines_of


def _pickled(folder: Path) -> Made:
    """Pickled arrays as benchmarks publish them."""
    import numpy as np

    from suisei.data.benchmarks.pickled import read_pickled, read_pickled_array
    from suisei.errors import SuiseiError

    path = folder / "array.pkl"
    contents = [
        np.array([["a", "犬"], ["b", "c"]]), np.array([1.5, 2]), [["a", "b"], ["c"]], {"a": [1, {"b": None}]},
        np.array(["a", ["b"]], dtype=object), [np.float64(0.5), np.int64(3)],
    ]  # fmt: skip
    seeds = [pickle.dumps(content, protocol) for content in contents for protocol in (0, 2, 4, 5)]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for function in (read_pickled_array, read_pickled):
            try:
                function(path)
            except SuiseiError:
                continue

    return seeds, read


def _benchmarks(folder: Path) -> Made:
    """Layouts of published benchmarks: every one reads the same few files, whatever they are called."""
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.benchmarks.hub import caption_list, read_table
    from suisei.errors import SuiseiError

    files = {
        "flickr8k-expert": ("ExpertAnnotations.txt", b"1.jpg\t2.jpg#0\t1\t2\t3\n"),
        "thumb": (
            "mscoco_THumB-1.0.jsonl",
            lines_of(
                [{"image": "a.jpg", "SYS": "x", "hyp": "a", "seg_id": "1", "human_score": 3.5, "refs": ["b"]}]
            ),
        ),
        "jsts": (
            "valid-v1.3.json",
            lines_of(
                [
                    {
                        "sentence_pair_id": "0",
                        "yjcaptions_id": "1_1-1_2",
                        "sentence1": "犬",
                        "sentence2": "猫",
                        "label": 2.0,
                    }
                ]
            ),
        ),
        "polaris": ("polaris_test.csv", b"cand,refs,score,img\n\"a dog\",\"['a', 'b']\",0.5,1.jpg\n"),
        "iiw-400": (
            "data.jsonl",
            lines_of(
                [
                    {
                        "image/key": "a",
                        "IIW": "x",
                        "IIW-P5B": "y",
                        "iiw-human-sxs-iiw-p5b": {"metrics/Specificity": "IIW"},
                    }
                ]
            ),
        ),
        "hat": (
            "hat-trainval.json",
            json.dumps(
                [
                    {
                        "image_path": "a.jpg",
                        "caption": "a",
                        "references": ["b"],
                        "sample_id": "1",
                        "contains_hallucination": True,
                    }
                ]
            ).encode(),
        ),
        "nocaps-foil": (
            "nocaps-val-foil.json",
            json.dumps(
                [{"image_path": "a", "baseline": "x", "foil": "y", "domain": "z", "references": ["b"]}]
            ).encode(),
        ),
        "valse": (
            "existence.json",
            json.dumps(
                {
                    "a": {
                        "caption": "x",
                        "foil": "y",
                        "image_file": "z",
                        "dataset": "coco",
                        "mturk": {"caption": 3},
                    }
                }
            ).encode(),
        ),
        "sugarcrepe": (
            "add_att.json",
            json.dumps({"0": {"filename": "a.jpg", "caption": "x", "negative_caption": "y"}}).encode(),
        ),
        "composite": (
            "composite.jsonl",
            lines_of([{"source": "a", "image": "x", "caption": "c", "references": ["r"], "rating": 3}]),
        ),
        "abstract-50s": ("consensus_abstract50s.json", json.dumps({"a": 1}).encode()),
        "foil": (
            "foilv1.0_test_2017.json",
            json.dumps(
                {
                    "annotations": [
                        {"caption": "a", "image_id": 1, "id": 2, "foil_id": 3, "foil": True},
                        {"caption": "b", "image_id": 1, "id": 2, "foil_id": 0, "foil": False},
                    ],
                    "images": [{"id": 1, "file_name": "x"}],
                }
            ).encode(),
        ),
    }

    def read(data: bytes) -> None:
        name, _, rest = data.partition(b"\0")
        file, _, content = rest.partition(b"\0")
        root = folder / name.decode()
        (root / file.decode()).parent.mkdir(parents=True, exist_ok=True)
        (root / file.decode()).write_bytes(content)
        with suppress(SuiseiError):
            BENCHMARKS[name.decode()].read(root, on_error="skip")
        if file.endswith(b".csv"):
            with suppress(SuiseiError):
                for _, record, _ in read_table(root / file.decode()):
                    caption_list(record.get("refs"))

    seeds = [
        name.encode() + b"\0" + file.encode() + b"\0" + content for name, (file, content) in files.items()
    ]
    return [*seeds, b"foil\0captions_val2014.json\0" + ANNOTATIONS], read


def _change_benchmark(random: Random, data: bytes) -> bytes:
    name, _, rest = data.partition(b"\0")
    return name + b"\0" + change.change_named(BY_SUFFIX)(random, rest)


READERS: dict[str, Reader] = {
    "pickled": Reader(_pickled, change.change_bytes, 40),
    "benchmarks": Reader(_benchmarks, _change_benchmark, 30),
}
