"""Rewards for TRL."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import suisei
from suisei.adapters.rows import make_row, score_rows
from suisei.adapters.trl import make_reward, suisei_reward
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.default_model import default_model_reason


def test_rewards_equal_the_commands(given, command_scores, model_folder):
    spec = f"suisei:{model_folder}"
    reward = make_reward(spec)
    rewards = reward(given.captions, image=given.images, references=given.references)
    assert rewards == pytest.approx(command_scores(spec), abs=1e-9)
    assert (
        reward(given.captions, images=[[i] if i else [] for i in given.images], references=given.references)
        == rewards
    )


def test_images_may_stand_in_a_column_that_the_trained_model_is_not_shown(given, model_folder):
    spec = f"suisei:{model_folder}"
    beside = {"references": given.references, "prompts": ["?"] * len(given.captions)}
    reward = make_reward(spec, image="picture")
    assert reward(given.captions, picture=given.images, **beside) == make_reward(spec)(
        given.captions, image=given.images, **beside
    )
    with pytest.raises(DataError, match="no column 'picture', which the reward reads images from"):
        reward(given.captions, image=given.images, **beside)
    with pytest.raises(DataError, match="picture has 1 rows, completions has 2"):
        reward(["a dog", "a cat"], picture=[None])


def test_the_reward_of_the_packages_model(packaged):
    assert suisei_reward.__name__ == "suisei_reward"
    texts = ["a dog runs", "blue blue blue"]
    beside = {"prompts": ["?", "?"], "completion_ids": [[1], [2]], "trainer_state": None}
    rewards = make_reward("suisei")(completions=texts, references=[["a dog is running"]] * 2, **beside)
    assert rewards == pytest.approx(suisei.load().score(texts, [["a dog is running"]] * 2).tolist(), abs=1e-9)


def test_conversations_are_read_to_their_last_message():
    texts = ["a dog", "two dogs", "dogs"]
    talks = [
        [{"role": "assistant", "content": "a dog"}],
        [{"role": "assistant", "content": "no"}, {"role": "assistant", "content": "two dogs"}],
        [{"role": "assistant", "content": [{"type": "text", "text": "do"}, {"type": "text", "text": "gs"}]}],
    ]
    reward = make_reward("chrf")
    references = ["two dogs"] * 3  # one reference may be a text
    assert reward(talks, references=references) == reward(texts, references=references)
    assert reward.__name__ == "chrf_reward"


def test_rows_that_cannot_be_scored_have_none(pictures, tmp_path, packaged):
    told = []
    torn = tmp_path / "torn.png"
    torn.write_bytes(pictures[0].read_bytes()[:60])
    completions = ["a dog", " ", "a cat", "a cow", "a hen", "a pig", [], "an ox"]
    references = [["a dog"], ["a dog"], [], None, [""], ["a pig"], 5, []]
    images = [None, None, None, str(torn), None, None, None, str(pictures[0])]
    reward = make_reward("suisei")
    rewards = reward(completions, images, references, lambda *entry: told.append(entry))
    assert [reward is None for reward in rewards] == [False, True, True, True, True, False, True, False]
    assert told == [("suisei_reward/scored", 3 / 8)]


def test_the_first_row_that_is_refused_is_told_once(pictures, tmp_path, packaged):
    torn = tmp_path / "torn.png"
    torn.write_bytes(pictures[0].read_bytes()[:60])
    references = [["a dog"], None, None, None]
    images = [None, None, str(torn), "no.png"]
    reward = make_reward("suisei")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what the trained model writes, and what lacks something, is no fault
        assert reward(["a dog " * 2000, " ", ""], references=references[:3]) == [None] * 3
    with pytest.warns(UserWarning, match=r"^suisei_reward: row 3 of 4 asked for .*torn\.png"):
        rewards = reward(["a dog", "a cat", "a hen", "a pig"], images, references)
    assert rewards[1:] == [None] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reward(["a dog"], images[3:]) == [None]
    with pytest.warns(UserWarning, match="row 1 of 1 asked for has no reward: reference 1 is empty"):
        assert make_reward("chrf")(["a dog"], references=[[" "]]) == [None]
    with pytest.warns(UserWarning, match="has no reward: references are a list or a dict as text, got "):
        assert make_reward("chrf")(["a dog"], references=['["a dog", "dogs"]']) == [None]


def test_silence_is_the_worst_where_rewards_are_distances():
    """TRL takes None for 0, the best that a distance with its sign turned can be."""
    reward = make_reward("hallucinated-nouns")
    completions = ["a dog", "", "a dog and a spoon", [{"role": "assistant", "content": " "}], 3]
    rewards = reward(completions, references=[["a dog runs"]] * 5)
    assert rewards[0] == 0 > rewards[2] > -1
    assert rewards[1] == rewards[3] == -1
    assert rewards[4] is None
    assert reward(["a dog runs", ""], references=[["a dog runs"]] * 2) == [0, -1]
    assert reward([" "], references=[["a dog runs"]]) == [-1]
    assert make_reward("chrf")(["a dog", ""], references=[["a dog"]] * 2)[1] is None


def test_a_text_that_is_no_caption_is_the_worst_where_rewards_are_distances():
    completions = ["a dog runs " * 1000, "a dog runs " * 100, "a dog \ud800", "a dog", "..."]
    rewards = make_reward("repetition-4")(completions, references=[["a dog"]] * 5)
    assert rewards[0] == rewards[2] == rewards[4] == -1
    assert -1 < rewards[1] < -0.9
    assert rewards[3] == 0
    assert make_reward("repetition-4")(["a dog"], references=[[" "]]) == [None]  # no fault of its own
    assert make_reward("chrf")(["a dog " * 2000, "a dog"], references=[["a dog"]] * 2)[0] is None


def test_what_says_nothing_is_refused():
    with pytest.raises(DataError, match="needs a column 'references' or 'image'"):
        suisei_reward(["a dog"])
    with pytest.raises(DataError, match="references has 2 rows, completions has 1"):
        suisei_reward(["a dog"], references=[["a"], ["b"]])
    with pytest.raises(
        ConfigError, match="cider learns weights from a corpus, and a reward scores row by row"
    ):
        make_reward("cider")(["a dog"], references=[["a dog"]])


def test_rewards_of_several_models_have_names_of_their_own():
    """TRL logs them under these."""
    specs = ["suisei", "suisei:runs/a", "suisei:./runs/b", "pac-s:/models/ViT-B.32", "pac-s:模型", "bleu-4"]
    names = [make_reward(spec).__name__ for spec in specs]
    assert names == [
        "suisei_reward", "suisei_runs_a_reward", "suisei_runs_b_reward", "pac_s_models_ViT_B_32_reward",
        "pac_s_模型_reward", "bleu_4_reward",
    ]  # fmt: skip
    assert all(name.isidentifier() for name in names)
    told = []
    reward = make_reward(Unlimited(), name="farness")
    reward(["a dog"], references=[["a dog"]], log_metric=lambda *entry: told.append(entry))
    assert reward.__name__ == reward.__qualname__ == "farness"
    assert told == [("farness/scored", 1)]
    assert make_reward(Unlimited()).__name__ == "unlimited_reward"


def test_what_is_no_metric_or_no_name_is_refused_when_the_reward_is_made():
    with pytest.raises(ConfigError, match=r"metric must be a name or a suisei\.Metric, got int"):
        make_reward(3)
    with pytest.raises(ConfigError, match="name must be an identifier such as 'my_reward', got 'a-b'"):
        make_reward("chrf", name="a-b")
    with pytest.raises(ConfigError, match="name must be an identifier"):
        make_reward("chrf", name="")


def test_making_a_reward_loads_no_model():
    code = "import sys; from suisei.adapters.trl import suisei_reward; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


WORDS = ["<pad>", "<end>", "?", "a", "dog", "runs", "blue", "of", "table", "seven", "the", "x"]


def _speaker(seed):
    """A language model of twelve words, with its tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<end>")
    torch.manual_seed(seed)
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
    config = GPT2Config(vocab_size=len(WORDS), bos_token_id=1, eos_token_id=1, pad_token_id=0, **size)
    return GPT2LMHeadModel(config), tokenizer


@pytest.mark.slow
def test_grpo_learns_to_say_what_is_rewarded(tmp_path):
    trl = pytest.importorskip("trl", reason="needs trl, an extra of development")
    import datasets

    if reason := default_model_reason():
        pytest.skip(reason)
    data = datasets.Dataset.from_list([{"prompt": "?", "references": ["a dog runs", "the dog runs"]}] * 8)
    model, tokenizer = _speaker(3)
    settings = trl.GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=16, num_generations=16, max_completion_length=3,
        max_steps=25, learning_rate=0.03, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no",
        beta=0.0, seed=5, disable_tqdm=True,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(model, suisei_reward, settings, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    key = "rewards/suisei_reward/mean"
    rewards = [entry[key] for entry in trainer.state.log_history if key in entry]
    assert len(rewards) == 25
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.1


class Unlimited(Metric):
    """A distance without a largest, the words that a caption has."""

    name = "unlimited"
    higher_is_better = False

    def _score(self, samples, *, batch_size, progress):
        return np.array([float(len(sample.candidate.split())) for sample in samples])


def test_silence_is_no_better_than_the_farthest_caption_of_a_distance_without_a_limit():
    rewards = make_reward(Unlimited())(["a dog", "", "a dog runs"], references=[["a dog"]] * 3)
    assert rewards == [-2, -3, -3]


class Signed(Metric):
    """A metric with scores below 0, as BERTScore with a baseline has."""

    name = "signed"

    def _score(self, samples, *, batch_size, progress):
        return np.array([1.0 if sample.candidate == "a dog" else -1.7 for sample in samples])


def test_silence_is_never_better_than_a_caption():
    rewards = make_reward(Signed())(["a dog", "tax law", "", "a cat"], references=[["a dog"]] * 4)
    assert rewards == [1.0, -1.7, -1.7, -1.7]
    assert make_reward(Signed())(["a dog", ""], references=[["a dog"]] * 2) == [1.0, None]
    rows = [make_row(text, ["a dog"]) for text in ("a dog", "tax law", "")]
    assert score_rows(Signed(), rows).tolist() == [1.0, -1.7, -1.7]
    assert score_rows(Signed(), rows[::2]).tolist() == [1.0, 0.0]
