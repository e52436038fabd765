"""Which column fills which field, whatever it is called."""

import pytest

from suisei.data.column_names import chosen_columns, match_columns
from suisei.data.formats import iter_rows
from suisei.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("names", "of", "references"),
    [
        (("mt", "src", "ref", "score", "imgid", "img"),
         {"candidate": "mt", "rating": "score", "group": "imgid", "image": "img"}, ("src", "ref")),
        (("image_id", "caption"), {"group": "image_id", "candidate": "caption"}, ()),
        (("prediction", "refs", "image_path"), {"candidate": "prediction", "image": "image_path"}, ("refs",)),
        (("hypothesis", "gts", "file_name"), {"candidate": "hypothesis", "image": "file_name"}, ("gts",)),
        (("hyp", "ref_2", "ref_10", "ref1"), {"candidate": "hyp"}, ("ref1", "ref_2", "ref_10")),
        (("hyp", "ref1", "ref0"), {"candidate": "hyp"}, ("ref0", "ref1")),
        (("mt", "reference_01", "reference_10", "reference_0", "reference"),
         {"candidate": "mt"}, ("reference", "reference_0", "reference_01", "reference_10")),
        (("pred", "caption"), {"candidate": "pred"}, ()),
        (("candidate", "mt", "caption"), {"candidate": "candidate"}, ()),
        (("text", "human_score", "score"), {"candidate": "text", "rating": "human_score"}, ()),
        (("Candidate", "Image ID", "Human-Rating", "Lang"),
         {"candidate": "Candidate", "group": "Image ID", "rating": "Human-Rating", "language": "Lang"}, ()),
        (("candidate", "src"), {"candidate": "candidate"}, ()),
        (("caption", "captions"), {"candidate": "caption"}, ("captions",)),
        (("image_path", "file_name", "caption"), {"candidate": "caption", "image": "image_path"}, ()),
        (("ｃａｎｄｉｄａｔｅ", "Ｒｅｆ＿１", "Ｉｍａｇｅ　ＩＤ"),
         {"candidate": "ｃａｎｄｉｄａｔｅ", "group": "Ｉｍａｇｅ　ＩＤ"}, ("Ｒｅｆ＿１",)),
        (("candidate", "自動評価score", "人手評価score", "評価者group", "画像ID"),
         {"candidate": "candidate"}, ()),
        (("candidate", "正解reference", "他システムreference", "流暢さrating", "正確さrating"),
         {"candidate": "candidate"}, ()),
    ],
)  # fmt: skip
def test_usual_names_are_known(names, of, references):
    columns = match_columns(names)
    assert (columns.of, columns.references) == (of, references)


def test_what_is_said_is_what_was_guessed_and_left_out():
    note = match_columns(("caption", "ref1", "ref2", "raiting", "x")).note()
    assert note.startswith("taken: 'caption' for the candidate, 'ref1', 'ref2' for the references; ignored: ")
    assert note.endswith("'raiting' (did you mean 'rating'?), 'x'")
    for silent in (
        ("candidate", "references", "Image"),
        ("mt", "src", "ref", "score"),
        ("candidate", "reference_2"),
        ("candidate", "reference_0", "reference_1"),
        ("candidate", "rating_0", "rating_1"),
    ):
        assert match_columns(silent).note() == ""


def test_what_a_caller_says_goes_before_every_guess():
    chosen = chosen_columns({"candidate": "b", "references": ["y", "x"], "rating": "", "group": None})
    columns = match_columns(("a", "candidate", "b", "x", "y", "references", "rating", "image_id"), chosen)
    assert columns.of == {"candidate": "b"}
    assert columns.references == ("y", "x")
    assert set(columns.ignored) == {"a", "candidate", "references", "rating", "image_id"}


@pytest.mark.parametrize(
    ("names", "of", "raters"),
    [
        (("rating_10", "candidate", "rating_2", "score"), {}, ("rating_2", "rating_10")),
        (("candidate", "human_rating_2", "Rating 1"), {}, ("Rating 1", "human_rating_2")),
        (("candidate", "rating_1"), {"rating": "rating_1"}, ()),
        (("candidate", "rating_" + "1" * 5000, "references", "reference" + "1" * 5000), {}, ()),
        (("candidate", "rating", "rating_1", "rating_2"), {"rating": "rating"}, ()),
        (("candidate", "mos", "rating_1", "rating_2"), {"rating": "mos"}, ()),
    ],
)
def test_every_rater_may_have_a_column(names, of, raters):
    columns = match_columns(names)
    assert (columns.of, columns.raters) == ({"candidate": "candidate", **of}, raters)
    assert "score" not in of


def test_columns_of_raters_beside_their_mean_are_no_misspelt_ones():
    note = match_columns(("candidate", "rating", "rating_1", "rating_2")).note()
    assert note == "ignored: 'rating_1', 'rating_2'"


def test_columns_of_raters_that_a_caller_names():
    columns = match_columns(("candidate", "ann", "bob"), chosen_columns({"rating": ["bob", "ann"]}))
    assert (columns.raters, columns.ignored) == (("bob", "ann"), ())


@pytest.mark.parametrize(
    ("names", "columns", "message"),
    [
        (("caption", "text"), {}, "candidate may be caption, text"),
        (("candidate", "refs", "ref1"), {}, "references are given twice, in 'refs' and in ref1"),
        (("candidate",), {"candidate": "candidat"}, "no column 'candidat', .*did you mean 'candidate'"),
        (("a", "b"), {}, "no column 'candidate'; the columns are a, b"),
        (("正解caption", "生成caption"), {}, "no column 'candidate'; .* are 正解caption, 生成caption"),
        (("candidate", "rating*", "rating?"), {}, r"rating may be rating\*, rating\?; say which"),
        (("candidate", "Candidate"), {}, "candidate may be candidate, Candidate; say which"),
        (("candidate", "refs", "Refs"), {}, "references may be refs, Refs; say which"),
        (("caption",), {"candidate": ""}, "no column 'candidate'"),
    ],
)
def test_what_cannot_be_told_is_a_question(names, columns, message):
    with pytest.raises(DataError, match=message):
        match_columns(names, chosen_columns(columns))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"candiate": "x"},
            "no field 'candiate' .*did you mean 'candidate'.*there are candidate, references",
        ),
        ({"image": ["a", "b"]}, "image is filled by one column, got a, b"),
    ],
)
def test_a_choice_that_cannot_be(columns, message):
    with pytest.raises(ConfigError, match=message):
        chosen_columns(columns)


@pytest.mark.parametrize(
    ("header", "field", "told"),
    [
        ("caption,ratng,url", "rating", ["ignored: 'url'"]),
        ("mt,src,ref,score", "references", []),
        ("caption,src", "references", ["ignored: 'src'"]),
    ],
)
def test_nothing_is_said_of_columns_for_a_field_that_is_to_have_none(header, field, told, tmp_path):
    (tmp_path / "rows.csv").write_text(f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n")
    notes = []
    list(iter_rows(tmp_path / "rows.csv", columns={field: None}, note=notes.append))
    assert [note[note.index("ignored") :] for note in notes if "ignored" in note] == told
