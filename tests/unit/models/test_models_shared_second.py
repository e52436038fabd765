"""A second model that reads with the first's lower layers: what is stored of it, and that it scores so."""

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit, logit

from suisei.__main__ import main
from suisei.data.sample import CaptionSample
from suisei.errors import ModelError
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.loading import load
from suisei.models import shared_second
from suisei.models.folder import load_model, save_bridged, save_model, save_pair
from suisei.models.folder_checks import SEVERAL
from suisei.models.second import Second, Weighing

SAMPLES = [
    CaptionSample("犬が公園を走っている。", ("赤いボールが机の上にある", "犬が公園を走る。")),
    CaptionSample("two dogs run in the park", ("A red ball lies on the table.", "the cat sat on a mat")),
    CaptionSample("赤いボールが机の上にある", ("犬が公園を走っている。",)),
    CaptionSample("two dogs run in the park", ("two dogs run", "犬が公園を走っている。")),
]
EXTRAS = ["unigram-f1", "length"]
SHARE = 0.4
LARGE = shared_second.LARGE
PATH = "second/model.safetensors"


def read(folder, **options):
    return load(folder, **{"device": "cpu", "precision": "fp32", "cache": "off", **options})


@pytest.fixture(scope="module")
def folders(build_regressor, tmp_path_factory):
    """Folders of a first model, one over its lower layer, an English one, and the first with them."""
    root = tmp_path_factory.mktemp("shared")
    common = {"image": False, "poolings": ["mean"], "similarity": True, "alignment": True}
    own = {**common, "head": {"start": "cosine", "extra_hidden": 4}, "extra_inputs": EXTRAS, "blocks": []}
    first = build_regressor(text={"layers": "last"}, **own)
    lower = build_regressor(
        3, text={"layers": 1}, head={"members": 2, "start": "cosine", "hidden": (24,)}, **common,
        extra_inputs=EXTRAS[1:],  # which is not the first's first
    )  # fmt: skip
    names = lower.text.state_dict()
    lower.text.load_state_dict({name: first.text.state_dict()[name] for name in names})
    english = build_regressor(5, text={"layers": "last"}, head={"start": "cosine"}, **common)
    for name, model, slope in (("first", first, 1.0), ("lower", lower, 3.0), ("english", english, 2.0)):
        model.start.references.put(slope, 0.9, 0.5)
        inputs = ExtraInputs(model.config.fusion.extra_inputs)
        inputs.fit(SAMPLES)
        save_model(root / name, model, extras=inputs.state(), card="# A model\n")
    add(root, root / "first", "lower", "ja", root / "one", "--share", str(SHARE))
    add(root, root / "one", "english", "en", root / "both")
    return root


def add(root, first, second, language, new, *options):
    words = {
        "ja": ["犬が走る", "猫が寝る", "赤いボール", "公園の犬"],
        "en": ["a dog", "two cats", "a red ball", "the mat"],
    }
    rows = [
        {"candidate": one, "references": [other], "rating": 0.2 + 0.6 * ((a * b) % 3) / 2}
        for a, one in enumerate(words[language], 1)
        for b, other in enumerate(words[language], 1)
    ]
    path = root / f"{language}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    status = main(["add-model", str(first), str(root / second), "--languages", language, "--data", str(path),
                   "--output", str(new), *options])  # fmt: skip
    assert status == 0


def test_the_network_alone_is_stored(folders):
    files = sorted(p.relative_to(folders / "one").as_posix() for p in (folders / "one" / "second").rglob("*"))
    assert files == ["second/config.json", PATH]
    weights = load_file(folders / "one" / PATH)
    assert {w.dtype for w in weights.values() if w.numel() >= LARGE} == {torch.float16}
    assert {w.dtype for w in weights.values() if w.numel() < LARGE} == {torch.float32}
    config = json.loads((folders / "one" / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == SEVERAL
    assert config["second"] == [{"languages": ["ja"], "share": SHARE, "shared": True}]
    for name in ("model.safetensors", "idf.json", "tokenizer/tokenizer.json", "extras.json"):
        assert (folders / "both" / name).read_bytes() == (folders / "first" / name).read_bytes()
    card = (folders / "one" / "README.md").read_text(encoding="utf-8")
    assert "Over the first 1 layers of this model's own encoder. It is asked of Japanese captions" in card
    assert "ja.jsonl" not in card  # whose ratings decided nothing
    both = (folders / "both" / "README.md").read_text(encoding="utf-8")
    assert both.count("## Second model") == 1
    assert both.index("captions with references") < both.index("It is asked of English captions")


def test_the_command_says_what_is_stored(folders, tmp_path, capsys):
    for name, language, said in (("lower", "ja", True), ("english", "en", False)):
        add(folders, folders / "first", name, language, tmp_path / name)
        assert ("its network alone is stored" in capsys.readouterr().out) == said


def test_it_scores_as_the_whole_one_does(folders):
    first, lower, one = (read(folders / name).score(SAMPLES) for name in ("first", "lower", "one"))
    expected = expit((1 - SHARE) * logit(first) + SHARE * logit(lower))
    np.testing.assert_allclose(one[[0, 2]], expected[[0, 2]], atol=2e-4)  # its network is in half precision
    assert one[[1, 3]].tolist() == first[[1, 3]].tolist()
    assert abs(one - first).max() > 1e-3


def asked_by_itself(metric, samples):
    """The scores of a metric whose seconds compute all that they read themselves."""
    return metric.score_replaced(samples, np.full((len(samples), len(metric.input_columns())), np.nan))[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_what_the_first_computes_is_not_computed_again(folders, precision, monkeypatch):
    metric = read(folders / "one", precision=precision)
    expected = asked_by_itself(metric, SAMPLES)
    (second,) = metric._seconds.opened.values()

    def never(*_, **__):
        raise AssertionError("the first has computed this")

    monkeypatch.setattr(second.regressor.text.backbone, "forward", never)
    monkeypatch.setattr(second.regressor.text.backbone, "passing", never)
    monkeypatch.setattr(second.extras, "compute", never)
    found = metric.score(SAMPLES)
    np.testing.assert_allclose(found, expected, atol=1e-6 if precision == "fp32" else 5e-3)
    assert abs(found - read(folders / "first", precision=precision).score(SAMPLES)).max() > 1e-3
    with pytest.raises(AssertionError):
        asked_by_itself(metric, SAMPLES)


def test_a_compiled_encoder_passes_nothing_on(folders, monkeypatch):
    """What is compiled is the encoder as a whole, and the second's is compiled too."""
    metric = read(folders / "one")
    expected = metric.score(SAMPLES)
    (second,) = metric._seconds.opened.values()
    monkeypatch.setattr(metric, "compiled", True)
    monkeypatch.setattr(second, "score_known", None)
    np.testing.assert_allclose(metric.score(SAMPLES), expected, atol=1e-6)


def test_a_mixture_of_layers_passes_its_lower_ones_on(folders, build_regressor, tmp_path):
    lower = load_model(folders / "lower", lambda _: None)
    mixed = build_regressor(
        text={"layers": "mix"}, image=False, poolings=["mean"], alignment=True, extra_inputs=EXTRAS
    )
    mixed.text.load_state_dict(load_model(folders / "first", lambda _: None).regressor.text.state_dict())
    inputs = ExtraInputs(EXTRAS)
    inputs.fit(SAMPLES)
    save_model(tmp_path / "mixed", mixed, extras=inputs.state(), card="# A model\n")
    shutil.copytree(folders / "lower", tmp_path / "lower")
    add(tmp_path, tmp_path / "mixed", "lower", "ja", tmp_path / "new", "--share", str(SHARE))
    metric = read(tmp_path / "new")
    assert is_shared(load_model(tmp_path / "mixed", lambda _: None), lower)
    np.testing.assert_allclose(metric.score(SAMPLES), asked_by_itself(metric, SAMPLES), atol=1e-6)


def test_inputs_that_look_at_the_image_are_computed_for_the_second_alone(folders, monkeypatch):
    """A second is asked of captions without their image, so what the first says of the image is not its."""
    metric = read(folders / "one")
    expected = metric.score(SAMPLES)
    (second,) = metric._seconds.opened.values()
    assert second.takes_over
    monkeypatch.setattr(second.extras, "needs", lambda: {"length": frozenset({"image"})})
    assert not second.takes_over
    computed, compute = [], second.extras.compute
    monkeypatch.setattr(second.extras, "compute", lambda own: computed.append(len(own)) or compute(own))
    np.testing.assert_allclose(metric.score(SAMPLES), expected, atol=1e-6)
    assert computed == [2]
    monkeypatch.undo()
    assert second.takes_over
    second.regressor.start.bridge = torch.nn.Identity()  # which reads references otherwise
    assert not second.takes_over


def test_an_encoder_that_had_no_more_layers_is_read_as_deep_as_it_was(folders, tmp_path, resign):
    """Trained with ``layers: last`` over another model's four, it must not read the first's twelve."""
    last = shutil.copytree(folders / "lower", tmp_path / "last")
    resign(last, lambda config: config["settings"]["text"].update(layers="last"))
    report = tmp_path / "report.json"
    options = ("--share", str(SHARE), "--json", str(report))
    add(tmp_path, folders / "first", "last", "ja", tmp_path / "new", *options)
    assert read(tmp_path / "new").score(SAMPLES).tolist() == read(folders / "one").score(SAMPLES).tolist()
    config = json.loads((tmp_path / "new" / "second" / "config.json").read_text(encoding="utf-8"))
    assert config["settings"]["text"]["layers"] == 1
    shown = json.loads(report.read_text(encoding="utf-8"))["table"]["sections"][0]["rows"]
    (mean,) = [row["cells"]["mean"]["value"] for row in shown if row["label"] == "both"]
    rows = [json.loads(line) for line in (tmp_path / "ja.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = read(tmp_path / "new").score([r["candidate"] for r in rows], [r["references"] for r in rows])
    assert scores.mean() == pytest.approx(mean, abs=1e-6)  # what was measured is what was written


def test_its_settings_name_no_folder_of_this_machine(folders, tmp_path, resign):
    here = shutil.copytree(folders / "lower", tmp_path / "here")
    resign(here, lambda config: config["settings"]["text"].update(name=str(folders / "first")))
    add(tmp_path, folders / "first", "here", "ja", tmp_path / "new")
    assert str(folders) not in (tmp_path / "new" / "second" / "config.json").read_text(encoding="utf-8")


def test_threads_that_ask_at_once_have_the_same_scores(folders):
    expected = read(folders / "both").score(SAMPLES).tolist()
    for precision in ("fp32", "int8"):
        metric = read(folders / "both", precision=precision)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _, own=metric: own.score(SAMPLES).tolist(), range(8)))
        assert found == [found[0]] * 8
        assert precision == "int8" or found[0] == expected


def test_two_seconds_are_asked_each_of_its_language(folders):
    first, one, both = (read(folders / name) for name in ("first", "one", "both"))
    scores = both.score(SAMPLES)
    assert scores[[0, 2, 3]].tolist() == one.score(SAMPLES)[[0, 2, 3]].tolist()
    assert scores[1] != first.score(SAMPLES)[1]
    assert "|second:en+ja|" in both.signature
    assert [second.shared for second in both.model.seconds] == [True, False]


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_it_reads_with_the_first_in_any_precision(folders, precision):
    exact, rounded = read(folders / "both"), read(folders / "both", precision=precision)
    np.testing.assert_allclose(rounded.score(SAMPLES), exact.score(SAMPLES), atol=0.05)
    alone = [float(read(folders / "both", precision=precision).score([sample])[0]) for sample in SAMPLES]
    np.testing.assert_allclose(alone, rounded.score(SAMPLES), atol=0.01)


def test_a_pickled_one_scores_the_same_without_its_folder(folders, tmp_path):
    copied = shutil.copytree(folders / "both", tmp_path / "both")
    metric = read(copied)
    pickled, expected = pickle.dumps(metric), metric.score(SAMPLES).tolist()
    shutil.rmtree(copied)
    assert pickle.loads(pickled).score(SAMPLES).tolist() == expected


def test_a_folder_of_both_can_be_written_again(folders, tmp_path):
    both = read(folders / "both")
    save_bridged(tmp_path / "bridged", both.model, (1.0, 0.0), card="# Bridged\n")
    assert read(tmp_path / "bridged").score(SAMPLES[:3]).tolist() == both.score(SAMPLES[:3]).tolist()


def is_shared(first, second):
    return shared_second.is_shared(first.regressor, first.extras, second.regressor, second.extras)


def test_another_encoder_s_layers_are_not_shared(folders, build_regressor, tmp_path):
    first, lower = (load_model(folders / name, lambda _: None) for name in ("first", "lower"))
    assert is_shared(first, lower)
    assert not is_shared(lower, first)  # which has more layers
    assert not is_shared(first, load_model(folders / "english", lambda _: None))
    (name,) = lower.extras
    other = replace(lower.extras[name], options={"tokenizer": "char"})
    assert not is_shared(first, replace(lower, extras={name: other}))
    lower.regressor.text.max_tokens -= 1
    assert not is_shared(first, lower)
    lower.regressor.text.max_tokens += 1
    with torch.no_grad():
        lower.regressor.text.backbone.layers[0].output["dense"].weight[0, 0] += 1e-3
    assert not is_shared(first, lower)


def test_inputs_that_the_first_does_not_compute_are_not_shared(folders, build_regressor, tmp_path):
    inputs = ExtraInputs(["chrf"])
    inputs.fit(SAMPLES)
    own = load_model(folders / "lower", lambda _: None).regressor
    other = build_regressor(text={"layers": 1}, image=False, poolings=["mean"], extra_inputs=["chrf"])
    other.text.load_state_dict(own.text.state_dict())
    save_model(tmp_path / "other", other, extras=inputs.state())
    first, found = (load_model(path, lambda _: None) for path in (folders / "first", tmp_path / "other"))
    assert not is_shared(first, found)


def test_its_folder_alone_is_no_model(folders):
    with pytest.raises(ModelError, match="idf"):
        read(folders / "one" / "second")


def test_compact_wants_the_first_alone(folders, tmp_path, capsys):
    assert main(["compact", str(folders / "one"), "--output", str(tmp_path / "small")]) == 2
    assert "a second model reads with its encoder; make it small before" in capsys.readouterr().err


def test_a_file_of_it_that_was_altered_is_named(folders, tmp_path):
    copied = shutil.copytree(folders / "one", tmp_path / "one")
    (copied / PATH).write_bytes((copied / PATH).read_bytes() + b" ")
    with pytest.raises(ModelError, match=f"{PATH} was altered"):
        read(copied)
    shutil.copyfile(folders / "one" / PATH, copied / PATH)
    metric = read(copied)  # which asks the second no sooner than it must
    (copied / PATH).write_bytes((copied / PATH).read_bytes()[:-1] + b"\x01")
    with pytest.raises(ModelError, match="was altered"):
        metric.score(SAMPLES)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c.update(second=[]), "must be a list of 1 to 2"),
        (lambda c: c.update(second=c["second"] * 3), "must be a list of 1 to 2"),
        (lambda c: c["second"][0].pop("shared"), "second"),
        (lambda c: c["second"][0].update(shared=1), r"second\[0\].shared"),
        (lambda c: c["second"][0].update(share=2), r"second\[0\].share"),
        (lambda c: c["second"][1].update(languages=["ja"]), "two models would be weighed beside the first"),
    ],
)
def test_settings_that_cannot_be_are_refused(folders, tmp_path, resign, edit, message):
    copied = shutil.copytree(folders / "both", tmp_path / "both")
    resign(copied, edit)
    with pytest.raises(ModelError, match=message):
        read(copied)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["settings"]["text"].update(layers=9), "first 9 layers are asked for"),
        (lambda c: c["settings"]["text"].update(layers="mix"), "reads its last layer alone"),
        (lambda c: c["settings"]["head"].update(hidden=[16_000, 16_000]), "does not fit the model"),
        (lambda c: c["settings"]["fusion"].update(extra_inputs=["chrf"]), "reads chrf"),
        (lambda c: c["settings"]["head"].update(members=0), "members"),
    ],
)
def test_a_network_that_does_not_fit_the_first_is_refused(folders, tmp_path, resign, edit, message):
    copied = shutil.copytree(folders / "one", tmp_path / "one")
    resign(copied / "second", edit)
    resign(copied, lambda config: None)
    with pytest.raises(ModelError, match=message):
        read(copied).score(SAMPLES)


def test_a_first_that_is_not_of_bert_s_kind_shares_nothing(folders, monkeypatch):
    first, lower = (load_model(folders / name, lambda _: None) for name in ("first", "lower"))
    monkeypatch.setattr("suisei.models.shared_second.BertEncoder", int)
    assert not is_shared(first, lower)


def test_a_pair_that_shares_is_read_by_nobody_else(folders, tmp_path):
    """The network of a shared model may lie beside another first: its own folder says nothing of which."""
    one = read(folders / "one")
    second = one.model.seconds[0]
    save_pair(tmp_path / "again", load_model(folders / "first", lambda _: None), second)
    assert read(tmp_path / "again").score(SAMPLES).tolist() == one.score(SAMPLES).tolist()
    beside = Second(Weighing(("en",), 0.2), second.folder, None, second.checksum, shared=True)
    save_pair(tmp_path / "two", one.model, beside)
    assert len(read(tmp_path / "two").model.seconds) == 2


def test_a_number_that_both_read_is_replaced_in_both(folders):
    both, first, lower = (read(folders / name) for name in ("one", "first", "lower"))

    def replaced(metric, names):
        values = np.full((len(SAMPLES), len(metric.input_columns())), np.nan)
        values[:, [column.name in names for column in metric.input_columns()]] = 0.1
        return metric.score_replaced(SAMPLES, values)[0]

    for names in (["length"], ["unigram-f1"], ["length", "unigram-f1"]):
        expected = expit((1 - SHARE) * logit(replaced(first, names)) + SHARE * logit(replaced(lower, names)))
        np.testing.assert_allclose(replaced(both, names)[[0, 2]], expected[[0, 2]], atol=2e-4)
    assert abs(replaced(lower, ["length"]) - lower.score(SAMPLES)).max() > 1e-3
