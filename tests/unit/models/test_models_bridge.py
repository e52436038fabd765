"""References in another language: read by a line of their own, and only where there are no others."""

import json
import shutil

import numpy as np
import pytest
from scipy.special import expit

from suisei.__main__ import main
from suisei.data.sample import CaptionSample
from suisei.errors import ModelError
from suisei.metrics.loading import load
from suisei.models.folder import load_model, save_bridged, save_model, save_pair
from suisei.models.second import Second, Weighing
from suisei.models.similarities import similarities

ENGLISH, JAPANESE = "two dogs run in the park", "犬が公園を走っている。"
OTHERS = ("A red ball lies on the table.", "赤いボールが机の上にある")
OWN = [
    CaptionSample(ENGLISH, (OTHERS[0], "the cat sat on a mat")),
    CaptionSample(JAPANESE, (OTHERS[1],)),
]
ACROSS = [
    CaptionSample(ENGLISH, (OTHERS[1], "犬が走る")),
    CaptionSample(JAPANESE, (OTHERS[0], "the cat sat on a mat")),
    CaptionSample("ABC", (OTHERS[0],), language="ja"),
]
MIXED = [CaptionSample(ENGLISH, (OTHERS[1], OTHERS[0], JAPANESE, "the cat sat on a mat"))]
BRIDGE = (9.0, -7.5)
MODEL = {"text": {"layers": "last"}, "poolings": ["mean"], "blocks": [], "similarity": True}


def read(folder):
    return load(folder, device="cpu", precision="fp32", cache="off")


@pytest.fixture(scope="module")
def folders(build_regressor, tmp_path_factory):
    """A model without and with a bridge, which scores by overlap and cosine and looks at images."""
    root = tmp_path_factory.mktemp("bridge")
    model = build_regressor(alignment=True, head={"start": "cosine", "extra_hidden": 4}, **MODEL)
    model.start.references.put(3.0, 0.9, 0.5)
    for member in model.members:
        member.beside.layers[-1].bias.data.fill_(0.7)  # what the network adds
    save_model(root / "plain", model, card="# A model\n")
    save_bridged(root / "bridged", read(root / "plain").model, BRIDGE, card="# A model\n")
    return root / "plain", root / "bridged"


def test_a_bridge_scores_across_languages_alone(folders):
    plain, bridged = map(read, folders)
    assert bridged.score(OWN).tolist() == plain.score(OWN).tolist()
    cosines = bridged.reference_cosines(ACROSS)
    expected = expit(BRIDGE[0] * cosines + BRIDGE[1])  # to which the network adds nothing
    np.testing.assert_allclose(bridged.score(ACROSS), expected, atol=1e-6)
    assert np.abs(bridged.score(ACROSS) - plain.score(ACROSS)).min() > 0.01


def test_cosines_are_the_middle_of_the_largest_and_the_mean(folders):
    metric = read(folders[0])
    each = [CaptionSample(ENGLISH, (reference,)) for reference in ACROSS[0].references]
    cosines = metric.reference_cosines([*each, ACROSS[0], CaptionSample(ENGLISH)])
    assert cosines[2] == pytest.approx((cosines[:2].max() + cosines[:2].mean()) / 2, abs=1e-6)
    assert np.isnan(cosines[3])


def test_cosines_are_computed_a_few_samples_at_a_time(folders, monkeypatch):
    metric, given = read(folders[0]), [*OWN, *ACROSS]
    whole, held = metric.reference_cosines(given), []

    def noted(candidates, *others):
        held.append(len(candidates))
        return similarities(candidates, *others)

    monkeypatch.setattr("suisei.metrics.forward.COMPARED", 2)
    monkeypatch.setattr("suisei.metrics.forward.similarities", noted)
    np.testing.assert_allclose(metric.reference_cosines(given), whole, atol=1e-6)
    assert held == [2, 2, 1]


def test_beside_its_own_language_references_in_the_other_change_nothing(folders):
    plain, bridged = map(read, folders)
    assert bridged.score(MIXED)[0] == pytest.approx(float(bridged.score(OWN)[0]), abs=1e-6)
    assert abs(plain.score(MIXED)[0] - plain.score(OWN)[0]) > 1e-3


def test_batches_and_company_do_not_matter(folders):
    metric = read(folders[1])
    together = metric.score([*OWN, *ACROSS, *MIXED], batch_size=2)
    alone = [float(metric.score([sample])[0]) for sample in [*OWN, *ACROSS, *MIXED]]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_an_explanation_is_of_the_bridge_too(folders):
    metric = read(folders[1])
    found = metric.explain(ACROSS[0])
    assert found.score == pytest.approx(float(metric.score(ACROSS[:1])[0]), abs=1e-6)
    columns = metric.input_columns()
    replaced = np.full((1, len(columns)), np.nan)
    replaced[0, [column.kind == "alignment" for column in columns]] = 0.9
    again, _ = metric.score_replaced(ACROSS[:1], replaced)
    assert again[0] == pytest.approx(found.score, abs=1e-6)  # words are not compared across languages
    replaced[0, [column.name.startswith("similarity") for column in columns]] = 0.9
    again, _ = metric.score_replaced(ACROSS[:1], replaced)
    assert again[0] == pytest.approx(expit(BRIDGE[0] * 0.9 + BRIDGE[1]), abs=1e-6)


def test_weights_and_all_else_are_stored_as_they_were(folders):
    plain, bridged = folders
    for name in ("model.safetensors", "idf.json", "tokenizer/tokenizer.json"):
        assert (bridged / name).read_bytes() == (plain / name).read_bytes()
    assert read(plain).settings()["model"] != read(bridged).settings()["model"]


def test_a_second_model_is_asked_of_the_references_that_are_read(folders, tmp_path):
    bridged = folders[1]
    own = load_model(bridged, lambda _: None)
    beside = Second(Weighing(("en",), 0.5), folders[0], None, "")
    save_pair(tmp_path / "both", own, beside)
    both = read(tmp_path / "both")
    assert both.score(ACROSS).tolist() == read(bridged).score(ACROSS).tolist()
    assert not both._seconds.opened
    assert both.score(MIXED)[0] == pytest.approx(float(both.score(OWN)[0]), abs=1e-6)
    assert both._seconds.opened
    save_bridged(tmp_path / "again", both.model, (1.0, 0.0))
    again = read(tmp_path / "again")
    assert again.score(OWN).tolist() == both.score(OWN).tolist()
    np.testing.assert_allclose(again.score(ACROSS), expit(again.reference_cosines(ACROSS)), atol=1e-6)


def test_compact_keeps_the_bridge(folders, tmp_path):
    rows = [{"candidate": s.candidate, "references": list(s.references)} for s in (*OWN, *ACROSS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    main(["compact", str(folders[1]), "--output", str(tmp_path / "small"), "--whole-vocabulary",
          "--bits", "8", "--data", str(tmp_path / "rows.jsonl")])  # fmt: skip
    small, whole = read(tmp_path / "small"), read(folders[1])
    assert tuple(small.regressor.config.head.bridge) == BRIDGE
    np.testing.assert_allclose(small.score(ACROSS), whole.score(ACROSS), atol=0.02)


@pytest.mark.parametrize("bridge", [3, [1.0], [1.0, 2.0, 3.0], ["1", 2.0], [float("nan"), 0.0], [1e9, 0.0]])
def test_a_bridge_that_cannot_be_is_refused(folders, tmp_path, resign, bridge):
    altered = shutil.copytree(folders[1], tmp_path / "altered")
    resign(altered, lambda config: config["settings"]["head"].update(bridge=bridge))
    with pytest.raises(ModelError, match=r"head\.bridge"):
        read(altered)


def test_a_second_model_of_both_languages_is_not_asked_across_them(folders, tmp_path):
    """It has no line for these, and would draw the score to where the first was before its own."""
    beside = Second(Weighing(("ja", "en"), 0.5), folders[0], None, "")
    save_pair(tmp_path / "both", load_model(folders[1], lambda _: None), beside)
    both, bridged = read(tmp_path / "both"), read(folders[1])
    assert both.score(ACROSS).tolist() == bridged.score(ACROSS).tolist()
    assert not both._seconds.opened
    both.score([*ACROSS, *OWN])
    assert both._seconds.opened
    replaced = np.full((len(ACROSS), len(both.input_columns())), np.nan)
    np.testing.assert_allclose(both.score_replaced(ACROSS, replaced)[0], bridged.score(ACROSS), atol=1e-6)


@pytest.mark.parametrize("candidate", ["3 2", "!!!"])
def test_an_explanation_of_a_caption_without_a_letter_is_of_its_score(folders, candidate):
    metric = read(folders[1])
    sample = CaptionSample(candidate, ("犬が走る", "猫がいる"))
    found = metric.explain(sample)
    assert found.score == pytest.approx(float(metric.score([sample])[0]), abs=1e-6)
