"""The video scores against plain loops written from the equations."""

import json
import math
import warnings

import numpy as np
import pytest
import torch

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample, iter_frames
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.dual_tokens import encode_tokens, tokenize
from suisei.encoders.memory import FeatureMemory
from suisei.errors import ConfigError, DataError, ModelError, UnavailableError
from suisei.metrics.matching import Caption, Scores, best_reference, match_texts, match_video
from suisei.metrics.registry import get_metric
from suisei.metrics.video_pacs import VideoScore

pytest.importorskip("av", reason="needs the extra video")
CORPUS = ["a man cooks eggs", "a dog runs", "a dog sleeps on a mat!", "the eggs are green"]
CANDIDATES = ["a man is frying a pan of eggs", "a green dog runs!", "two"]
REFERENCES = [("eggs are cooked in a pan", "a man cooks"), ("a dog is running", "the dog", "a cat"), ("x",)]


@pytest.fixture(scope="module")
def encoder(tiny_clip):
    return load_dual_encoder(str(tiny_clip), seed=3, device="cpu")


@pytest.fixture(scope="module")
def video(tmp_path_factory, write_video, coloured_blocks):
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return write_video(path, (coloured_blocks(generator, 2, 3) for _ in range(15)))


@pytest.fixture(scope="module")
def samples(video):
    pairs = zip(CANDIDATES, REFERENCES, strict=True)
    return [VideoSample(text, refs, video=video, id=text) for text, refs in pairs]


def score(encoder, **options):
    metric = VideoScore(encoder=encoder, **options)
    if metric.needs_fit:
        metric.fit_captions(CORPUS, corpus="test")
    return metric


def unit(vector):
    return vector / np.linalg.norm(vector)


def plain_idf(corpus):
    """From the definition, over the 77 padded ids of open_clip's tokenizer."""
    import open_clip

    rows = [set(open_clip.tokenize(text)[0].tolist()) for text in corpus]
    ids = set().union(*rows)
    idf = {i: math.log((len(corpus) + 1) / (sum(i in row for row in rows) + 1)) for i in ids}
    idf[max(ids)] = sum(idf.values()) / len(idf)
    return idf, math.log(len(corpus) + 1)


def plain_caption(encoder, text):
    import open_clip

    model = encoder.model
    ids = open_clip.tokenize(text)
    with torch.inference_mode():
        states = model.token_embedding(ids) + model.positional_embedding
        states = model.ln_final(model.transformer(states, attn_mask=model.attn_mask)) @ model.text_projection
    end = int(ids[0].argmax())
    rows = states[0, : end + 1].numpy().astype(np.float64)
    return [unit(row) for row in rows], unit(rows[end]), ids[0, : end + 1].tolist()


def plain_video(encoder, video, frames):
    with torch.inference_mode():
        rows = [encoder.model.encode_image(encoder.transform(picture)[None])[0].numpy() for picture in
                iter_frames(video, count=frames)]  # fmt: skip
    rows = [unit(row.astype(np.float64)) for row in rows]
    return rows, unit(sum(rows) / len(rows))


def plain_match(tokens, whole, weights, others, other_whole, other_weights):
    best = [max(float(token @ other) for other in others) for token in tokens]
    precision = sum(w * b for w, b in zip(weights, best, strict=True)) / sum(weights)
    best = [max(float(token @ other) for token in tokens) for other in others]
    recall = sum(w * b for w, b in zip(other_weights, best, strict=True)) / sum(other_weights)
    fine = 2 * precision * recall / (precision + recall)
    return precision, recall, fine, float(whole @ other_whole)


def plain_scores(encoder, video, frames, idf, candidate, references, aggregate):
    table, unseen = idf or ({}, 1.0)

    def weights(ids):
        return [table.get(i, unseen) for i in ids]

    tokens, whole, ids = plain_caption(encoder, candidate)
    rows, mean = plain_video(encoder, video, frames)
    found = plain_match(tokens, whole, weights(ids), rows, mean, [1.0] * len(rows))
    if not references:
        return (found[2] + found[3]) / 2
    matches = []
    for reference in references:
        others, other_whole, other_ids = plain_caption(encoder, reference)
        matches.append(plain_match(tokens, whole, weights(ids), others, other_whole, weights(other_ids)))
    if aggregate == "combined":
        best = max((match[2] + match[3]) / 2 for match in matches)
    else:
        best = (max(match[2] for match in matches) + max(match[3] for match in matches)) / 2
    return ((found[2] + found[3]) / 2 + best) / 2


@pytest.mark.parametrize("references", [False, True])
@pytest.mark.parametrize("aggregate", ["combined", "separate"])
@pytest.mark.parametrize("idf", ["fit", "none"])
@pytest.mark.parametrize("frames", [4, None])
def test_equals_a_plain_loop(encoder, video, samples, references, aggregate, idf, frames):
    metric = score(encoder, references=references, aggregate=aggregate, idf=idf, frames=frames)
    table = plain_idf(CORPUS) if idf == "fit" else None
    expected = [
        plain_scores(encoder, video, frames, table, sample.candidate,
                     sample.references if references else (), aggregate)
        for sample in samples
    ]  # fmt: skip
    np.testing.assert_allclose(metric.score(samples), expected, atol=1e-6)


def test_the_two_ways_to_aggregate_differ():
    fine, coarse = Scores(0.9, 0.9, 0.9, 0.1), Scores(0.2, 0.2, 0.2, 0.7)
    assert best_reference([coarse, fine], separate=False) == fine
    assert best_reference([coarse, fine], separate=True) == Scores(0.9, 0.9, 0.9, 0.7)
    assert best_reference([coarse, fine], separate=True).full == pytest.approx(0.8)


def test_parts_fit_together(encoder, samples):
    parts = score(encoder).parts(samples)
    p, r = parts["precision"], parts["recall"]
    np.testing.assert_allclose(parts["fine"], 2 * p * r / (p + r))
    np.testing.assert_allclose(parts["full"], (parts["fine"] + parts["coarse"]) / 2)
    np.testing.assert_array_equal(score(encoder, part="coarse").score(samples), parts["coarse"])
    assert all((np.abs(values) <= 1 + 1e-9).all() for values in parts.values())


def test_order_batch_and_neighbours_do_not_matter(encoder, samples):
    metric = score(encoder, references=True)
    whole = metric.score(samples, batch_size=64)
    np.testing.assert_allclose(metric.score(samples[::-1], batch_size=1)[::-1], whole, atol=1e-7)
    np.testing.assert_allclose(np.concatenate([metric.score([s]) for s in samples]), whole, atol=1e-7)


def test_negative_cosines_are_not_raised_to_zero_by_padding():
    token = np.array([[1.0, 0.0]])
    caption = Caption(token, token[0], np.ones(1))
    found = match_video(caption, np.array([[-1.0, 0.0], [-0.6, 0.8]]))
    assert found.precision == pytest.approx(-0.6)
    assert found.recall == pytest.approx(-0.8)
    assert match_texts(caption, Caption(-token, -token[0], np.ones(1))).fine == pytest.approx(-1.0)


def test_precision_is_over_the_candidates_tokens_and_recall_over_the_references():
    tokens = np.eye(2)
    two, one = Caption(tokens, tokens[0], np.array([1.0, 3.0])), Caption(tokens[:1], tokens[0], np.ones(1))
    assert match_texts(two, one) == Scores(0.25, 1.0, 0.4, 1.0)
    assert match_texts(one, two) == Scores(1.0, 0.25, 0.4, 1.0)


def test_weights_that_are_all_zero_count_alike():
    tokens = np.eye(2)
    caption = Caption(tokens, tokens[0], np.zeros(2))
    assert match_video(caption, np.array([[1.0, 0.0]])).precision == pytest.approx(0.5)


def test_segments_change_the_score(encoder, video):
    metric = score(encoder)
    whole, start, end = metric.score(
        [VideoSample("a dog", video=video, segment=part) for part in (None, (0, 1), (2, 3))]
    )
    assert len({whole, start, end}) == 3


def test_idf_is_saved_and_named(encoder, samples, tmp_path):
    metric = score(encoder)
    metric.save_idf(tmp_path / "idf.json")
    again = VideoScore(encoder=encoder, idf=tmp_path / "idf.json")
    np.testing.assert_array_equal(again.score(samples), metric.score(samples))
    assert "idf:test-4" in again.signature
    third = VideoScore(encoder=encoder)
    third.load_state(json.loads(json.dumps(metric.state())))
    np.testing.assert_array_equal(third.score(samples), metric.score(samples))
    expected, _ = plain_idf(CORPUS)
    ids = np.array(sorted(expected))
    np.testing.assert_allclose(metric._idf.weights(ids), [expected[i] for i in ids])


@pytest.mark.parametrize(
    "content", ["", "[]", '{"documents": 1}', '{"documents": 0, "frequencies": {}, "end": 1, "corpus": "x"}']
)
def test_other_files_are_no_idf(encoder, tmp_path, content):
    (tmp_path / "idf.json").write_text(content)
    with pytest.raises(ModelError, match=r"idf\.json"):
        VideoScore(encoder=encoder, idf=tmp_path / "idf.json")


def test_idf_of_another_tokenizer_is_refused(encoder, samples):
    metric = score(encoder)
    metric.load_state({"idf": {**metric.state()["idf"], "end": 2}})
    with pytest.raises(ConfigError, match="another tokenizer"):
        metric.score(samples)


def test_unfitted_it_refuses_to_score(encoder, samples):
    metric = VideoScore(encoder=encoder)
    assert metric.needs_fit
    with pytest.raises(ConfigError, match="no idf weights"):
        metric.score(samples)
    with pytest.raises(DataError, match="no sample has references"):
        metric.fit([CaptionSample("a dog")])
    metric.fit(samples)
    assert "idf:references-6" in metric.signature


def test_missing_videos_and_references_are_named(encoder, video, samples):
    metric = score(encoder, references=True)
    given = [samples[0], CaptionSample("a", ("b",)), VideoSample("a", video=video), VideoSample("a")]
    assert metric.missing(given) == {1: "no video", 2: "no references", 3: "no references and no video"}
    assert np.isnan(metric.score(given)).tolist() == [False, True, True, True]


def test_overlong_captions_are_cut_with_a_warning_or_refused(encoder, video):
    fits, over = "word " * 75, "word " * 76
    rows = tokenize(encoder, [fits, over, "short"])
    assert rows.cut.tolist() == [False, True, False]
    sample = [VideoSample(over, video=video), VideoSample(fits, video=video)]
    with pytest.warns(UserWarning, match="1 caption with more tokens"):
        first, second = score(encoder).score(sample)
    assert first == pytest.approx(second)
    refusing = score(encoder, overlong="refuse")
    with pytest.raises(DataError, match="overlong=cut"):
        refusing.score(sample)
    assert "overlong" not in score(encoder).signature
    assert "|overlong:refuse|" in refusing.signature  # kept scores are known by it


def test_references_may_be_overlong_where_they_are_not_read(encoder, video):
    sample = [VideoSample("a dog", ("word " * 76,), video=video)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = score(encoder).score(sample)
    assert score(encoder, overlong="refuse").score(sample) == alone
    with pytest.warns(UserWarning, match="1 caption with more tokens"):
        score(encoder, references=True).score(sample)
    with pytest.raises(DataError, match="overlong=cut"):
        score(encoder, references=True, overlong="refuse").score(sample)


def test_samples_that_are_refused_have_no_score_and_are_named_by_their_place(encoder, video, tmp_path):
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    given = [
        CaptionSample("a dog"),
        VideoSample("a dog", video=tmp_path / "broken.mp4"),
        VideoSample("a dog", video=video),
        VideoSample("word " * 76, video=video),
    ]
    scores, refused = score(encoder, overlong="refuse").score_each(given)
    assert np.isnan(scores).tolist() == [True, True, False, True]
    assert list(refused) == [1, 3]
    assert "broken.mp4" in str(refused[1])


def test_metrics_of_one_encoder_read_their_own_frames(encoder, tiny_clip, samples):
    shared = load_dual_encoder(str(tiny_clip), seed=3, device="cpu")
    shared.memory = FeatureMemory(shared.model, shared.tokenize, "fp32", None)
    for frames in (1, 4, None):
        expected = score(encoder, frames=frames).score(samples)
        np.testing.assert_allclose(score(shared, frames=frames).score(samples), expected, atol=1e-7)


def test_every_caption_of_a_large_corpus_is_a_document(encoder):
    corpus = [*["a dog runs"] * 1024, "zebra"]  # captions are tokenised by the thousand
    metric = VideoScore(encoder=encoder)
    metric.fit_captions(corpus, corpus="test")
    state = metric.state()["idf"]
    expected = IdfTable.fit([set(row) for row in tokenize(encoder, corpus).ids.tolist()])
    assert state["documents"] == expected.documents == 1025
    assert {int(token): count for token, count in state["frequencies"].items()} == expected.frequencies


def test_a_broken_video_is_named(encoder, tmp_path):
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"broken\.mp4"):
        score(encoder).score([VideoSample("a dog", video=tmp_path / "broken.mp4")])


def test_the_pooled_feature_is_the_encoders(encoder):
    found = encode_tokens(encoder, CANDIDATES, batch_size=2)
    np.testing.assert_allclose(
        np.stack([own.pooled for own in found]), encoder.encode_texts(CANDIDATES), atol=1e-5
    )
    assert [len(own.ids) for own in found] == [len(own.tokens) for own in found]
    assert encode_tokens(encoder, []) == []


def test_bad_options_are_refused(encoder):
    for options in ({"variant": "x"}, {"part": "f"}, {"aggregate": "mean"}, {"overlong": "x"}, {"frames": 0}):
        with pytest.raises(ConfigError):
            VideoScore(encoder=encoder, **options)
    with pytest.raises(ConfigError, match="null for all, got 'none'"):
        VideoScore(encoder=encoder, frames="none")
    with pytest.raises(ConfigError, match="takes no checkpoint"):
        VideoScore("weights.pth", variant="em-score")
    with pytest.raises(UnavailableError, match="needs its trained weights"):
        VideoScore()


def test_names_in_the_registry(encoder):
    assert get_metric("em-score", encoder=encoder).name == "em-score"
    assert get_metric("ref-video-pac-s++", encoder=encoder).name == "ref-video-pac-s++"
    assert get_metric("ref-em-score", encoder=encoder).needs == {"video", "references"}
