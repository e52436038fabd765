"""The ridge on character n-grams: widened training data, out-of-fold scores, what it keeps."""

from dataclasses import replace

import numpy as np
import pytest

from suisei.data.sample import CaptionSample, Rating
from suisei.data.splits import group_of
from suisei.errors import ConfigError, DataError, ModelError
from suisei.metrics.ridge import Ridge, widen

WORDS = ["dog", "cat", "boat", "tree", "house", "child", "horse", "road", "river", "table"]
JAPANESE = ["犬", "猫", "船", "木", "家", "子供", "馬", "道", "川", "机"]


def samples(words=WORDS, language="en", level=0.0):
    rows = []
    for number, word in enumerate(words):
        pool = [f"a {word} in the sun", f"the {word} outside", f"one {word} at noon"]
        for place in range(4):
            other = words[(number + place) % len(words)]
            rating = level + (0.4 if other == word else 0.1)
            rows.append(
                CaptionSample(
                    f"a {other} stands", tuple(pool[place % 2 :][:2]), rating=rating,
                    group=f"{language}{number}", language=language,
                )
            )  # fmt: skip
    return rows


def test_widened_samples_follow_from_the_rated_ones():
    rated = samples() + samples(JAPANESE, "ja")
    made = widen(rated, negatives=2, resampled=1)
    assert made[: len(rated)] == rated
    known = {(s.candidate, group_of(s)): s.rating for s in rated}
    pools = {}
    for sample in rated:
        pools.setdefault(group_of(sample), set()).update(sample.references)
    negatives = [s for s in made[len(rated) :] if not set(s.references) <= pools[group_of(s)]]
    others = [s for s in made[len(rated) :] if set(s.references) <= pools[group_of(s)]]
    assert len(negatives) > len(rated)
    assert others
    for sample in others:
        assert sample.rating == known[sample.candidate, group_of(sample)]
    low = np.quantile([s.rating.mean for s in rated], 0.2)
    for sample in negatives:
        assert sample.rating.mean == pytest.approx(low)
        [home] = [group for group, pool in pools.items() if set(sample.references) <= pool]
        assert home[:2] == sample.language  # references of the same language, or they would be told at once
    assert widen(rated, 2, 1) == made
    assert widen(rated, 0, 0) == rated
    whole = [replace(s, references=tuple(sorted(pools[group_of(s)]))) for s in rated]
    assert widen(whole, 0, 1) == whole  # there are no others to draw


def test_what_is_made_of_an_image_stays_with_it_however_its_name_is_written():
    rated = [replace(sample, group=None, image=f"カ\u3099/{sample.group} ") for sample in samples()]
    assert {group_of(sample) for sample in widen(rated, 2, 1)} == {group_of(sample) for sample in rated}


def test_an_image_with_captions_in_both_languages_is_widened_in_each():
    both = [replace(sample, group=sample.group[2:]) for sample in samples() + samples(JAPANESE, "ja")]
    spoken = {text: sample.language for sample in both for text in sample.references}
    made = widen(both, negatives=2, resampled=2)
    assert len(made) > 2 * len(both)
    assert all({spoken[text] for text in sample.references} == {sample.language} for sample in made)


def test_it_learns_what_is_shared_and_keeps_it(tmp_path):
    rated = samples()
    ridge = Ridge(alpha=0.5, least=1)
    with pytest.raises(ConfigError, match="call fit"):
        ridge.score(rated)
    ridge.fit(rated)
    scores = ridge.score(rated)
    good = np.array([s.rating.mean > 0.3 for s in rated])
    assert scores[good].mean() > scores[~good].mean() + 0.05
    copy = Ridge()
    copy.load_state(ridge.state())
    np.testing.assert_allclose(copy.score(rated), scores, atol=1e-4)
    with pytest.raises(DataError, match=r"leave ridge out of model\.fusion\.extra_inputs"):
        Ridge().fit([CaptionSample("a")])


@pytest.mark.parametrize("space", ["\u3000", "\u00a0", "\t", "\n", "  "])
def test_white_space_is_a_space_whichever_it_is(space):
    spaced = [CaptionSample("a red dog", references=("a dog", "the red dog"), rating=r) for r in (0.2, 0.8)]
    other = [
        CaptionSample(f"a{space}red{space}dog", references=(f"a{space}dog", "the red dog"), rating=s.rating)
        for s in spaced
    ]
    plain, odd = Ridge(alpha=0.5, least=1), Ridge(alpha=0.5, least=1)
    plain.fit([*samples(), *spaced])
    odd.fit([*samples(), *other])
    np.testing.assert_array_equal(plain.score(spaced), plain.score(other))
    np.testing.assert_array_equal(plain.score(spaced), odd.score(spaced))


def test_samples_beyond_the_first_chunk_get_their_own_scores(monkeypatch):
    ridge = Ridge(alpha=0.5, least=1)
    ridge.fit(samples())
    whole = ridge.score(samples())
    assert len(set(whole.tolist())) > 20
    monkeypatch.setattr("suisei.metrics.ridge.CHUNK", 3)
    np.testing.assert_allclose(ridge.score(samples()), whole, atol=1e-12)


def test_a_held_out_group_is_scored_without_its_captions_being_learned():
    rated = samples()
    ridge = Ridge(alpha=0.5, least=1, negatives=0, resampled=2)
    ridge.fit(rated)
    first = ridge.out_of_fold(rated)
    inside = ridge.score(rated)
    assert np.isfinite(first).all()
    truth = np.array([s.rating.mean for s in rated])
    assert np.corrcoef(first, truth)[0, 1] < np.corrcoef(inside, truth)[0, 1]
    # exchange two ratings of one group: its mean stays, and so must its scores
    own = [row for row, s in enumerate(rated) if group_of(s) == "en3"]
    swapped = list(rated)
    swapped[own[0]] = replace(rated[own[0]], rating=rated[own[1]].rating)
    swapped[own[1]] = replace(rated[own[1]], rating=rated[own[0]].rating)
    again = Ridge(alpha=0.5, least=1, negatives=0, resampled=2)
    again.fit(swapped)
    np.testing.assert_allclose(again.out_of_fold(swapped)[own], first[own], atol=1e-9)
    assert not np.allclose(again.score(rated)[own], inside[own], atol=1e-4)


@pytest.mark.parametrize(("groups", "enough"), [(2, False), (4, False), (5, True)])
def test_too_few_groups_give_no_out_of_fold_score(groups, enough):
    few = [s for s in samples() if group_of(s) in [f"en{n}" for n in range(groups)]]
    ridge = Ridge(least=1)
    ridge.fit(few)
    assert (np.isfinite(ridge.out_of_fold(few)) == enough).all()


def test_samples_without_a_rating_or_references_teach_nothing_and_move_no_score():
    rated = samples()
    unrated, bare = replace(rated[0], rating=None), replace(rated[0], references=())
    mixed = [unrated, *rated[:7], bare, *rated[7:], unrated]
    plain, ridge = Ridge(alpha=0.5, least=1), Ridge(alpha=0.5, least=1)
    plain.support, ridge.support = samples(level=0.2), [bare, *samples(level=0.2), unrated]
    plain.fit(rated)
    ridge.fit(mixed)
    np.testing.assert_allclose(ridge.score(rated), plain.score(rated), atol=1e-9)
    found = ridge.out_of_fold(mixed)
    assert np.flatnonzero(np.isnan(found)).tolist() == [0, 8, len(mixed) - 1]
    np.testing.assert_allclose(found[~np.isnan(found)], plain.out_of_fold(rated), atol=1e-9)


def test_support_teaches_it():
    rated = [replace(s, rating=Rating((0.5,))) for s in samples()]  # says nothing
    plain = Ridge(alpha=0.5, least=1, negatives=0, resampled=0)
    plain.fit(rated)
    assert np.ptp(plain.score(rated)) < 1e-6
    helped = Ridge(alpha=0.5, least=1, negatives=0, resampled=0)
    helped.support = samples()
    helped.fit(rated)
    good = np.array([s.rating.mean > 0.3 for s in samples()])
    for scores in (helped.score(rated), helped.out_of_fold(rated)):
        assert scores[good].mean() > scores[~good].mean() + 0.05


def test_a_language_with_better_captions_is_not_better_for_its_letters():
    rated = samples() + samples(JAPANESE, "ja", level=0.5)
    ridge = Ridge(alpha=0.5, least=1, negatives=0, resampled=0)
    ridge.fit(rated)
    scores = ridge.score(rated)
    japanese = np.array([s.language == "ja" for s in rated])
    assert abs(scores[japanese].mean() - scores[~japanese].mean()) < 0.05


def test_every_reference_counts_whatever_is_scored_beside():
    ridge = Ridge(alpha=0.5, least=1)
    ridge.fit(samples())
    several = CaptionSample("a dog stands", ("the boat outside", "a dog in the sun", "one dog at noon"))
    one = CaptionSample("a cat stands", ("the cat outside",))
    together = ridge.score([several, one])
    assert together == pytest.approx(np.concatenate([ridge.score([several]), ridge.score([one])]))
    assert together[0] != pytest.approx(ridge.score([replace(several, references=several.references[:1])])[0])


@pytest.mark.parametrize("part", ["idf", "weights", "intercept"])
def test_a_saved_state_with_a_number_that_is_none_is_refused(part):
    ridge = Ridge(least=1)
    ridge.fit(samples())
    state = ridge.state()
    wrong = float("nan") if part == "intercept" else [*state[part][:-1], float("nan")]
    with pytest.raises(ModelError, match="numbers that are not finite"):
        Ridge().load_state({**state, part: wrong})


def test_free_negatives_are_rated_as_the_lowest_fifth_is():
    rated = [replace(s, rating=Rating((n / 39,))) for n, s in enumerate(samples())]
    made = widen(rated, negatives=1, resampled=0)[len(rated) :]
    assert made
    assert [s.rating.mean for s in made] == pytest.approx([0.2] * len(made))


def test_images_of_the_support_that_are_called_like_those_of_training_are_others():
    found = []
    for name in ("en", "other"):
        ridge = Ridge(alpha=0.5, least=1, negatives=0, resampled=0)
        ridge.support = [replace(s, group=s.group.replace("en", name)) for s in samples()]
        ridge.fit(samples(level=0.3))
        found.append((ridge.score(samples()), ridge.out_of_fold(samples(level=0.3))))
    np.testing.assert_array_equal(*found)
    assert abs(found[0][0].mean() - np.mean([s.rating.mean for s in samples(level=0.3)])) < 0.02


def test_means_of_languages_are_those_of_what_people_rated():
    from suisei.metrics.ridge import _offsets

    rated = [CaptionSample("a", rating=0.8, language="en"), CaptionSample("犬", rating=0.4, language="ja")]
    made = [CaptionSample("a", rating=0.0, language="en")]
    assert _offsets([*rated, *made], 2) == pytest.approx([0.2, -0.2, 0.2])
