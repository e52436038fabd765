"""A vocabulary cut to what some languages need."""

import json

import pytest

from suisei.encoders.tiny import train_tokenizer
from suisei.encoders.vocabulary import cut_vocabulary, is_character, language_pieces, needed_pieces
from suisei.errors import ConfigError

ENGLISH = ["a dog runs on the grass", "two dogs running over grass", "the man is riding a horse"] * 4
JAPANESE = ["犬が草の上を走っている", "男が馬に乗っている", "二匹の犬が走る"] * 4


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(ENGLISH + JAPANESE, 300).backend_tokenizer


def rebuilt(description):
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(description))


def test_captions_of_kept_pieces_are_cut_alike(tokenizer):
    description = json.loads(tokenizer.to_str())
    keep = needed_pieces(tokenizer, ENGLISH, batch=5)
    cut, old = cut_vocabulary(description, keep)
    smaller = rebuilt(cut)
    assert smaller.get_vocab_size() == len(old) < tokenizer.get_vocab_size()
    for text in ENGLISH[:3]:
        before, after = tokenizer.encode(text), smaller.encode(text)
        assert after.tokens == before.tokens
        assert [old[id_] for id_ in after.ids] == before.ids


def test_nothing_becomes_unknown(tokenizer):
    cut, old = cut_vocabulary(json.loads(tokenizer.to_str()), set())
    smaller = rebuilt(cut)
    unknown = smaller.token_to_id("<unk>")
    for text in ENGLISH + JAPANESE:
        encoded = smaller.encode(text)
        assert unknown not in encoded.ids
        spelt = "".join(encoded.tokens[1:-1]).replace("▁", " ").strip()
        assert spelt == text
    kept = {token for token, id_ in tokenizer.get_vocab().items() if id_ in set(old)}
    assert all(is_character(token) or token.startswith("<") for token in kept)


@pytest.fixture(scope="module")
def wordpiece():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    made.train_from_iterator(ENGLISH, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def test_captions_of_kept_words_are_cut_alike_by_wordpiece(wordpiece):
    keep = needed_pieces(wordpiece, ENGLISH[:1])
    cut, old = cut_vocabulary(json.loads(wordpiece.to_str()), keep)
    smaller = rebuilt(cut)
    assert smaller.get_vocab_size() == len(old) < wordpiece.get_vocab_size()
    before, after = wordpiece.encode(ENGLISH[0]), smaller.encode(ENGLISH[0])
    assert after.tokens == before.tokens
    assert [old[id_] for id_ in after.ids] == before.ids
    other = smaller.encode("the horse")
    assert other.tokens != wordpiece.encode("the horse").tokens  # a word whose piece is gone is spelt
    assert "".join(token.removeprefix("##") for token in other.tokens[1:-1]) == "thehorse"
    assert "[UNK]" not in other.tokens


def test_a_wordpiece_vocabulary_with_gaps_is_refused(wordpiece):
    description = json.loads(wordpiece.to_str())
    del description["model"]["vocab"]["dog"]
    with pytest.raises(ConfigError, match="gaps between its ids"):
        cut_vocabulary(description, set())


def test_a_vocabulary_without_a_piece_for_the_unknown_is_refused(wordpiece, tokenizer):
    description = json.loads(wordpiece.to_str())
    description["model"]["unk_token"] = "[OTHER]"  # which the library lets in
    with pytest.raises(ConfigError, match="no piece for what is unknown"):
        cut_vocabulary(description, set())
    description = json.loads(tokenizer.to_str())
    description["model"]["unk_id"] = None
    with pytest.raises(ConfigError, match="no piece for what is unknown"):
        cut_vocabulary(description, set())


def test_other_tokenizers_and_ids_are_refused(tokenizer):
    description = json.loads(tokenizer.to_str())
    with pytest.raises(ConfigError, match="no piece 100000"):
        cut_vocabulary(description, {100_000})
    with pytest.raises(ConfigError, match="'BPE'"):
        cut_vocabulary({"model": {"type": "BPE"}}, set())


@pytest.mark.parametrize(
    ("piece", "kept"),
    [
        ("▁", True),
        ("犬", True),
        ("▁ある", True),
        ("カメラ", True),
        ("走って", True),
        ("、犬", True),
        ("2020", True),
        ("▁...", True),
        ("2匹", True),
        ("Tシャツ", True),
        ("ABC", False),
        ("▁dog", False),
        ("Tの犬", False),
        ("собака", False),
        ("개가", False),
        ("犬の개", False),
        ("é1", False),
    ],
)
def test_pieces_of_japanese_scripts_and_without_letters_are_known(piece, kept):
    assert language_pieces({piece: 7}) == ({7} if kept else set())
