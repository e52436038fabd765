"""Language models of RECAP: how they are read, fed and given a vocabulary."""

import numpy as np
import pytest
import torch

from suisei.errors import ConfigError, ModelError
from suisei.recap.image_towers import TowerConfig
from suisei.recap.language_models import (
    TinyLanguageModel,
    frozen_embeddings,
    load_language_model,
    new_language_model,
    plain_tokenizer,
)
from suisei.recap.mapper_folder import save_mapper
from suisei.recap.prefix_training import PrefixTraining


def test_a_language_model_is_read_and_written_without_a_bar(captions, model_folder, tmp_path, capsys):
    tiny = TinyLanguageModel(vocabulary=300, width=16, layers=1, heads=2)
    for part in new_language_model(captions, tiny, 0):
        part.save_pretrained(tmp_path / "gpt2")
    capsys.readouterr()
    sizes = {"prefix": 3, "spread": 2, "layers": 1, "heads": 8}
    tower = TowerConfig(str(model_folder))
    training = PrefixTraining(language_model=str(tmp_path / "gpt2"), image=tower, **sizes)
    training.build([], 8, 0)
    save_mapper(training, tmp_path / "mapper")
    assert (tmp_path / "mapper" / "language_model" / "model.safetensors").is_file()
    assert capsys.readouterr().err == ""


def test_a_language_model_without_its_tokenizer_is_refused(captions, tmp_path):
    model, _ = new_language_model(captions, TinyLanguageModel(vocabulary=300, width=16, layers=1, heads=2), 0)
    model.save_pretrained(tmp_path / "gpt2")
    with pytest.raises(ModelError, match="gpt2: its tokenizer has no vocabulary"):
        load_language_model(str(tmp_path / "gpt2"))


def test_the_loss_of_prefix_captioning_is_that_of_the_tokens_and_the_end(captions):
    training = PrefixTraining(
        language_model=None, tiny=TinyLanguageModel(300, 16, 1, 2, dropout=0), train_language_model=True,
        prefix=3, spread=2, layers=1, heads=4,
    )  # fmt: skip
    training.build(captions, 8, 0)
    prefix = training.prefixes(torch.randn(2, 8, generator=torch.Generator().manual_seed(0)))
    ids, mask = torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[True] * 3, [True, False, False]])
    expected = []
    for row, tokens in enumerate(([5, 6, 7], [8])):
        words = training.captioner.get_input_embeddings()(torch.tensor([tokens]))
        logits = training.captioner(inputs_embeds=torch.cat([prefix[row : row + 1], words], dim=1)).logits
        told = logits[0, 2:].log_softmax(dim=-1)
        expected += [-told[n, token].item() for n, token in enumerate([*tokens, training.end])]
    assert training.caption_loss(prefix, ids, mask).item() == pytest.approx(np.mean(expected), abs=1e-5)


def test_a_prefix_leaves_the_language_model_positions_for_a_caption(captions):
    tiny = TinyLanguageModel(300, 16, 1, 2, positions=16, dropout=0)

    def built(prefix):
        training = PrefixTraining(
            language_model=None,
            tiny=tiny,
            train_language_model=True,
            prefix=prefix,
            spread=2,
            layers=1,
            heads=4,
        )
        training.build(captions, 8, 0)
        return training

    longest = built(14)
    (ids,) = longest.tokenize(["a red wall beside a tree"])
    assert len(ids) == 1
    shown = torch.tensor([ids])
    assert longest.caption_loss(longest.prefixes(torch.randn(1, 8)), shown, shown >= 0).isfinite()
    with pytest.raises(
        ConfigError, match=r"model\.prefix is 15; .* has 16 positions, .*model\.tiny\.positions"
    ):
        built(15)


def test_a_language_model_that_turns_instead_of_adding_places_gets_waves():
    class Turning:
        transformer = None

        def get_input_embeddings(self):
            return torch.nn.Embedding(7, 6)

    words, places = frozen_embeddings(Turning(), 5)
    assert words.shape == (7, 6)
    assert places.shape == (5, 6)
    assert len({tuple(row.tolist()) for row in places}) == 5


def test_a_new_tokenizer_reads_both_languages_as_it_will_in_scoring(captions):
    _, tokenizer = new_language_model(captions, TinyLanguageModel(400, 16, 1, 2), 0)
    plain = plain_tokenizer(tokenizer, "tiny")
    for text in captions:
        assert plain.encode([text], 128)[0] == tokenizer(text)["input_ids"]
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text.lower()
