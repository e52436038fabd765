"""What stands in the place of a caption and is none costs its row, whatever the format; captions do not."""

import pytest

from suisei.data.formats import iter_rows, read_samples
from suisei.data.frames import frame_samples
from suisei.errors import DataError
from tests.unit.data.row_files import jsonl, parquet, problem, write

pandas = pytest.importorskip("pandas")


def in_table(folder, kind, **columns):
    """Write a table of text in a format that has one."""
    frame = pandas.DataFrame(columns)
    path = folder / f"t.{kind}"
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    elif kind == "parquet":
        parquet(folder, **columns).rename(path)
    else:
        frame.to_json(path, orient="records", lines=kind == "jsonl")
    return path


TABLES = ("csv", "tsv", "parquet", "jsonl", "json")


@pytest.mark.parametrize("kind", TABLES)
def test_what_tables_say_where_there_is_no_value_is_no_caption(tmp_path, kind):
    words = ["nan", "NaN", "None", "NULL", "null", "<NA>", " N/A "]
    others = ["none", "Nan", "NA", "null and void", "none of the dogs runs", "a nan", "N/A?"]
    captions = [*words, *others]
    path = in_table(tmp_path, kind, candidate=captions, reference_2=["a dog"] * len(captions))
    rows = list(iter_rows(path, note=str))
    assert [row.sample is None for row in rows] == [True] * len(words) + [False] * len(others)
    assert "row 7: candidate is 'N/A', which a table says where it has no value" in problem(rows[6])
    path = in_table(tmp_path, kind, candidate=["a dog"] * len(captions), reference_2=captions)
    rows = list(iter_rows(path, note=str))
    assert [row.sample is None for row in rows] == [True] * len(words) + [False] * len(others)
    assert "row 1: reference_2 is 'nan', which" in problem(rows[0])
    assert "leave the cell blank" in problem(rows[0])


def test_a_list_of_references_has_no_such_word_either(tmp_path):
    (row,) = iter_rows(jsonl(tmp_path, {"candidate": "a", "references": ["a dog", "nan"]}))
    assert "row 1: reference 2 is 'nan'" in problem(row)
    (row,) = iter_rows(jsonl(tmp_path, {"mt": "a", "refs": ["a dog", "None"]}))
    assert "row 1: reference 2 of refs is 'None'" in problem(row)


def test_a_data_frame_of_text_has_no_such_word_either():
    frame = pandas.DataFrame({"candidate": ["a", "b"], "reference_1": ["a dog", None]})
    assert [sample.references for sample in frame_samples(frame)] == [("a dog",), ()]
    with pytest.raises(DataError, match="sample 1: reference_1 is 'None', which a table says"):
        frame_samples(frame.fillna("None"))


def test_lines_of_plain_text_are_what_somebody_wrote(tmp_path):
    samples = read_samples(write(tmp_path, "t.txt", "nan\nNone\n"), note=str)
    assert [sample.candidate for sample in samples] == ["nan", "None"]


LITERALS = (
    "[{'generated_text': 'a dog runs'}]",
    '{"caption": "a dog"}',
    "['a', 'dog', 'runs']",
    '["a dog"]',
    " [ 'it\\'s a dog', \"it's 2\" ,\n None, 1e-05]",
    "['a dog'\n 'the dog']",
    "array(['a dog runs', 'the dog'], dtype=object)",
    "{'sentences': [{'raw': 'a dog'}], 'score': tensor(0.97, device='cuda:0')}",
    "[np.str_('a dog'), np.str_('b')]",
    "('a dog', 'the dog')",
    "[['a dog']]",
    "[]",
    "{}",
    "[0.5, 0.25]",
    "[0.5]",
    "[None]",
    "[nan, -1e-05, True]",
    "[1,2]",
    "[10 20]",
    "(1, 2)",
    "(1,)",
    "((1, 2), (3, 4))",
    "(1,2)",
    "(0.12,0.98,0.33)",
    "[640,480]",
    "[120,233,310,412]",
    "[1, 2], [3, 4]",
    "[[1, 2], [3, 4]",
    "[[1]\n [2]]",
    "[[1, 2], [3, 4]]",
    "[0.5 0.25 ... 0.75]",
    "array([0.5, 1.], dtype=float32)",
    '["a", ...]',
    "['a' 'b' ... 'z']",
    "[b'a']",
    "[u'a dog', u'the dog']",
)
CAPTIONS = (
    "[laughs] a man",
    "[a cat]",
    "[2]",
    "(3)",
    "(None)",
    "(1,000)",
    "[1,000]",
    "(1) (2)",
    "(1)(2)",
    "[1] [2]",
    "[1] (2)",
    "(3) 4 (5)",
    "(1, 2) (3, 4)",
    "(10 20)",
    "(1,234)",
    "[2] dogs",
    "(10:30)",
    "[12 a.m.]",
    "[1 dog, 2 cats]",
    "[None of the dogs]",
    "[true story]",
    "[...]",
    "('a cat')",
    '("Stop")',
    '["Stop" sign]',
    '["Stop" and "Go"]',
    '["Stop", says the sign]',
    '["Stop", "Go"] signs [red]',
    '["Stop"] sign (red)',
    '{"Stop" on a sign}',
    "array of dogs (brown)",
    "「止まれ」（標識）",
    "（犬）",
    "3 dogs",
    "none of the dogs runs",
    "a dog's ['best'] day",
    '"a dog", "a cat"',
)


@pytest.mark.parametrize("kind", [*TABLES, "txt"])
def test_a_list_or_a_dict_as_text_is_no_candidate_and_a_caption_in_brackets_is_one(tmp_path, kind):
    texts = [*LITERALS, *CAPTIONS]
    if kind == "txt":
        texts = ["a dog", *(text.strip().replace("\n", " ") for text in texts)]
        path = write(tmp_path, "t.txt", "\n".join(texts))
    else:
        path = in_table(tmp_path, kind, candidate=texts)
    rows = list(iter_rows(path, note=str))
    refused = [text for text, row in zip(texts, rows, strict=True) if row.sample is None]
    assert refused == [text for text in texts if text not in ("a dog", *CAPTIONS)]
    first = next(row for row in rows if row.sample is None)
    assert f"row {first.number}: candidate is a list or a dict as text, got " in problem(first)
    assert "write the caption alone" in problem(first)


@pytest.mark.parametrize("kind", TABLES)
def test_an_array_or_a_dict_as_text_is_no_reference(tmp_path, kind):
    texts = ["array(['a dog runs', 'the dog'], dtype=object)", "{'sentences': ['a dog']}", '{"raw": "a dog"}']
    path = in_table(tmp_path, kind, candidate=["a dog"] * 5, refs=[*texts, "[a dog]", '["a dog", "b"]'])
    *bad, caption, listed = iter_rows(path, note=str)
    assert ["refs must be a JSON list such as" in problem(row) for row in bad] == [True, True, False]
    assert "refs must be a list of captions, got dict" in problem(bad[2])
    assert (caption.sample.references, listed.sample.references) == (("[a dog]",), ("a dog", "b"))


def test_a_list_of_references_holds_no_list_as_text(tmp_path):
    (row,) = iter_rows(jsonl(tmp_path, {"candidate": "a", "references": ["a dog", "['the dog', 'a dog']"]}))
    assert "reference 2 is a list or a dict as text" in problem(row)


def test_what_looks_like_a_list_for_long_is_told_at_once():
    from suisei.data.caption_cells import is_literal, refuse_number

    for part in ("[", "1", "1 ", "1.", "None,", "...", "(a=bc", "'a', ", '"', "\\'", "1e", "a.a", " "):
        for start in ("['a'", "[", "(", "array(", "[1, "):
            assert not is_literal(start + part * 100_000 + "!]")
    refuse_number("gt", "references", "1" * 100_000 + "!")


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("column", ["refs", "gts", "targets", "captions", "Ground Truths"])
def test_several_captions_as_one_text_are_no_reference(tmp_path, kind, column):
    texts = ["cat|a cat", "cat ||| a cat", "cat\na cat", "cat; a cat", "犬｜猫", "a cat"]
    path = in_table(tmp_path, kind, **{"candidate": ["a"] * 6, column: texts})
    *bad, first, second, third = iter_rows(path, note=str)
    assert all(f"{column} may hold several captions, got 'cat" in problem(row) for row in bad)
    assert "write a JSON list such as" in problem(bad[0])
    assert [row.sample.references for row in (first, second, third)] == [(text,) for text in texts[3:]]


@pytest.mark.parametrize("column", ["reference", "ref_1", "ref"])
def test_a_column_of_one_reference_may_hold_any_caption(tmp_path, column):
    path = in_table(tmp_path, "csv", **{"candidate": ["a"], column: ["A|B on\na sign"]})
    assert read_samples(path, note=str)[0].references == ("A|B on\na sign",)
    path = in_table(tmp_path, "csv", candidate=["a"], refs=["A|B"])
    assert read_samples(path, columns={"references": "refs"})[0].references == ("A|B",)


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_number_in_a_column_that_was_guessed_is_no_caption(tmp_path, kind):
    texts = ["0.5", "1", "-2e-05", ".5", "3 dogs", "1st", "1.2.3", "No. 5"]
    path = in_table(tmp_path, kind, caption=["a dog"] * 8, prediction=texts, reference_1=["a dog"] * 8)
    rows = list(iter_rows(path, note=str))
    assert [row.sample and row.sample.candidate for row in rows] == [None] * 4 + texts[4:]
    assert "row 1: prediction is the number '0.5', and no caption" in problem(rows[0])
    assert "--column candidate=NAME (or prediction, if" in problem(rows[0])
    path = in_table(tmp_path, kind, caption=["a dog"] * 2, gt=["1", "a cat"])
    (bad, good) = iter_rows(path, note=str)
    assert "gt is the number '1', and no caption; say which column holds them: --column refe" in problem(bad)
    assert good.sample.references == ("a cat",)
    said = read_samples(path, columns={"references": "gt"}, note=str)
    assert [sample.references for sample in said] == [("1",), ("a cat",)]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("column", ["candidate", "caption", "text", "generated_caption", "mt"])
def test_a_number_where_captions_are_said_to_be_is_one(tmp_path, kind, column):
    path = in_table(tmp_path, kind, **{column: ["2015"], "reference_1": ["7"]})
    (sample,) = read_samples(path, note=str)
    assert (sample.candidate, sample.references) == ("2015", ("7",))


@pytest.mark.parametrize("kind", TABLES)
def test_a_blank_reference_is_none_and_a_bad_one_is_called_by_its_column(tmp_path, kind):
    bad = ["\u200b", "b" * 10_001, " "]
    path = in_table(tmp_path, kind, mt=["a"] * 3, reference_1=["", " ", ""], ref=["c"] * 3, reference_3=bad)
    invisible, long, good = iter_rows(path, note=str)
    assert "row 1: reference_3 is empty; every caption needs" in problem(invisible)
    assert "row 2: reference_3 has 10,001 characters" in problem(long)
    assert good.sample.references == ("c",)
    path = in_table(tmp_path, kind, mt=["\u200b"], ref=["c"])
    (row,) = iter_rows(path, note=str)
    assert "row 1: mt is empty" in problem(row)


def test_a_bad_caption_in_a_list_is_called_by_its_place_there(tmp_path):
    (row,) = iter_rows(jsonl(tmp_path, {"mt": "a", "src": "b", "refs": ["c", ""]}), note=str)
    assert "row 1: reference 2 of refs is empty" in problem(row)
