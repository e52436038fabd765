"""What ``score`` and ``fit`` are given in Python: right by position, or one line that says what is wrong."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

import suisei
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import LearnsFromCaptions
from suisei.metrics.ridge import Ridge

CANDIDATES = ["a dog runs in the park", "the cat", "犬が公園を走っている", "two men ride horses"]
REFERENCES = [["a dog is running"], ["a cat sits", "the cat"], ["犬が走る"], ["a boat"]]
NAMES = ("length", "unigram-f1", "cider", "suisei", "clip-s")


class Series:
    """What pandas' and Polars' columns have in common; iterating goes by label, as nothing here may."""

    dtype = object

    def __init__(self, values):
        self.values = list(values)

    def to_list(self):
        return list(self.values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        raise AssertionError("asked for a row by its label")


class Frame:
    """What pandas' and Polars' DataFrames have in common."""

    def __init__(self, columns):
        self._columns = columns
        self.columns = list(columns)
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __getitem__(self, name):
        return Series(self._columns[name])


@pytest.fixture(scope="module")
def pixels():
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, (40, 60, 3), dtype=np.uint8) for _ in CANDIDATES]


@pytest.fixture(scope="module")
def metrics(make_metric):
    made = {name: make_metric(name) for name in NAMES}
    made["cider"].fit([CaptionSample(*row) for row in zip(CANDIDATES, REFERENCES, strict=True)])
    return made


@pytest.fixture(params=NAMES)
def metric(request, metrics):
    return metrics[request.param]


@pytest.fixture
def expected(metric, pixels):
    scores = metric.score(CANDIDATES, REFERENCES, [Image.fromarray(image) for image in pixels])
    assert len(set(scores.round(6))) > 1
    return scores


def frames(kind):
    if kind == "stand-in":
        return Frame, Series
    library = pytest.importorskip(kind)
    return library.DataFrame, library.Series


def as_objects(values):
    return np.array(values, dtype=object)


@pytest.mark.parametrize("form", [list, tuple, iter, np.array, as_objects, Series])
def test_any_ordered_collection_of_captions(metric, expected, pixels, form):
    np.testing.assert_array_equal(metric.score(form(CANDIDATES), REFERENCES, pixels), expected)
    references = [form(own) for own in REFERENCES]
    np.testing.assert_array_equal(metric.score(CANDIDATES, references, pixels), expected)
    images = (image for image in pixels) if form is iter else tuple(pixels)
    np.testing.assert_array_equal(metric.score(CANDIDATES, iter(REFERENCES), images), expected)


def test_a_generator_of_samples(metric, expected, pixels):
    samples = (CaptionSample(*row) for row in zip(CANDIDATES, REFERENCES, pixels, strict=True))
    np.testing.assert_array_equal(metric.score(samples), expected)


def test_images_as_arrays_and_tensors(metric, expected, pixels):
    stacked = np.stack(pixels)
    tensors = torch.from_numpy(stacked).permute(0, 3, 1, 2)
    for images in (stacked, tensors, tensors.float() / 255, list(tensors)):
        np.testing.assert_array_equal(metric.score(CANDIDATES, REFERENCES, images), expected)


@pytest.mark.parametrize("kind", ["stand-in", "pandas", "polars"])
def test_columns_of_a_data_frame_are_taken_by_position(metric, expected, pixels, kind):
    _, series = frames(kind)
    images = [Image.fromarray(image) for image in pixels]
    given = series(CANDIDATES), series(REFERENCES)
    np.testing.assert_array_equal(metric.score(*given, images), expected)
    if kind == "pandas":
        order = [2, 0, 3, 1]
        import pandas

        frame = pandas.DataFrame({"c": CANDIDATES, "r": REFERENCES, "i": images}).iloc[order]
        scores = metric.score(frame["c"], frame["r"], frame["i"])
        np.testing.assert_array_equal(scores, expected[order])


@pytest.mark.parametrize("kind", ["stand-in", "pandas", "polars"])
def test_a_data_frame_alone(metric, expected, pixels, kind, tmp_path):
    frame, _ = frames(kind)
    paths = [str(tmp_path / f"{number}.png") for number in range(4)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    columns = {"candidate": CANDIDATES, "references": REFERENCES, "image": paths, "rating": [0.5] * 4}
    np.testing.assert_allclose(metric.score(frame(columns)), expected, atol=1e-6)
    second = [own[1] if len(own) > 1 else None for own in REFERENCES]
    columns = {"image": paths, "reference_2": second, "reference_1": [own[0] for own in REFERENCES]}
    scores = metric.score(frame({**columns, "candidate": CANDIDATES}))
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["stand-in", "pandas", "polars"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"captoin": ["a", "b"]}, "no column 'candidate'"),
        ({"references": [["a"], ["b"]]}, "no column 'candidate'"),
        ({"candidate": ["a", None]}, "sample 1: candidate is empty"),
        ({"candidate": ["a", "\u200b"]}, "sample 1: candidate is empty"),
        ({"candidate": ["a", "b"], "references": ["c", "d"]}, "sample 0: references must be a list"),
        ({"candidate": ["a", "b"], "rating": [0.5, 2.0]}, "sample 1: rating 2 is outside"),
        ({"candidate": ["a", "b"], "rating": ["1", "1"]}, "sample 0: rating must be a number, got str"),
        (
            {"candidate": ["a", "b"], "rating_scale": [[1, 5], [5, 1]], "rating": [1, 1]},
            "sample 1: rating_scale",
        ),
        (
            {"candidate": ["a", "b"], "image": ["absent.png", None]},
            "sample 0: image 'absent.png' is not there",
        ),
        ({"candidate": ["a", "b"], "language": ["en", "fr"]}, "sample 1: language is 'fr'"),
        ({"candidate": [1, 2]}, "sample 0: candidate must be text, got int"),
    ],
)
def test_a_data_frame_that_cannot_be_read_is_refused_by_row(metrics, kind, columns, message):
    frame, _ = frames(kind)
    with pytest.raises(DataError, match=message):
        metrics["length"].score(frame(columns))


@pytest.mark.parametrize("kind", ["stand-in", "pandas", "polars"])
def test_cells_without_a_value_are_fields_left_out(metrics, kind):
    frame, series = frames(kind)
    columns = {"candidate": ["a dog", "a cat"], "references": [None, ["a cat"]], "image": [None, None]}
    np.testing.assert_array_equal(metrics["unigram-f1"].score(frame(columns)), [np.nan, 1])
    scores = metrics["unigram-f1"].score(["a dog", "a cat"], series([None, ["a cat"]]))
    np.testing.assert_array_equal(scores, [np.nan, 1])
    with pytest.raises(DataError, match="sample 0: candidate must be text, got NoneType"):
        metrics["length"].score(series([None, "a"]))


def test_images_inside_a_data_frame(metrics, pixels):
    pandas = pytest.importorskip("pandas")
    metric = metrics["clip-s"]
    expected = metric.score(CANDIDATES, images=pixels)
    frame = pandas.DataFrame({"candidate": CANDIDATES, "image": pixels}, index=[3, 1, 0, 2])
    np.testing.assert_array_equal(metric.score(frame), expected)
    frame["image"] = [Image.fromarray(image) for image in pixels]
    np.testing.assert_array_equal(metric.score(frame), expected)
    frame["image"] = [pixels[0], 7, None, None]
    with pytest.raises(DataError, match="sample 1: image must be a path or an image, got int"):
        metric.score(frame)


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ({"candidate": ["a"], "rating": [5]}, r"or say the right scale in a column rating_scale$"),
        (
            {"caption": ["a"], "text": ["b"]},
            r"caption, text; leave out the others: frame\.drop\(columns=\[...\]\)$",
        ),
        ({"foo": ["a"]}, r"to be scored: frame\.rename\(columns=\{NAME: 'candidate'\}\)"),
        ({"candidate": ["a"], "image": ["http://x/a.png"]}, "images and give the paths of the files$"),
        ({"candidate": ["a"], "image": ["no.png"]}, r"give it in full, or do without: leave the column out$"),
        (
            {"candidate": ["a"], "references": [["b"]], "reference": ["c"]},
            r"keep one form, or leave one out: frame\.drop\(columns=\[...\]\)$",
        ),
    ],
)
def test_what_is_advised_of_a_data_frame_can_be_done_in_python(columns, advice):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match=advice) as error:
        suisei.get_metric("length").score(pandas.DataFrame(columns))
    assert "--" not in str(error.value)


def test_data_frames_with_odd_column_names():
    pandas = pytest.importorskip("pandas")
    metric = suisei.get_metric("length")
    with pytest.raises(DataError, match="columns must be named by text, got 0"):
        metric.score(pandas.DataFrame([["a"]]))
    with pytest.raises(DataError, match="occurs twice"):
        metric.score(pandas.DataFrame([["a", "b"]], columns=["candidate", "candidate"]))
    assert metric.score(pandas.DataFrame({"candidate": []})).shape == (0,)
    with pytest.raises(DataError, match="inside the samples already"):
        metric.score(pandas.DataFrame({"candidate": ["a"]}), [["b"]])


def test_a_table_that_is_no_data_frame_says_how_to_pass_it():
    table = pytest.importorskip("pyarrow").table({"candidate": ["a"]})
    with pytest.raises(DataError, match=r"is a whole Table; pass it as a DataFrame, \.to_pandas\(\)"):
        suisei.get_metric("length").score(table)


SURROGATE, LONG = "a \ud83d", "a" * 10_001


def shown(value):
    """A name for a test case, the same in every process."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))[:40]  # Pillow writes capitals


BAD_CANDIDATES = [
    *("a dog", b"a dog", None, 3, 0.5, {"a": 1}, {"a dog"}, object(), np.array("a"), True),
    *(
        [b"a"],
        [None],
        [3],
        [float("nan")],
        [["a"]],
        [SURROGATE],
        ["\u200b"],
        [""],
        [LONG],
        [{"candidate": "a"}],
    ),
    *(np.array([b"a"]), np.array([1.5]), np.array([["a"], ["b"]]), [np.datetime64("2026-01-01")]),
    *(["a", CaptionSample("b")], [CaptionSample("b"), None], Image.new("RGB", (4, 4)), torch.zeros(3)),
]
BAD_REFERENCES = [
    *("b", b"b", 3, {"b": 1}, {"b"}, ["b"], [b"b"], [3], [float("nan")], [{"b": 1}], [{"b"}], object()),
    *(
        [["b"], ["c"]],
        [],
        [[b"b"]],
        [[None]],
        [[3]],
        [[["b"]]],
        [[SURROGATE]],
        [["\u200b"]],
        [[float("nan")]],
    ),
    *(np.array(["b"]), np.array([1.0]), np.zeros((1, 1, 1)), Frame({"references": [["b"]]}), [lambda: 1]),
]
BAD_IMAGES = [
    *("a.png", b"a.png", 3, {"a.png": 1}, Image.new("RGB", (4, 4)), np.zeros((4, 4, 3), np.uint8), object()),
    *([], ["x", "y"], [3], [b"a.png"], [float("nan")], [[1]], [""], ["absent.png"], ["a\0b"], [SURROGATE]),
    *(
        [np.zeros((4, 4, 3))],
        [np.zeros((0, 4, 3), np.uint8)],
        [torch.full((3, 4, 4), torch.nan)],
        ["/dev/zero"],
    ),
    *(
        [Image.new("F", (4, 4))],
        [Image.new("RGB", (0, 4))],
        [Image.new("L", (1, 9000))],
        torch.zeros(3, 4, 4),
    ),
]


def reads_images(name):
    return name in ("suisei", "clip-s")


def test_the_cases_have_the_same_names_in_every_process():
    """The processes that share the tests compare them."""
    assert shown(Image.new("L", (1, 1))) == "<PIL.Image.Image image mode=L size=1x1>"
    assert shown(object()) == "<object object>"


@pytest.mark.parametrize("candidates", BAD_CANDIDATES, ids=shown)
def test_bad_candidates_are_refused(metric, candidates):
    with pytest.raises(DataError):
        metric.score(candidates, images=[Image.new("RGB", (4, 4))])


@pytest.mark.parametrize("references", BAD_REFERENCES, ids=shown)
def test_bad_references_are_refused(metric, references):
    with pytest.raises(DataError):
        metric.score(["a"], references, [Image.new("RGB", (4, 4))])


@pytest.mark.parametrize("images", BAD_IMAGES, ids=shown)
def test_bad_images_are_refused_or_not_looked_at(metric, images):
    try:
        scores = metric.score(["a"], [["b"]], images)
    except DataError:
        return
    assert not reads_images(metric.name)  # a path or a decoded image may be bad as long as nobody reads it
    assert scores.shape == (1,)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, "8", None, True, float("nan")])
def test_a_batch_size_that_is_no_number_of_samples_is_refused(metric, batch_size):
    with pytest.raises(ConfigError, match="batch_size must be a whole number"):
        metric.score(["a"], [["b"]], batch_size=batch_size)


def test_scoring_around_bad_samples_takes_a_generator(metrics, tmp_path):
    rows = [("a", Image.new("RGB", (4, 4))), ("b", tmp_path / "absent.png")]
    samples = (CaptionSample(text, image=image) for text, image in rows)
    scores, refused = metrics["clip-s"].score_each(samples)
    assert np.isfinite(scores[0])
    assert list(refused) == [1]


@pytest.fixture(params=["cider", "bertscore", "em-score", "ridge"])
def unfitted(request, tiny_bert, tiny_clip):
    """Makes a metric that learns from references."""
    if request.param == "ridge":
        return Ridge
    if request.param == "em-score":
        pytest.importorskip("av", reason="needs the extra video")
    local = {"device": "cpu", "precision": "fp32"}
    options = {
        "cider": {},
        "bertscore": {"model": tiny_bert, "idf": True, **local},
        "em-score": {"model": tiny_clip, "seed": 9, "cache": "off", **local},
    }
    return lambda: suisei.get_metric(request.param, **options[request.param])


def test_what_is_fitted_takes_what_score_takes(unfitted, tmp_path):
    columns = {"candidate": CANDIDATES, "references": REFERENCES, "rating": [0.1, 0.4, 0.3, 0.2]}
    samples = [CaptionSample(*row[:2], rating=row[2]) for row in zip(*columns.values(), strict=True)]
    states = []
    for given in (samples, (sample for sample in samples), Frame(columns)):
        metric = unfitted()
        metric.fit(given)
        if isinstance(metric, LearnsFromCaptions):  # and has no state
            metric.save_idf(tmp_path / "idf.json")
            states.append((tmp_path / "idf.json").read_text())
        else:
            states.append(metric.state())
    assert states[0]
    np.testing.assert_equal(states[1:], states[:1] * 2)


def test_captions_alone_are_nothing_to_learn_from(unfitted):
    for given in (CANDIDATES, []):
        with pytest.raises(DataError, match="references"):
            unfitted().fit(given)
    with pytest.raises(DataError, match="got a single string"):
        unfitted().fit("a dog")


@pytest.mark.parametrize("name", ["unigram-f1", "bleu-4"])
def test_corpus_scores_are_of_as_many_numbers_as_samples(name):
    metric = suisei.get_metric(name)
    columns = {"candidate": CANDIDATES, "references": REFERENCES}
    samples = [CaptionSample(*row) for row in zip(*columns.values(), strict=True)]
    scores = metric.score(samples)
    expected = metric.corpus_score(samples, scores)
    for given in (samples, (sample for sample in samples), Frame(columns)):
        assert metric.corpus_score(given, scores.tolist()) == expected
    for wrong, message in (
        (scores[:3], r"shape \(3,\) beside 4 samples"),
        (scores[0], r"shape \(\) beside 4"),
        (np.stack([scores, scores]), r"shape \(2, 4\) beside 4"),
        (["a", "b", "c", "d"], "no numbers beside 4"),
    ):
        with pytest.raises(DataError, match=message):
            metric.corpus_score(samples, wrong)


@pytest.mark.parametrize("name", ["score", "mos"])
def test_no_rating_is_guessed_of_a_frame(name):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"candidate": ["a dog"], "references": [["a dog"]], name: [55.0]})
    with pytest.warns(UserWarning, match=f"ignored: '{name}'"):
        assert suisei.get_metric("unigram-f1").score(frame).tolist() == [1.0]
