"""FLEUR's own text, joined by image and caption."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.scoring.scorefile import join_columns, read_scores

TEXT = """flickr8k dataset

image file : Flickr8k_Dataset/1.jpg
caption : a dog : runs .
model score : 0.85
our score : 0.78

image file : Flickr8k_Dataset/2.jpg
label : 1

caption : a cat
model score : 0.5
our score : 0.4375

caption : a cow
model score : 0.0
our score : 0.0625

true count : 1
"""
SAMPLES = [
    CaptionSample("a  cow", group="2.jpg", id="x"),
    CaptionSample("a dog : runs .", group="1.jpg", id="y"),
    CaptionSample("a dog : runs .", group="2.jpg", id="z"),
    CaptionSample("a cat", group="VOC2012/JPEGImages/2.jpg", id="w"),
]


def test_scores_find_their_captions(tmp_path):
    path = tmp_path / "fleur.txt"
    path.write_text(TEXT)
    found, how = read_scores(path, SAMPLES)
    np.testing.assert_array_equal(found["FLEUR"], [0.0625, 0.78, np.nan, 0.4375])
    np.testing.assert_array_equal(found["FLEUR (raw)"], [0.0, 0.85, np.nan, 0.5])
    assert how == "fleur.txt: joined by image and caption, 3 of 4 samples found"
    columns, _ = join_columns([path], SAMPLES, [(4, range(4))], [])
    assert [column.label for column in columns] == ["FLEUR", "FLEUR (raw)"]
    assert columns[0].missing == {"no score in fleur.txt": 1}


def test_captions_found_have_a_mark_of_thousands(tmp_path):
    path, captions = tmp_path / "fleur.txt", [f"dog {number}" for number in range(1200)]
    found = "\n".join(f"caption : {text}\nour score : 0.5\n" for text in captions[:1100])
    path.write_text(f"image file : 1.jpg\n{found}")
    _, how = read_scores(path, [CaptionSample(text, group="1.jpg") for text in captions])
    assert how == "fleur.txt: joined by image and caption, 1,100 of 1,200 samples found"


def test_files_put_one_behind_the_other_lose_no_caption(tmp_path):
    """The authors' files end in a count without a line's end."""
    path = tmp_path / "fleur.txt"
    block = "image file : 3.jpg\ncaption : a tie count : 1image file : x\nour score : 0.9\n"
    path.write_text(TEXT.rstrip() + "9image file : 1.jpg\ncaption : a cat\nour score : 0.25\n" + block)
    samples = [*SAMPLES, CaptionSample("a cat", group="1.jpg")]
    samples.append(CaptionSample("a tie count : 1image file : x", group="3.jpg"))
    np.testing.assert_array_equal(
        read_scores(path, samples)[0]["FLEUR"], [0.0625, 0.78, np.nan, 0.4375, 0.25, 0.9]
    )


def test_the_same_caption_may_come_twice_with_one_score(tmp_path):
    path = tmp_path / "fleur.txt"
    path.write_text(TEXT + TEXT)
    assert read_scores(path, SAMPLES)[0]["FLEUR"][1] == 0.78
    path.write_text(TEXT + TEXT.replace("0.78", "0.79"))
    with pytest.raises(DataError, match=r"'a dog : runs .' of 1.jpg has two scores"):
        read_scores(path, SAMPLES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here", "no 'image file :'"),
        ("our score : 0.5\n", "line 1: a score before"),
        ("image file : 1.jpg\nour score : 0.5\n", "line 2: a score before"),
        ("image file : 9.jpg\ncaption : x\nour score : 0.5\n", "none of its 1 caption is"),
        ("image file : 1.jpg\ncaption : a dog : runs .\nour score : high\n", "'high' is not a finite number"),
    ],
)
def test_other_text_is_refused(tmp_path, text, message):
    path = tmp_path / "fleur.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_scores(path, SAMPLES)
    with pytest.raises(DataError, match="cannot be read"):
        read_scores(tmp_path / "absent.txt", SAMPLES)
