"""Which settings leave a part of a model out, and where there is none to leave out."""

import json

import pytest

from suisei.ablation.variants import BUILT_IN, choose_variants, parse_variant
from suisei.errors import ConfigError
from suisei.models.blocks import PAPER
from suisei.models.poolings import POOLINGS, Pooling

MODEL = {
    "image": {"name": "tiny", "frozen": False},
    "fusion": {
        "poolings": ["idf-normalised", "mean"], "blocks": None, "similarity": True, "alignment": True,
        "image_similarity": True, "extra_inputs": ["ridge", "bleu-2", "pac-s:weights"],
    },
    "head": {"members": 4, "start": None},
    "loss": {"cosine_weight": 0.0, "support_weight": 0.0},
    "pretraining": {"epochs": 12, "image_epochs": 5, "cross_fit": 4},
}  # fmt: skip


def settings(support="jsts", **changed):
    model = {key: changed.pop(key, value) for key, value in MODEL.items() if key != "fusion"}
    return {"model": {**model, "fusion": {**MODEL["fusion"], **changed}}, "data": {"support": support}}


def changes(given, *names):
    chosen, skipped = choose_variants(names or None, [], given)
    return {variant.name: variant.changes for variant in chosen}, skipped


def test_every_part_is_left_out_by_its_settings():
    found, skipped = changes(settings())
    assert next(iter(found)) == "full"
    assert found["full"] == {}
    assert skipped == {}
    assert found["no-idf"] == {"model.fusion.poolings": '["mean"]'}
    assert found["no-image"] == {
        "model.image": "null", "model.fusion.extra_inputs": '["ridge", "bleu-2"]',
    }  # fmt: skip
    assert found["no-pac-s"] == {"model.fusion.extra_inputs": '["ridge", "bleu-2"]'}
    assert found["no-ridge"] == {"model.fusion.extra_inputs": '["bleu-2", "pac-s:weights"]'}
    assert found["no-lexical"] == {"model.fusion.extra_inputs": '["pac-s:weights"]'}
    assert found["no-extra"] == {"model.fusion.extra_inputs": "[]"}
    assert found["no-similarity"] == {"model.fusion.similarity": "false"}
    assert found["no-alignment"] == {"model.fusion.alignment": "false"}
    assert found["no-pretraining"] == {"model.pretraining": "null"}
    assert found["no-cross-fit"] == {"model.pretraining.cross_fit": "0"}
    assert found["no-support"] == {"data.support": "null"}
    assert found["one-member"] == {"model.head.members": "1"}
    assert found["only-extra"] == {
        "model.fusion.blocks": "[]", "model.fusion.similarity": "false", "model.fusion.alignment": "false",
        "model.fusion.image_similarity": "false",
    }  # fmt: skip
    for block in PAPER:
        kept = json.loads(found[f"no-{block}"]["model.fusion.blocks"])
        assert sorted([*kept, block]) == sorted(PAPER)


def test_what_cannot_apply_is_left_out_with_its_reason():
    bare = settings(
        image=None, poolings=["mean"], blocks=["candidate"], similarity=False, extra_inputs=["ridge"],
        alignment=False, head={"members": 1, "start": None}, pretraining=None, support=None,
    )  # fmt: skip
    found, skipped = changes(bare)
    assert list(found) == ["full", "no-ridge", "only-extra"]
    assert found["only-extra"] == {"model.fusion.blocks": "[]"}  # image_similarity needs an image
    assert skipped["no-alignment"] == "the full model has no alignment inputs"
    assert skipped["no-pretraining"] == "the full model is not pre-trained"
    assert skipped["no-cross-fit"] == "the full model's pre-training is not cross-fitted"
    assert skipped["no-support"] == "the full model has no data.support"
    assert skipped["one-member"] == "the full model has one member"
    assert skipped["no-image"] == "the full model reads no image"
    assert skipped["no-idf"] == "the full model does not pool by idf"
    assert skipped["no-lexical"] == "the same as no-ridge here"
    assert skipped["no-candidate"] == "the full model has no other block"
    assert skipped["no-reference"] == "it is not in the full model"
    assert skipped["no-image-product"] == "the full model reads no image"
    assert set(found) | set(skipped) == {"full", *BUILT_IN}


def test_no_image_leaves_out_the_blocks_of_the_image():
    found, _ = changes(settings(blocks=["candidate", "image-product"], extra_inputs=[]), "no-image")
    assert found["no-image"]["model.fusion.blocks"] == '["candidate"]'
    _, skipped = changes(settings(blocks=["image-product"]), "no-image")
    assert "no other fusion blocks" in skipped["no-image"]


def test_an_image_beside_no_block_is_left_out_too():
    found, _ = changes(settings(blocks=[], extra_inputs=["ridge"]), "no-image", "only-extra")
    assert found["no-image"] == {"model.image": "null"}
    assert found["only-extra"]["model.image"] == "null"
    assert found["only-extra"]["model.pretraining"] == "null"
    assert "model.fusion.blocks" not in found["only-extra"]


def test_a_variant_leaves_something_to_score_by():
    alone = {"similarity": False, "alignment": False, "image_similarity": False, "blocks": []}
    for given, name in (
        ({"extra_inputs": ["ridge"]}, "no-ridge"),
        ({"extra_inputs": [], "similarity": True}, "no-similarity"),
        ({"extra_inputs": [], "alignment": True}, "no-alignment"),
        ({"extra_inputs": [], "image_similarity": True}, "no-image"),
    ):
        found, skipped = changes(settings(**{**alone, **given}), name)
        assert list(found) == ["full"]
        assert skipped[name] == "the full model has nothing else to score by"
        found, _ = changes(settings(**{**alone, **given, "blocks": ["candidate"]}), name)
        assert name in found


def test_extra_inputs_alone_need_some_and_something_beside():
    alone = {"similarity": False, "alignment": False, "image_similarity": False, "blocks": []}
    assert changes(settings(**alone), "only-extra")[1] == {"only-extra": "the full model has nothing else"}
    _, skipped = changes(settings(extra_inputs=[]), "only-extra")
    assert skipped == {"only-extra": "the full model has no extra inputs"}


def test_what_the_loss_learns_from_goes_with_what_is_left_out():
    """As configs/small.yaml has it: rated pairs in every step, and a score that starts from the cosine."""
    given = settings(
        head={"members": 1, "start": "cosine"}, loss={"cosine_weight": 1.0, "support_weight": 1.0}, blocks=[]
    )
    found, _ = changes(given, "no-support", "only-extra")
    assert found["no-support"] == {"data.support": "null", "model.loss.support_weight": "0"}
    alone = found["only-extra"]
    assert alone["model.head.start"] == "null"
    assert (alone["model.loss.cosine_weight"], alone["model.loss.support_weight"]) == ("0", "0")
    still = settings(
        head={"members": 1, "start": "cosine"}, blocks=[], similarity=False, alignment=False,
        image_similarity=False,
    )  # fmt: skip
    assert changes(still, "only-extra")[0]["only-extra"]["model.head.start"] == "null"


@pytest.mark.parametrize(
    "image",
    [
        {"name": "tiny", "pretrained": "openai", "frozen": True},
        {"name": "timm:test_resnet", "pretrained": None, "frozen": True},
    ],
)
def test_a_frozen_image_encoder_is_not_left_random(image):
    found, _ = changes(settings(image=image), "no-pretraining")
    assert found["no-pretraining"] == {"model.pretraining.epochs": "0"}
    _, skipped = changes(
        settings(image=image, pretraining={"epochs": 0, "image_epochs": 5}), "no-pretraining"
    )
    assert skipped["no-pretraining"] == "the image encoder is frozen and starts from random weights"
    _, skipped = changes(settings(pretraining={"epochs": 0, "image_epochs": 0}), "no-pretraining")
    assert skipped["no-pretraining"] == "the full model is not pre-trained"


def test_idf_alone_becomes_the_mean():
    found, _ = changes(settings(poolings=["idf"]), "no-idf")
    assert found["no-idf"] == {"model.fusion.poolings": '["mean"]'}


def test_a_pooling_says_itself_whether_it_reads_idf(monkeypatch):
    monkeypatch.setitem(POOLINGS, "rare", Pooling(lambda mask, idf: mask * idf.square(), by_idf=True))
    found, _ = changes(settings(poolings=["rare", "mean"]), "no-idf")
    assert found["no-idf"] == {"model.fusion.poolings": '["mean"]'}


def test_own_variants():
    variant = parse_variant("wide:model.head.hidden=[512, 64],trainer.max_epochs=4,data.train='a,b'")
    assert variant.changes == {
        "model.head.hidden": "[512, 64]", "trainer.max_epochs": "4", "data.train": "'a,b'",
    }  # fmt: skip
    assert variant.arguments[1] == "--trainer.max_epochs=4"
    chosen, _ = choose_variants(["no-idf"], [variant], settings())
    assert [each.name for each in chosen] == ["full", "no-idf", "wide"]


@pytest.mark.parametrize(
    "text", ["wide", "wide:", "a/b:x=1", "full:x=1", "no-idf:x=1", "wide:x", "..:x=1", "wide:x=1,y=2, x=3"]
)
def test_refused_variants(text):
    with pytest.raises(ConfigError, match="--variant"):
        parse_variant(text)


def test_letters_of_a_variants_name_are_ascii_and_said_to_be():
    with pytest.raises(ConfigError, match="must be of letters from a to z, digits"):
        parse_variant("幅:x=1")


@pytest.mark.parametrize(
    ("name", "why"), [("wide", "two have that name"), ("Wide", "it differs from 'wide' in case alone")]
)
def test_two_variants_of_one_name_or_folder_are_refused(name, why):
    with pytest.raises(ConfigError, match=f"--variant '{name}': {why}; give one of them another"):
        choose_variants([], [parse_variant("wide:x=1"), parse_variant(f"{name}:x=2")], settings())


@pytest.mark.parametrize(("name", "known"), [("FULL", "full"), ("No-IDF", "no-idf"), ("no-idf", "no-idf")])
def test_a_variant_cannot_have_the_folder_of_a_built_in_one(name, known):
    with pytest.raises(ConfigError, match=f"there is '{known}' already; give it another name"):
        parse_variant(f"{name}:x=1")


def test_unknown_variants_list_the_known():
    with pytest.raises(ConfigError, match=r"no variant 'no-idff'; there are: full, no-image, .*wide"):
        choose_variants(["no-idff"], [parse_variant("wide:x=1")], settings())
