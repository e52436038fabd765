"""Plain text with a caption a line, and what is refused as something else."""

import json

import pytest

from suisei.data.coco import read_references, read_results
from suisei.data.formats import read_samples
from suisei.errors import DataError
from tests.unit.data.row_files import write

KEYED = {
    "files": "p0.jpg\ta dog runs\np1.jpg\ta cat\n\n",
    "captions of files": "p0.jpg#0\ta dog runs\np0.jpg#1\tthe dog\n",
    "numbers": "0\t犬が走る\n1\t猫\n",
    "commas": "p0.jpg,a dog, running\np1.png,a cat\n",
    "one line": "p0.jpg\ta dog\n\n",
    "one number": "0\ta dog\n",
    "bars": "0 ||| a dog runs\n1 ||| a cat\n",
    "single bars": "17|a dog runs\n18|a cat\n",
    "files and bars": "p0.jpg | a dog runs\np1.jpg | a cat\n",
    "files with blanks": "my dog 1.jpg\ta dog runs\nmy dog 2.jpg\ta cat\n",
    "keys with blanks": "my dog 1\ta dog runs\nmy dog 2\ta cat\n",
    "names with blanks": "犬　一\t犬が走る\nmy cat\ta cat\n",
    "one line of a file with blanks": "my dog.JPG\ta dog runs\n",
    "files with blanks and commas": "my dog 1.jpg,a dog runs\nmy dog 2.jpg,a cat\n",
}
OTHER = {
    "image,caption\np0.jpg,a dog\n": "is a table",
    "id;candidate\n0;a dog\n": "is a table",
    "image\tcaption\np0.jpg\ta dog\n": "is a table",
    "id, caption\n0, a dog\n": "is a table",
    "id | caption\n0 | a dog\n": r"is a table, not a (caption|reference) a line; put commas",
    "| Image ID | caption |\n| 0 | a dog |\n": "is a table",
    "image,caption,split\np0.jpg,a dog,test\n": "is a table",
    "photo\tcaption\twidth\theight\np0\ta dog\t640\t480\n": "is a table",
    "a\tb\tcaption\n1\t2\ta dog\n": "is a table",
    "a\tb\ttext\n1\t2\ta dog\n": "is a table",
    "caption,split,source\na dog,test,web\n": "is a table",
    "img,caption,split,source,x\np0,a dog,test,web,1\n": "is a table",
    "foo,bar,baz,caption\n1,2,3,a dog\n": "is a table",
    "\ta\tb\ttext\n0\t1\t2\ta dog\n": "is a table",
    "a\tb\ttext\tnote\n1\t2\ta dog\t\n": "is a table",
    "path,caption \na.jpg,a dog runs\n": "is a table",
    " path,caption\r\na.jpg,a dog runs\r\n": "is a table",
    "caption\na dog\n": "its first line, 'caption', is a header",
    '{"caption": "a dog"}\n': "its lines are JSON objects",
}


def readers(tmp_path, text):
    """Return what reads plain text: as rows, as a system, as references streamed, and as several of them."""
    path, rows = write(tmp_path, "a.txt", text), write(tmp_path, "rows.jsonl", '{"candidate": "a"}\n' * 2)
    return {
        "rows": lambda: read_samples(path, note=str),
        "system": lambda: read_results(path),
        "streamed": lambda: read_samples(rows, references=[path], note=str),
        "several": lambda: read_references([path, path]),
    }


@pytest.mark.parametrize("reader", ["rows", "system", "streamed", "several"])
@pytest.mark.parametrize("form", KEYED)
def test_a_key_in_every_line_is_no_part_of_captions(tmp_path, form, reader):
    said = r"a\.txt: every line has a key before its (caption|reference)"
    if (form, reader) == (
        "captions of files",
        "streamed",
    ):  # references by image, which these rows do not name
        said = r"a\.txt, which has ids such as 'p0\.jpg'"
    with pytest.raises(DataError, match=said):
        readers(tmp_path, KEYED[form])[reader]()


def test_captions_that_look_keyed_are_read_as_the_message_says(tmp_path):
    texts = ["10|30 in the clock", "11|15 in the clock"]
    with pytest.raises(DataError, match=r'a part of it, give rows of JSON lines, \{"candidate": \.\.\.\}$'):
        read_samples(write(tmp_path, "a.txt", "".join(f"{text}\n" for text in texts)), note=str)
    rows = "".join(json.dumps({"candidate": text, "references": [text]}) + "\n" for text in texts)
    found = read_samples(write(tmp_path, "a.jsonl", rows), note=str)
    assert [sample.candidate for sample in found] == [*sum((s.references for s in found), ())] == texts
    with pytest.raises(DataError, match=r'give rows of JSON lines, \{"references": \[\.\.\.\]\}$'):
        read_references([write(tmp_path, "b.txt", "".join(f"{text}\n" for text in texts))] * 2)


@pytest.mark.parametrize("reader", ["rows", "system", "streamed", "several"])
@pytest.mark.parametrize("text", OTHER)
def test_tables_and_objects_are_no_captions(tmp_path, text, reader):
    with pytest.raises(DataError, match=r"a\.txt: .*" + OTHER[text]):
        readers(tmp_path, text)[reader]()


@pytest.mark.parametrize(
    "lines",
    [
        ["dog\truns", "a cat"],
        ["a cat", "a dog\truns fast"],
        ["a sign, caption", "a cat"],
        ["text", "a cat"],
        ["logo,reference", "a cat"],
        ["logo,text,sign", "a cat"],
        ["logo,text,sign", "red,dog,run"],
        ["model,text,dress,shoes,woman", "dog,grass"],
        ["human,text,sign,street,car", "dog,grass"],
        ["mt,fuji,snow,sky", "dog,grass,sky,snow"],
        ["logo,prediction,chart,graph", "dog,grass"],
        ["logo,text,sign", "red car,street sign,blue sky"],
        ["logo\ttext\tsign", "a cat"],
        ["dog, text", "a cat"],
        ["logo|text|sign", "a cat"],
        ["犬、caption", "a cat"],
        ["p0.jpg\ta dog\ttwice", "x\ty\tz"],
        ["photo.jpg, a file", "a cat"],
        ["7 ||| a cat", "cat"],
    ],
)
def test_captions_that_look_a_little_like_a_table_are_captions(tmp_path, lines):
    for read in readers(tmp_path, "".join(f"{line}\n" for line in lines)).values():
        read()
    samples = read_samples(tmp_path / "a.txt", note=str)
    assert [sample.candidate for sample in samples] == lines


def test_a_line_of_names_with_the_one_said_to_be_the_captions_is_a_header(tmp_path):
    path = write(tmp_path, "a.txt", "foo,bar,baz\n1,2,dog\n")
    assert len(read_samples(path, note=str)) == 2
    with pytest.raises(DataError, match=r"a\.txt: it is a table, not a caption a line"):
        read_samples(path, columns={"candidate": "baz"}, note=str)


@pytest.mark.parametrize("end", ["\n", ""])
def test_one_line_with_a_tab_after_a_word_is_a_caption(tmp_path, end):
    path = write(tmp_path, "a.txt", f"a\tdog{end}")
    assert list(read_results(path).captions.values()) == [("a\tdog",)]
    assert len(read_references([path, path]).captions) == 1


@pytest.mark.parametrize("reader", ["streamed", "several"])
@pytest.mark.parametrize("header", ["id,reference", "reference_1;ref_2", "image\treferences", "id | ref"])
def test_tables_of_references_are_no_references(tmp_path, header, reader):
    with pytest.raises(DataError, match=r"a\.txt: it is a table, not a reference a line"):
        readers(tmp_path, f"{header}\n1,a dog\n")[reader]()


@pytest.mark.parametrize("reader", ["rows", "system", "streamed", "several"])
@pytest.mark.parametrize("text", ["a dog\ra cat\r", "a dog\r\na cat\ra bird\n"])
def test_lines_that_end_in_a_carriage_return_are_not_one_caption(tmp_path, text, reader):
    with pytest.raises(DataError, match=r"a\.txt[,:].* carriage return \(CR\) .*; save the file with LF"):
        readers(tmp_path, text)[reader]()


def test_numbered_captions_are_not_joined_by_a_carriage_return(tmp_path):
    path = write(tmp_path, "a.txt", "1.jpg#0\ta dog\r1.jpg#1\ttwo dogs\n2.jpg#0\ta cat\n")
    with pytest.raises(
        DataError, match=r"a\.txt, line 1: a carriage return \(CR\) .*; save the file with LF"
    ):
        read_references([path])
    path.write_bytes(b"1.jpg#0\ta dog\r\n1.jpg#1\ttwo dogs\r\n")
    (captions,) = read_references([path]).captions.values()
    assert list(captions) == ["a dog", "two dogs"]


def test_both_marks_end_a_line(tmp_path):
    samples = read_samples(write(tmp_path, "a.txt", b"a dog\r\na cat\r\r\na bird\r"), note=str)
    assert [sample.candidate for sample in samples] == ["a dog", "a cat", "a bird"]


@pytest.mark.parametrize("reader", ["rows", "system", "streamed", "several"])
@pytest.mark.parametrize("before", ["", "a dog\n"])
def test_text_in_iso_2022_jp_is_refused_though_its_bytes_are_ascii(tmp_path, before, reader):
    text = (before + "犬が走る\n猫が寝る\n").encode("iso2022_jp")
    with pytest.raises(DataError, match=rf"a\.txt: line {1 + len(before) // 6} is in ISO-2022-JP \(JIS\)"):
        readers(tmp_path, text)[reader]()


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_tables_and_json_in_iso_2022_jp_are_refused_as_a_whole(tmp_path, name):
    rows = {"a.csv": "candidate\n犬\n", "a.jsonl": '{"candidate": "犬"}\n', "a.json": '[{"candidate": "犬"}]'}
    path = write(tmp_path, name, rows[name].encode("iso2022_jp"))
    with pytest.raises(DataError, match="is in ISO-2022-JP"):
        read_samples(path, on_error="skip", note=str)


def test_another_escape_sequence_is_part_of_its_caption(tmp_path):
    (sample,) = read_samples(write(tmp_path, "a.txt", "\x1b[1ma dog\x1b(B\n"), note=str)
    assert sample.candidate == "[1ma dog(B"  # what is seen of it
