"""Token features of both kinds of text tower."""

import numpy as np
import pytest
import torch

from suisei.encoders.dual_folder import new_dual_encoder
from suisei.encoders.dual_tokens import encode_tokens, tokenize
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.errors import ConfigError
from tests.unit.tiny_models import RESNET

CAPTIONS = ["a dog runs", "犬が走っている", "two cats and a dog and a mat"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    tokenizer = train_tokenizer([*CAPTIONS, "a cat and a dog on the mat"] * 3, 60)
    tokenizer.save_pretrained(folder)
    build_text_backbone(TinyTextConfig(width=32, layers=1), len(tokenizer), positions=40).save_pretrained(
        folder
    )
    described = {"embed_dim": 16, "vision_cfg": RESNET, "text_cfg": {"context_length": 30}}
    return new_dual_encoder(described, text_encoder=str(folder), seed=0)


def test_a_hugging_face_tower_gives_tokens_without_padding(encoder):
    found = encode_tokens(encoder, [*CAPTIONS, CAPTIONS[0]], batch_size=2)
    np.testing.assert_allclose(
        np.stack([own.pooled for own in found[:3]]), encoder.encode_texts(CAPTIONS), atol=1e-5
    )
    np.testing.assert_array_equal(found[0].tokens, found[3].tokens)
    tower = encoder.model.text
    for text, own in zip(CAPTIONS, found, strict=False):
        ids = torch.tensor([encoder.tokenizer.tokenizer(text).input_ids])
        assert own.ids.tolist() == ids[0].tolist()
        with torch.inference_mode():
            states = tower.transformer(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            np.testing.assert_allclose(own.tokens, tower.proj(states)[0].numpy(), atol=1e-5)


def test_what_does_not_fit_is_known(encoder):
    assert tokenize(encoder, ["a dog", "a dog " * 40]).cut.tolist() == [False, True]


def test_other_towers_are_refused(encoder):
    class Other:
        text = torch.nn.Linear(1, 1)

    model, encoder.model = encoder.model, Other()
    try:
        with pytest.raises(ConfigError, match="single tokens"):
            encode_tokens(encoder, CAPTIONS)
    finally:
        encoder.model = model
