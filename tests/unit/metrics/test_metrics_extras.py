"""Extra inputs: what a model folder holds of them, and that they score there as they did in training."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError, ModelError
from suisei.metrics import tokenizers
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.loading import load
from suisei.metrics.registry import REGISTRY
from suisei.models.folder import save_model, save_pair
from suisei.models.second import Second, Weighing
from tests.unit.tiny_models import RESNET, write_clip

TEXT_INPUTS = ["ridge", "cider", "bleu-2", "unigram-f1", "chrf", "sacrebleu", "length"]


@pytest.fixture(scope="module")
def samples(captions, pictures):
    return [
        CaptionSample(
            text, captions[n % 3 : n % 3 + 3], image=pictures[n % 4], rating=Rating((n / 8,)), group=str(n)
        )
        for n, text in enumerate(captions)
    ]


def trained(build_regressor, samples, names):
    extras = ExtraInputs(names)
    extras.fit(samples)
    return build_regressor(extra_inputs=names), extras


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "mine", RESNET, seed=1)


@pytest.fixture
def no_mecab(monkeypatch):
    """Hide fugashi, as on a machine that lacks it."""

    def hide():
        find = tokenizers.find_spec
        monkeypatch.setattr(tokenizers, "find_spec", lambda name: None if name == "fugashi" else find(name))
        tokenizers.get_tokenizer.cache_clear()

    yield hide
    monkeypatch.undo()
    tokenizers.get_tokenizer.cache_clear()


def test_states_come_back_exactly(build_regressor, samples, tmp_path):
    model, extras = trained(build_regressor, samples * 3, TEXT_INPUTS)
    save_model(tmp_path / "model", model, extras=extras.state())
    again = load(tmp_path / "model", device="cpu").extras
    expected = ExtraInputs(TEXT_INPUTS, extras.state())
    np.testing.assert_array_equal(again.compute(samples), expected.compute(samples))
    np.testing.assert_allclose(again.compute(samples), extras.compute(samples), rtol=1e-4, atol=1e-4)
    save_model(tmp_path / "again", model, extras=again.state())
    for name in ("extras.json", "extras.txt", "extras.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_long_lists_of_texts_are_lines_of_a_file(build_regressor, samples, tmp_path):
    model, extras = trained(build_regressor, samples, TEXT_INPUTS)
    save_model(tmp_path / "model", model, extras=extras.state())
    content = json.loads((tmp_path / "model" / "extras.json").read_text())
    lines = (tmp_path / "model" / "extras.txt").read_text(encoding="utf-8").split("\n")
    start, count = content["cider"]["document_frequency"]["$keys"]["$lines"]
    assert lines[start : start + count] == list(extras.state()["cider"].state["document_frequency"])


def test_numbers_are_not_in_the_config(build_regressor, samples, tmp_path):
    model, extras = trained(build_regressor, samples, TEXT_INPUTS)
    save_model(tmp_path / "model", model, extras=extras.state())
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert "document_frequency" not in json.dumps(config)
    assert (tmp_path / "model" / "config.json").stat().st_size < 10_000
    assert config["extras"]["cider"]["settings"]["tok"] == tokenizers.get_tokenizer().signature


def as_first_layout(folder, extras, resign):
    """Turn a folder into one of the first layout, whose states stood in config.json."""

    def edit(config):
        config["format"] = 1
        config["extras"] = {
            name: {key: own.tolist() if hasattr(own, "tolist") else own for key, own in saved.state.items()}
            for name, saved in extras.state().items()
        }
        for name in ("extras.json", "extras.txt", "extras.safetensors"):
            config["sha256"].pop(name, None)
            (folder / name).unlink(missing_ok=True)

    resign(folder, edit)


def test_folders_of_the_first_layout_score_as_before(build_regressor, samples, tmp_path, resign):
    model, extras = trained(build_regressor, samples, TEXT_INPUTS)
    save_model(tmp_path / "model", model, extras=extras.state())
    expected = load(tmp_path / "model", device="cpu").score(samples)
    as_first_layout(tmp_path / "model", extras, resign)
    np.testing.assert_array_equal(load(tmp_path / "model", device="cpu").score(samples), expected)
    first = load(tmp_path / "model", device="cpu").model
    beside = Second(Weighing(("en",), 0.5), first.path, None, first.checksum)
    with pytest.raises(ModelError, match="write it anew with suisei compact"):
        save_pair(tmp_path / "both", first, beside)  # which would look for its states elsewhere


@pytest.mark.parametrize("names", [["unigram-f1"], ["cider", "bleu-2"]])
def test_a_model_trained_with_mecab_does_not_score_without_it(
    build_regressor, samples, tmp_path, no_mecab, names
):
    model, extras = trained(build_regressor, samples, names)
    save_model(tmp_path / "model", model, extras=extras.state())
    load(tmp_path / "model", device="cpu")
    no_mecab()
    with pytest.raises(ModelError, match=r"fugashi.*pip install fugashi unidic-lite") as error:
        load(tmp_path / "model", device="cpu")
    assert "\n" not in str(error.value)


def test_the_same_holds_for_the_first_layout_as_far_as_it_tells(
    build_regressor, samples, tmp_path, no_mecab, resign
):
    model, extras = trained(build_regressor, samples, ["unigram-f1", "cider"])
    save_model(tmp_path / "model", model, extras=extras.state())
    as_first_layout(tmp_path / "model", extras, resign)
    no_mecab()
    with pytest.raises(ModelError, match="pip install fugashi unidic-lite"):
        load(tmp_path / "model", device="cpu")


def test_a_model_trained_without_mecab_scores_the_same_with_it(
    build_regressor, samples, tmp_path, no_mecab, monkeypatch
):
    no_mecab()
    model, extras = trained(build_regressor, samples, ["unigram-f1", "cider"])
    save_model(tmp_path / "model", model, extras=extras.state())
    here = load(tmp_path / "model", device="cpu")
    expected, signature = here.score(samples), here.signature
    monkeypatch.undo()
    tokenizers.get_tokenizer.cache_clear()
    there = load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(there.score(samples), expected)
    assert there.signature == signature


def test_another_dictionary_is_refused_and_the_right_one_named(
    build_regressor, samples, tmp_path, no_mecab, monkeypatch
):
    model, extras = trained(build_regressor, samples, ["unigram-f1"])
    save_model(tmp_path / "model", model, extras=extras.state())
    monkeypatch.setattr(tokenizers, "version", lambda _: "9.9")
    tokenizers.get_tokenizer.cache_clear()
    with pytest.raises(ModelError, match=r"here .*9\.9.*pip install fugashi unidic-lite==1\.0\.8"):
        load(tmp_path / "model", device="cpu")


def test_another_version_of_our_own_is_refused_and_the_right_one_named(
    build_regressor, samples, tmp_path, resign
):
    model, extras = trained(build_regressor, samples, ["length"])
    save_model(tmp_path / "model", model, extras=extras.state())

    def edit(config):
        config["suisei"] = "0.0.7"
        config["extras"]["length"]["settings"]["tok"] = "ptb-regex.0+char-nfkc-nopunct"

    resign(tmp_path / "model", edit)
    with pytest.raises(ModelError, match=r"tok ptb-regex\.0.*pip install suisei==0\.0\.7"):
        load(tmp_path / "model", device="cpu")


def test_a_version_that_differs_in_rare_signs_alone_is_read(build_regressor, samples, tmp_path, resign):
    names = ["length", "cider", "sacrebleu"]
    model, extras = trained(build_regressor, samples, names)
    save_model(tmp_path / "model", model, extras=extras.state())
    now = "ptb-regex.2+char-nfkc-nopunct.2"
    assert tokenizers.get_tokenizer("ptb+character").signature == now

    def before(text):
        return text.replace("ptb-regex.2", "ptb-regex.1").replace("nopunct.2", "nopunct")

    def edit(config):
        for name in names:
            settings = config["extras"][name]["settings"]
            assert before(settings["tok"]) != settings["tok"]
            settings["tok"] = before(settings["tok"])

    saved = tmp_path / "model" / "extras.json"
    assert before(saved.read_text()) != saved.read_text()
    saved.write_text(before(saved.read_text()))
    resign(tmp_path / "model", edit)
    metric = load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(metric.extras.compute(samples), extras.compute(samples))


def test_another_sacrebleu_that_scores_the_same_is_not_refused(build_regressor, samples, tmp_path, resign):
    model, extras = trained(build_regressor, samples, ["chrf"])
    save_model(tmp_path / "model", model, extras=extras.state())

    def edit(config):
        settings = config["extras"]["chrf"]["settings"]
        assert "version=" in settings["sacrebleu"]
        settings["sacrebleu"] = settings["sacrebleu"].partition("version=")[0] + "version=99.0"

    resign(tmp_path / "model", edit)
    metric = load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(metric.extras.compute(samples), extras.compute(samples))


def test_dual_encoders_travel_in_the_folder(build_regressor, samples, tmp_path, clip_folder):
    mine = Path(shutil.copytree(clip_folder, tmp_path / "mine"))
    names = [f"pac-s:{mine}", f"ref-pac-s:{mine}", "length", f"clip-s:{mine}"]
    model, extras = trained(build_regressor, samples, names)
    save_model(tmp_path / "model", model, extras=extras.state())
    expected = ExtraInputs(names, extras.state()).compute(samples)
    np.testing.assert_allclose(expected, extras.compute(samples), rtol=1e-5, atol=1e-6)
    shutil.rmtree(mine)
    (tmp_path / "model").rename(tmp_path / "moved")
    metric = load(tmp_path / "moved", device="cpu")
    np.testing.assert_allclose(metric.extras.compute(samples), expected, rtol=1e-5, atol=1e-6)
    assert np.isfinite(metric.score(samples)).all()
    own = ["pac-s:extras/pac-s", "ref-pac-s:extras/pac-s", "length", "clip-s:extras/pac-s"]
    assert metric.regressor.config.fusion.extra_inputs == own
    assert [path.name for path in (tmp_path / "moved" / "extras").iterdir()] == ["pac-s"]
    config = (tmp_path / "moved" / "config.json").read_text()
    assert str(tmp_path) not in config
    assert "extras/pac-s/open_clip_model.safetensors" in json.loads(config)["sha256"]
    encoders = {id(own.encoder) for name, own in metric.extras.metrics.items() if "pac-s" in name}
    assert len(encoders) == 1  # loaded once
    save_model(tmp_path / "again", metric.regressor, extras=metric.extras.state())
    again = load(tmp_path / "again", device="cpu")
    np.testing.assert_allclose(again.extras.compute(samples), expected, rtol=1e-5, atol=1e-6)


def test_two_encoders_have_two_folders(build_regressor, samples, tmp_path, clip_folder):
    other = write_clip(tmp_path / "other", RESNET, seed=2)
    names = [f"pac-s:{clip_folder}", f"pac-s:{other}"]
    model, extras = trained(build_regressor, samples, names)
    save_model(tmp_path / "model", model, extras=extras.state())
    metric = load(tmp_path / "model", device="cpu")
    assert list(metric.extras.metrics) == ["pac-s:extras/pac-s", "pac-s:extras/pac-s-2"]
    columns = metric.extras.compute(samples)
    assert (columns[:, 0] != columns[:, 1]).any()


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        ({"tokenizer_kwargs": {"trust_remote_code": True}}, "tokenizer_kwargs"),
        ({"hf_tokenizer_name": "somebody/something"}, "hf_tokenizer_name"),
        ({"width": 50_000, "heads": 1}, "cannot hold"),
    ],
)
def test_a_dual_encoder_inside_is_checked_on_load(
    build_regressor, samples, tmp_path, clip_folder, resign, edit, match
):
    model, extras = trained(build_regressor, samples, [f"pac-s:{clip_folder}"])
    save_model(tmp_path / "model", model, extras=extras.state())
    path = tmp_path / "model" / "extras" / "pac-s" / "open_clip_config.json"
    content = json.loads(path.read_text())
    content["model_cfg"]["text_cfg"].update(edit)
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"open_clip_config\.json was altered"):
        load(tmp_path / "model", device="cpu")
    resign(tmp_path / "model")
    with pytest.raises(ModelError, match=match):
        load(tmp_path / "model", device="cpu")


@pytest.mark.parametrize(
    "name",
    ["comet:/usr/bin/python3", "jaspice:http://127.0.0.1:9", "jaspice", "suisei", "bertscore", "em-score"],
)
def test_what_no_folder_can_hold_is_refused_before_training(name):
    with pytest.raises(ConfigError, match=rf"{name.partition(':')[0]}.*cannot go into a model folder"):
        ExtraInputs(["length", name])


def test_a_place_in_a_model_folder_is_refused_for_a_new_model():
    with pytest.raises(ConfigError, match="give the path of yours"):
        ExtraInputs(["length", "pac-s:extras/pac-s"])


@pytest.mark.parametrize("name", ["jaspice:http://127.0.0.1:9", "comet:/usr/bin/python3"])
def test_what_no_folder_may_name_is_refused_of_a_trained_model_too(name):
    saved = {name: ExtraInputs(["length"]).state()["length"]}
    with pytest.raises(ModelError, match="none that a model folder may name"):
        ExtraInputs([name], saved)


def test_a_setting_that_is_not_there_any_more_is_another_score():
    saved = ExtraInputs(["length"]).state()
    given = replace(saved["length"], settings={**saved["length"].settings, "stem": "yes"})
    with pytest.raises(ModelError, match="computed with stem yes, here None"):
        ExtraInputs(["length"], {"length": given})


def test_a_name_given_twice_is_refused():
    with pytest.raises(ConfigError, match="'length' twice"):
        ExtraInputs(["length", "ridge", "length"])


def test_the_ridge_is_read_out_of_fold_on_what_it_was_trained_on(samples):
    extras = ExtraInputs(["length", "ridge"])
    training, support = [5, 0, 2, 3, 1], samples[6:]
    inputs = extras.fit_compute(samples, training, support)
    whole, ridge = extras.compute(samples), extras.metrics["ridge"]
    expected = ridge.out_of_fold([samples[row] for row in training])
    np.testing.assert_allclose(inputs[training, 1], expected, rtol=1e-6)
    assert (inputs[training, 1] != whole[training, 1]).all()
    others = [row for row in range(len(samples)) if row not in training]
    np.testing.assert_array_equal(inputs[others], whole[others])
    np.testing.assert_array_equal(inputs[:, 0], whole[:, 0])
    alone = ExtraInputs(["length", "ridge"]).fit_compute(samples, training)
    assert (alone[others, 1] != inputs[others, 1]).all()  # it learned from support too


def test_an_input_that_is_not_saved_with_the_model_is_refused(build_regressor, tmp_path):
    with pytest.raises(ConfigError, match="not saved with it: length"):
        save_model(tmp_path / "model", build_regressor(extra_inputs=["length"]))
    assert not (tmp_path / "model").exists()


def test_the_shipped_configs_name_what_a_folder_may_hold():
    from suisei.metrics.extras import check_names
    from suisei.resources import resource_path

    found = []
    for path in sorted(resource_path("configs").glob("*.yaml")):
        fusion = (yaml.safe_load(path.read_text(encoding="utf-8")).get("model") or {}).get("fusion") or {}
        found += fusion.get("extra_inputs") or []
    assert len(set(found)) > 5
    check_names(found)


def test_no_metric_that_runs_or_asks_may_be_an_extra_input():
    kinds = {name: entry.extra_input for name, entry in REGISTRY.items()}
    outside = ["suisei", "bertscore", "cosine", "jaspice", "comet", "em-score", "video-pac-s"]
    assert all(kinds[name] == "" for name in outside)
    assert all(REGISTRY[name].argument is None for name, kind in kinds.items() if kind == "alone")
