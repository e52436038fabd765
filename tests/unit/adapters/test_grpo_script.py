"""The script that tunes a model of Hugging Face by a reward."""

import importlib.util
import json
from pathlib import Path

import pytest

from suisei.adapters.trl import make_reward
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.registry import get_metric

SCRIPT = Path(__file__).parents[3] / "docs" / "scripts" / "grpo_captions.py"
WORDS = ["<pad>", "<end>", "?", "a", "dog", "runs", "blue", "of", "table", "seven", "the", "x"]


@pytest.fixture
def script():
    found = importlib.util.spec_from_file_location("grpo_captions", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def speaker(tmp_path):
    """The folder of a language model of twelve words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<end>").save_pretrained(
        tmp_path / "model"
    )
    torch.manual_seed(3)
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
    config = GPT2Config(vocab_size=len(WORDS), bos_token_id=1, eos_token_id=1, pad_token_id=0, **size)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_script_improves_the_reward(script, speaker, tmp_path):
    pytest.importorskip("trl", reason="needs trl, an extra of development")
    pytest.importorskip("datasets")
    rows = [{"prompt": "?", "references": ["a dog runs", "the dog runs"]}] * 4
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rewards = script.main(
        [
            str(speaker), str(tmp_path / "data.jsonl"), f"--output={tmp_path / 'tuned'}", "--reward=chrf",
            "--steps=20", "--generations=16", "--max-length=3", "--learning-rate=0.03", "--kl=0", "--cpu",
        ]
    )  # fmt: skip
    assert len(rewards) == 20
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 10
    assert json.loads((tmp_path / "tuned" / "rewards.json").read_text()) == rewards
    assert (tmp_path / "tuned" / "model.safetensors").exists()


def test_a_language_model_is_rewarded_by_images_that_it_cannot_see(
    script, speaker, pictures, tmp_path, packaged
):
    pytest.importorskip("trl", reason="needs trl, an extra of development")
    pytest.importorskip("datasets")
    row = {"prompt": "?", "image": pictures[0].name}
    (pictures[0].parent / "data.jsonl").write_text(json.dumps(row) + "\n")
    rewards = script.main(
        [
            str(speaker), str(pictures[0].parent / "data.jsonl"), f"--output={tmp_path / 'tuned'}",
            "--steps=2", "--batch-size=2", "--generations=2", "--max-length=3", "--cpu",
        ]
    )  # fmt: skip
    assert len(rewards) == 2
    assert all(0 < reward < 1 for reward in rewards)


def test_a_metric_with_corpus_statistics_counts_the_references_of_the_rows(script, tmp_path):
    rows = [{"references": ["a dog runs"]}, {"references": ["a cat sits", "the cat"]}, {"image": "x.png"}]
    (tmp_path / "x.png").write_bytes(b"")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = script.read_rows(tmp_path / "rows.jsonl", with_pictures=False)
    metric, cider = script.reward_metric("cider", read), get_metric("cider")
    cider.fit([CaptionSample(own[0], own) for own in (row["references"] for row in read[:2])])
    assert metric.signature == cider.signature
    own = make_reward(metric)(completions=["a dog runs"], references=[["a dog runs"]])
    assert own == cider.score(["a dog runs"], [["a dog runs"]]).tolist()
    with pytest.raises(DataError, match="got 0 sample"):
        script.reward_metric("cider", read[2:])


def test_rows_of_the_script(script, pictures, tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [{"references": ["犬"]}, {"image": str(pictures[0]), "prompt": "what?"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    plain = script.read_rows(file, with_pictures=False)
    assert plain[0] == {"prompt": script.PROMPT, "references": ["犬"], "picture": None}
    assert plain[1]["picture"] == str(pictures[0])
    with pytest.raises(DataError, match="row 1: a vision-language model needs an `image`"):
        script.read_rows(file, with_pictures=True)
    file.write_text(json.dumps(rows[1]))
    (seen,) = script.read_rows(file, with_pictures=True)
    assert seen["image"].size == (70, 50)
    assert seen["prompt"] == [{"role": "user", "content": "what?"}]
    file.write_text('{"prompt": "x"}')
    with pytest.raises(DataError, match="row 1: needs `references`"):
        script.read_rows(file, with_pictures=False)
    file.write_text("{")
    with pytest.raises(DataError, match="row 1: not JSON"):
        script.read_rows(file, with_pictures=False)


def test_rows_of_the_script_may_begin_with_a_mark_and_hold_other_ends_of_lines(script, tmp_path):
    rows = [{"references": ["one\u2028line"], "prompt": "what\x85?"}, {"references": ["犬"]}]
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\r\n"
    (tmp_path / "rows.jsonl").write_bytes(text.encode("utf-8-sig"))
    found = script.read_rows(tmp_path / "rows.jsonl", with_pictures=False)
    assert [row["references"] for row in found] == [["one\u2028line"], ["犬"]]
    assert found[0]["prompt"] == "what\x85?"


def test_a_data_set_of_the_rows_keeps_images_that_the_first_row_lacks(script, pictures, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{"references": "a dog"}, {"image": str(pictures[0])}, {"references": ["a cat", "a kitten"]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = datasets.Dataset.from_list(script.read_rows(tmp_path / "rows.jsonl", with_pictures=False))
    assert data["picture"][:] == [None, str(pictures[0]), None]
    assert data["references"][:] == [["a dog"], [], ["a cat", "a kitten"]]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"references": 5}, "references must be a list of captions, got int 5"),
        ({"references": ["a dog", 5]}, "reference 2 must be text, got int 5"),
        ({"references": [" "]}, "reference 1 is empty"),
        ({"image": 5}, "`image` must be the name of a file, got int 5"),
        ({"image": "no.png"}, "`image` 'no.png' is not there: no file .*no.png; fix the name"),
        ({"image": "x" * 3000}, "`image` 'x+ is not there"),
    ],
)
def test_a_bad_row_of_the_script_is_named(script, tmp_path, row, reason):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"references": ["a dog"]}\n' + json.dumps(row))
    with pytest.raises(DataError, match=f"rows.jsonl, row 2: {reason}"):
        script.read_rows(file, with_pictures=False)


def test_an_image_that_a_model_cannot_see_is_named_with_its_row(script, pictures, tmp_path):
    (tmp_path / "torn.png").write_bytes(pictures[0].read_bytes()[:60])
    rows = [{"image": str(pictures[0])}, {"image": "torn.png"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"rows.jsonl, row 2: .*torn.png"):
        script.read_rows(tmp_path / "rows.jsonl", with_pictures=True)
