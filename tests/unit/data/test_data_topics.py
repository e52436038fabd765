"""Topics of images: what captions of like images have in common, whatever the order, in each language."""

import random

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from suisei.data.sample import CaptionSample
from suisei.data.splits import Split, fold_by_group, group_of
from suisei.data.topics import topics_of
from suisei.errors import DataError

ENGLISH = {
    "dogs": ("dog", "puppy", "grass", "barks", "leash"),
    "sport": ("player", "ball", "kicks", "goal", "team"),
    "food": ("plate", "rice", "soup", "bowl", "spoon"),
}
JAPANESE = {
    "犬": ("子犬", "草むら", "首輪", "散歩"),
    "野球": ("選手", "野球", "打者", "投手"),
    "料理": ("料理", "白皿", "食卓", "野菜"),
}
AROUND = {"en": "there is a {} and the {} with a {}", "ja": "そこに{}と{}と{}がある"}


def samples_of(topics, sizes, language="en"):
    """Return captions of images of some topics, with two references each of three of the topic's words."""
    dice, found = random.Random(7), []
    for (topic, words), size in zip(topics.items(), sizes, strict=True):
        for number in range(size):
            references = [AROUND[language].format(*dice.sample(words, 3)) for _ in range(2)]
            # what is rated may be another image's caption, and says nothing of this one's topic
            group = f"{language}/{topic}/{number}"
            found.append(CaptionSample("x", references, group=group, language=language))
    return found


def by_topic(found):
    """Return {topic's name: numbers its groups got}."""
    numbers = {}
    for group, number in found.items():
        numbers.setdefault(group.split("/")[1], set()).add(number)
    return numbers


@pytest.mark.parametrize(("topics", "language"), [(ENGLISH, "en"), (JAPANESE, "ja")])
@pytest.mark.parametrize("seed", range(3))
def test_images_whose_captions_speak_of_the_same_are_one_topic_from_the_largest(topics, language, seed):
    samples = samples_of(topics, (5, 14, 9), language)
    assert by_topic(topics_of(samples, 3, seed)) == dict(zip(topics, ({2}, {0}, {1}), strict=True))


def test_one_thread_sorts_so_that_every_fold_has_the_same_topics(monkeypatch):
    """Each fold sorts anew, and sums of several threads differ in their last bits."""
    from sklearn.cluster import KMeans

    seen = []
    original = KMeans.fit_predict

    def counted(self, *arguments):
        seen.append({library["num_threads"] for library in threadpool_info()})
        return original(self, *arguments)

    monkeypatch.setattr(KMeans, "fit_predict", counted)
    with threadpool_limits(2):
        topics_of(samples_of(ENGLISH, (5, 14, 9)), 3)
    assert seen == [{1}]


def test_neither_order_nor_candidates_matter():
    samples = samples_of(ENGLISH, (5, 14, 9))
    other = [CaptionSample("a dog", s.references, group=s.group) for s in samples]
    random.Random(3).shuffle(other)
    assert topics_of(other, 3) == topics_of(samples, 3)


def test_candidates_speak_for_images_without_references():
    samples = [CaptionSample(s.references[0], group=s.group) for s in samples_of(ENGLISH, (5, 14, 9))]
    assert by_topic(topics_of(samples, 3)) == {"dogs": {2}, "sport": {0}, "food": {1}}


def test_languages_are_sorted_apart_and_a_group_with_both_by_its_english():
    english, japanese = samples_of(ENGLISH, (5, 14, 9)), samples_of(JAPANESE, (9, 5, 14), "ja")
    found = by_topic(topics_of([*english, *japanese], 3))
    assert found == {"dogs": {2}, "sport": {0}, "food": {1}, "犬": {1}, "野球": {2}, "料理": {0}}
    both = [*english, CaptionSample("犬が走る", ("野球の選手",), group="en/dogs/0")]
    assert topics_of(both, 3) == topics_of(english, 3)


def test_too_few_groups_or_all_alike_are_said_with_the_language():
    samples = samples_of(ENGLISH, (1, 1, 0))
    with pytest.raises(DataError, match=r"2 groups with captions in en, of which 2 differ .* into 3 topics"):
        topics_of(samples, 3)
    alike = [CaptionSample("x", ("the same caption",), group=str(number)) for number in range(9)]
    with pytest.raises(DataError, match="9 groups with captions in en, of which 1 differ"):
        topics_of(alike, 2)


@pytest.mark.parametrize("captions", [["1", "2", "3", "4"], ["a", "b", "c", "d"], ["あ", "い", "う", "えお"]])
def test_captions_without_a_word_are_sorted_all_the_same(captions):
    samples = [CaptionSample(text, group=str(number)) for number, text in enumerate(captions)]
    assert sorted(set(topics_of(samples, 2).values())) == [0, 1]


def test_folds_by_topic_test_each_once_and_come_back_from_their_file(tmp_path):
    samples = samples_of(ENGLISH, (5, 14, 9))
    topics = topics_of(samples, 3)
    tested = []
    for fold in range(3):
        split = fold_by_group(samples, fold, 3, validation=0.2, fold_of=topics)
        assert split.method == f"by topic, fold {fold} of 3"
        assert {topics[group_of(samples[position])] for position in split.test} == {fold}
        others = {topics[group_of(samples[position])] for position in (*split.train, *split.validation)}
        assert fold not in others
        assert split.validation
        tested += split.test
        split.save(tmp_path / "splits.json", samples)
        assert Split.load(tmp_path / "splits.json", samples) == split
    assert sorted(tested) == list(range(len(samples)))
