"""Model folders that somebody altered and signed again: refused in one line, or without any effect."""

import copy
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from suisei.data.checksums import sha256_of
from suisei.errors import ModelError
from suisei.metrics.extras import check_names
from suisei.metrics.loading import load
from suisei.models.folder import load_model, save_model

REFERENCES = [["a dog runs", "two dogs"], ["犬が走る"]]
CANDIDATES = ["a dog", "犬"]


@pytest.fixture
def folder(model_folder, tmp_path):
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


@pytest.fixture(scope="session")
def full_folder(build_regressor, captions, tmp_path_factory):
    """A model with a few extra inputs, each with a state of another kind."""
    from suisei.data.sample import CaptionSample, Rating
    from suisei.metrics.extras import ExtraInputs

    names = ["ridge", "cider", "length"]
    extras = ExtraInputs(names)
    extras.fit(
        [
            CaptionSample(text, captions[:3], rating=Rating((n / 8,)), group=str(n))
            for n, text in enumerate(captions)
        ]
    )
    folder = tmp_path_factory.mktemp("full") / "model"
    save_model(folder, build_regressor(extra_inputs=names), extras=extras.state())
    return folder


@pytest.fixture(scope="session")
def short_folder(build_regressor, tmp_path_factory):
    """A model with one extra input, and room for another in its place."""
    from suisei.metrics.extras import ExtraInputs

    folder = tmp_path_factory.mktemp("short") / "model"
    save_model(folder, build_regressor(extra_inputs=["length"]), extras=ExtraInputs(["length"]).state())
    return folder


def assert_refused(folder, match):
    with pytest.raises(ModelError, match=match) as error:
        load(folder, device="cpu")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1500


OUTSIDE = [
    "comet:tokenizer/python", "jaspice:http://127.0.0.1:9", "jaspice", "suisei", "suisei:elsewhere",
    "bertscore", "bertscore:elsewhere", "clip-s", "clip-s:hf-hub:x/y", "pac-s:elsewhere",
    "pac-s:/tmp/elsewhere",
    "pac-s:extras/../../elsewhere", "em-score", "length:1", "nothing", "", 7, None, ["length"],
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("layout", [1, 2])
def test_only_local_metrics_may_be_extra_inputs(short_folder, tmp_path, resign, monkeypatch, name, layout):
    folder = Path(shutil.copytree(short_folder, tmp_path / "model"))

    def never(*_, **__):
        pytest.fail("a program was started or an address opened")

    monkeypatch.setattr("subprocess.Popen", never)
    monkeypatch.setattr("socket.socket.connect", never)
    (folder / "tokenizer" / "python").write_text(f"#!/bin/sh\ntouch {folder.parent}/ran\n")
    (folder / "tokenizer" / "python").chmod(0o755)

    def edit(config):
        config["format"] = layout
        config["settings"]["fusion"]["extra_inputs"] = [name]
        config["extras"] = {} if isinstance(name, list) else {str(name): {"options": {}, "settings": {}}}
        config["sha256"]["tokenizer/python"] = ""
        config["sha256"]["extras.json"] = ""

    (folder / "extras.json").write_text(json.dumps({str(name): {}}))
    resign(folder, edit)
    assert_refused(folder, "extra input|extra_inputs|extras.json")
    assert not (folder.parent / "ran").exists()


def test_a_reader_that_allows_every_name_still_finds_encoders_in_the_folder_only(
    short_folder, tmp_path, resign
):
    folder = Path(shutil.copytree(short_folder, tmp_path / "model"))
    name = "pac-s:extras/../../elsewhere"

    def edit(config):
        config["settings"]["fusion"]["extra_inputs"] = [name]
        config["extras"] = {name: {"options": {}, "settings": {}}}

    (folder / "extras.json").write_text(json.dumps({name: {}}))
    resign(folder, edit)
    with pytest.raises(ModelError, match=r"'pac-s:extras/\.\./\.\./elsewhere' leads out of extras/"):
        load_model(folder, lambda names: None)


@pytest.mark.parametrize(
    "name",
    ["../outside.json", "/etc/hostname", "tokenizer/../../outside.json", "..\\outside.json", "", "C:x"],
)
def test_checksums_of_files_elsewhere_are_refused(folder, resign, name):
    (folder.parent / "outside.json").write_text("{}")

    def edit(config):
        config["sha256"][name] = sha256_of(folder.parent / "outside.json")

    resign(folder, edit)
    assert_refused(folder, "leads out of the folder")


@pytest.mark.parametrize("name", ["tokenizer/" + "a" * 500, "a" * 100_000, "two\nlines"])
def test_names_that_no_file_has_are_missing(folder, resign, name):
    resign(folder, lambda config: config["sha256"].update({name: "0" * 64}))
    assert_refused(folder, r"(a{3}|lines').* (is missing|leads out of the folder)")


@pytest.mark.parametrize("name", ["idf.json", "tokenizer", "tokenizer/tokenizer.json", "config.json"])
def test_links_that_leave_the_folder_are_refused(folder, name):
    (folder / name).rename(folder.parent / "moved")
    (folder / name).symlink_to(folder.parent / "moved")
    assert_refused(folder, "leads out of the folder|a link that leaves")


def test_links_inside_the_folder_and_to_it_are_followed(folder):
    (folder / "idf.json").rename(folder / "frequencies.json")
    (folder / "idf.json").symlink_to("frequencies.json")
    (folder.parent / "link").symlink_to(folder)
    assert load_model(folder.parent / "link", check_names).path.name == "link"


@pytest.mark.parametrize("name", ["tokenizer/tokenization_own.py", "extras/pac-s/weights.bin", "extras.json"])
def test_files_without_a_checksum_are_refused(folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("{}")
    assert_refused(folder, f"{name} is not among the checksums")


def at(*path):
    def edit_to(value):
        def edit(config):
            place = config
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value

        return edit

    return edit_to


TOO_LARGE = [
    (("settings", "head", "members"), 1_000_000),
    (("settings", "head", "members"), 200),
    (("settings", "head", "hidden"), [50_000, 50_000]),
    (("settings", "head", "hidden"), [8] * 1_000_000),
    (("text_architecture", "backbone", "vocab_size"), 3_000_000_000),
    (("text_architecture", "backbone", "vocab_size"), 3_900_000),
    (("text_architecture", "backbone", "hidden_size"), 50_000),
    (("text_architecture", "backbone", "num_hidden_layers"), 10_000_000),
    (("text_architecture", "backbone", "num_hidden_layers"), 200),
    (("text_architecture", "backbone", "max_position_embeddings"), 3_000_000),
    (("image_architecture", "vision_cfg", "width"), 50_000),
    (("image_architecture", "vision_cfg", "image_size"), 1_000_000),
    (("image_architecture", "vision_cfg", "image_size"), 2048),
    (("image_architecture", "vision_cfg", "layers"), [10**9, 1, 1, 1]),
    (("image_architecture", "embed_dim"), 10**12),
]


@pytest.mark.parametrize(("path", "value"), TOO_LARGE, ids=lambda value: str(value)[:60])
@pytest.mark.usefixtures("little_memory")
def test_what_the_weights_do_not_fill_is_refused_before_memory_is_taken(
    folder, resign, monkeypatch, path, value
):
    resign(folder, at(*path)(value))
    monkeypatch.setattr(
        "suisei.models.folder_regressor.load_file", lambda _: pytest.fail("the weights were read")
    )
    assert_refused(folder, "must be|does not fit|cannot rebuild|do not go together")


def test_a_sparse_file_of_weights_is_not_hashed(folder):
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(300 * 2**30)
    assert_refused(folder, r"model\.safetensors is larger than any")


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 2, "width": 8, "timm_model_name": "hf-hub:somebody/something"},
        {"timm_model_name": "local-dir:/tmp/x"},
        {"timm_model_name": "no_such_model", "timm_model_pretrained": True},
        {"layers": 2, "width": 8, "norm_kwargs": {"eps": 1e-5, "device": "cuda"}},
    ],
)
def test_an_image_encoder_comes_from_nowhere_else(folder, resign, settings):
    resign(folder, at("image_architecture", "vision_cfg")(settings))
    assert_refused(folder, r"image_architecture\.vision_cfg")


@pytest.mark.parametrize(
    ("backbone", "match"),
    [
        ({"model_type": "timm_wrapper", "architecture": "hf-hub:somebody/something"}, "model_type"),
        ({"model_type": "no-such-model"}, "model_type"),
        ({"model_type": ["bert"]}, "model_type"),
        ({"model_type": "distilbert", "dim": "32"}, "dim|size"),
        ({"model_type": "distilbert", "n_layers": 10_000_000}, "n_layers"),
        ({"model_type": "distilbert", "vocab_size": 10**12}, "vocab_size"),
        ({"model_type": "distilbert", "activation": "x/y"}, "activation"),
    ],
)
def test_a_text_encoder_is_one_of_a_closed_list(folder, resign, backbone, match):
    resign(folder, at("text_architecture", "backbone")(backbone))
    assert_refused(folder, match)


def test_settings_that_would_run_or_fetch_code_are_not_handed_on():
    from suisei.encoders.pretrained import text_config

    config = text_config(
        {
            "model_type": "distilbert", "dim": 32, "n_heads": 2, "n_layers": 1, "output_past": True,
            "auto_map": {"AutoModel": "modeling_own.Own"}, "attn_implementation": "somebody/kernels",
            "quantization_config": {"quant_method": "own"}, "_name_or_path": "/elsewhere",
        },
        "config",
    )  # fmt: skip
    assert config.dim == 32
    held = config.to_dict()
    assert not {"auto_map", "quantization_config", "output_past"} & held.keys()
    assert not held.get("_name_or_path")
    assert config._attn_implementation is None


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer_class": "BertTokenizer", "vocab_file": "/etc/passwd"},
        {"tokenizer_class": "BertTokenizer", "sudachi_kwargs": {"sudachi_config_path": "/etc/passwd"}},
        {"tokenizer_class": "BertJapaneseTokenizer", "mecab_kwargs": {"mecab_option": "-r /tmp/evil"}},
        {"auto_map": {"AutoTokenizer": ["own.Own", None]}, "tokenizer_class": "Own"},
        [],
    ],
)
def test_a_tokenizer_s_files_are_in_its_folder(folder, resign, monkeypatch, settings):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked"))
    (folder / "tokenizer" / "tokenizer.json").unlink()
    (folder / "tokenizer" / "own.py").write_text(f"open('{folder.parent}/ran', 'w')\nclass Own: pass\n")
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(settings))

    def edit(config):
        del config["sha256"]["tokenizer/tokenizer.json"]
        config["sha256"]["tokenizer/own.py"] = ""

    resign(folder, edit)
    assert_refused(folder, "tokenizer")
    assert not (folder.parent / "ran").exists()


def test_a_tokenizer_whose_template_names_no_token_is_refused(folder, resign):
    """The library panics at it, which is no Exception."""
    path = folder / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["post_processor"]["special_tokens"].popitem()
    path.write_text(json.dumps(content), encoding="utf-8")
    resign(folder)
    assert_refused(folder, "tokenizer's parts do not go together")


WRONG = [None, True, "7", [], {"a": 1}, -1, float("nan"), 10**400]


def places(value, path=()):
    """Yield the path of every value in a config but the checksums, which the other tests change."""
    if path and path[0] == "sha256":
        return
    if path:
        yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, own in entries:
        yield from places(own, (*path, key))


def scores(folder):
    return load(folder, device="cpu", cache="off").score(CANDIDATES, REFERENCES).tolist()


def outcome(folder):
    """Return scores, or None and what was said; any other error is a defect."""
    try:
        return scores(folder), ""
    except ModelError as error:
        return None, str(error)


def unequal(first, second):
    return type(first) is not type(second) or first != second


@pytest.mark.parametrize("part", ["settings", "text_architecture", "image_architecture", "extras", "format"])
def test_a_value_of_another_kind_is_refused_or_changes_nothing(full_folder, tmp_path, resign, part):
    folder = Path(shutil.copytree(full_folder, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    before = scores(folder)
    tried = 0
    for path in places({part: config[part]}):
        own = config
        for key in path:
            own = own[key]
        for wrong in WRONG:
            if not unequal(own, wrong) or (isinstance(own, bool) and isinstance(wrong, bool)):
                continue
            (folder / "config.json").write_text(json.dumps(config))
            resign(folder, at(*path)(wrong))
            found, said = outcome(folder)
            assert found in (None, before), (path, wrong)
            assert "\n" not in said, (path, wrong)
            tried += 1
    assert tried >= 8


@pytest.mark.parametrize("name", ["extras.json", "idf.json", "tokenizer/tokenizer_config.json"])
def test_so_are_values_in_other_files(full_folder, tmp_path, resign, name):
    folder = Path(shutil.copytree(full_folder, tmp_path / "model"))
    content = json.loads((folder / name).read_text())
    before = scores(folder)
    found_places = list(places(content))
    for path in found_places[:: 1 + len(found_places) // 40]:
        for wrong in (None, "x", [], {"a": 1}, -1, float("nan"), 10**400):
            altered = copy.deepcopy(content)
            at(*path)(wrong)(altered)
            (folder / name).write_text(json.dumps(altered))
            resign(folder)
            found, said = outcome(folder)
            assert all(0 <= score <= 1 for score in found or []), (path, wrong)
            assert "\n" not in said, (path, wrong)
    (folder / name).write_text(json.dumps(content))
    resign(folder)
    assert scores(folder) == before


@pytest.mark.parametrize("content", ["[" * 100_000, "NaN", '"a"', "[1]", '{"format": 1e999}'])
def test_other_json_is_one_line(folder, content):
    (folder / "config.json").write_text(content)
    assert_refused(folder, r"config\.json")


@pytest.mark.parametrize("levels", [50, 400, *range(900, 1101, 4)])
def test_values_within_values_are_one_line(folder, levels):
    """Just below what the parser refuses by itself, what reads the values would give up."""
    path = folder / "config.json"
    path.write_text(path.read_text().rstrip()[:-1] + f', "own": {"[" * levels + "]" * levels}}}')
    assert_refused(folder, r"config\.json: (nested too deeply|not valid JSON)")


@pytest.mark.parametrize("value", [[], {"a": 1}, "x", None, 3])
def test_checksums_that_are_none(folder, resign, value):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "sha256": value}))
    assert_refused(folder, "sha256|checksum")


def test_the_signature_covers_the_settings(folder, resign):
    before = load(folder, device="cpu").signature
    resign(folder, at("settings", "fusion", "layer_norm")(False))
    assert load(folder, device="cpu").signature != before


def test_the_signature_covers_the_states(full_folder, tmp_path, resign):
    folder = Path(shutil.copytree(full_folder, tmp_path / "model"))
    before = load(folder, device="cpu").signature
    tensors = load_file(folder / "extras.safetensors")
    save_file({name: value * 2 for name, value in tensors.items()}, folder / "extras.safetensors")
    assert_refused(folder, r"extras\.safetensors was altered")
    resign(folder)
    try:
        after = load(folder, device="cpu").signature
    except ModelError:  # CIDEr's counts are then more than its documents
        del tensors["cider/document_frequency"]
        after = before + "refused"
    assert after != before


def test_files_are_as_readable_as_the_user_s_others(build_regressor, tmp_path):
    previous = os.umask(0o027)
    try:
        save_model(tmp_path / "model", build_regressor())
    finally:
        os.umask(previous)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "model").rglob("*")}
    assert modes.pop("tokenizer") == 0o750
    assert set(modes.values()) == {0o640}
