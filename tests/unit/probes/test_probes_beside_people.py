"""Captions of systems beside those of people: who is compared with whom, by what, and the correlation."""

import json

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.data.system_files import Reading
from suisei.data.system_outputs import read_systems
from suisei.errors import ConfigError, DataError
from suisei.probes.beside_people import ladders_beside_people
from suisei.probes.ladders import ladder_outcomes
from suisei.probes.outcomes import Scored
from suisei.probes.probe_tables import beside_people_table

LENGTH = Scored("length", lambda samples: np.array([float(len(s.candidate)) for s in samples]))
HOW = Reading(None, None, "raise", None)


def humans(count=8, language="en"):
    text = ("a dog number {} runs", "the dog {}") if language == "en" else ("犬が{}匹走る", "{}匹の犬")
    return [
        CaptionSample(text[0].format(n), (text[1].format(n),), group=str(n), id=f"{n}.jpg", language=language)
        for n in range(count)
    ]


def systems(folder, **said):
    files = []
    for name, captions in said.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(captions))
        files.append(str(path))
    return read_systems(files, HOW, alone=True)


def test_a_system_is_scored_on_peoples_images_against_the_same_references(tmp_path):
    files = systems(tmp_path, ours={str(n): f"dog {n}" for n in reversed(range(6))})
    ((language, ladder),), notes = ladders_beside_people(humans(), files, "people.json")
    assert (language, ladder.names) == ("en", ("ours", "Human"))
    assert len(ladder.sets[0]) == 6
    for own, human in zip(*ladder.sets, strict=True):
        assert own.candidate == f"dog {human.group}"
        assert (own.references, own.group) == (human.references, human.group)
        assert human.candidate not in own.references
    assert notes == ["people.json: references of 2 other images are not used"]


def test_a_system_may_name_the_files_of_the_images(tmp_path):
    files = systems(tmp_path, ours={f"{n}.jpg": f"dog {n}" for n in range(6)})
    ((_, ladder),), _ = ladders_beside_people(humans(), files, "people.json")
    assert [(s.candidate, s.group) for s in ladder.sets[0]] == [(f"dog {n}", str(n)) for n in range(6)]


def test_several_systems_are_compared_on_the_images_that_all_have(tmp_path):
    files = systems(tmp_path, a=dict.fromkeys("01234", "a dog"), b=dict.fromkeys("34567", "a cat"))
    found, notes = ladders_beside_people(humans(), files, "people.json")
    assert [ladder.names[0] for _, ladder in found] == ["a", "b"]
    assert all({s.group for s in own} == {"3", "4"} for _, ladder in found for own in ladder.sets)
    assert "a has no caption for 3 of 8 images (5, 6, 7): left out for all systems" in notes
    with pytest.raises(DataError, match="1 image in common"):
        ladders_beside_people(humans(4), files, "people.json")


def test_each_language_is_by_itself(tmp_path):
    rows = [{"group": str(n), "candidate": c} for n in range(8) for c in (f"dog {n}", f"犬{n}")]
    path = tmp_path / "both.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (both,) = read_systems([f"ours={path}"], HOW, alone=True)
    found, _ = ladders_beside_people([*humans(), *humans(language="ja")], [both], "d", limit=5)
    assert {language: len(ladder.sets[0]) for language, ladder in found} == {"ja": 5, "en": 5}
    for language, ladder in found:
        assert {s.language for own in ladder.sets for s in own} == {language}
        assert all(s.candidate.startswith("犬" if language == "ja" else "dog") for s in ladder.sets[0])
    files = systems(tmp_path, english={str(n): "a dog" for n in range(8)})
    with pytest.raises(DataError, match=r"no system has a caption in a language .* \(ja\)"):
        ladders_beside_people(humans(language="ja"), files, "d")


def test_the_table_says_who_scores_higher(tmp_path):
    short, long = ({str(n): word for n in range(8)} for word in ("a dog", "a very long caption of dogs"))
    found, _ = ladders_beside_people(humans(), systems(tmp_path, short=short, long=long), "d")
    outcomes = [each for _, ladder in found for each in ladder_outcomes([LENGTH], ladder, "en")]
    table = beside_people_table(outcomes)
    assert [section.title for section in table.sections] == ["short", "long"]
    (told,), (fooled,) = (section.rows for section in table.sections)
    assert told.value("rho") == pytest.approx(1)
    assert told.value("beats") == 1
    assert fooled.value("rho") == pytest.approx(-1)
    assert fooled.value("beats") == 0
    assert told.value("system") == 5
    assert told.value("people") == len("a dog number 0 runs")
    assert sum(told.as_dict()["orders"]["Human"]) == pytest.approx(8)
    assert beside_people_table([]) is None


def test_one_file_may_hold_one_system_or_several(tmp_path):
    rows = [{"group": str(n), "candidate": "a dog", "system": name} for name in "ab" for n in range(3)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [file.name for file in read_systems([str(path)], HOW, alone=True)] == ["a", "b"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    assert [file.name for file in read_systems([str(path)], HOW, alone=True)] == ["rows"]
    with pytest.raises(ConfigError, match="a comparison needs two"):
        read_systems([str(path)], HOW)


@pytest.mark.realdata
@pytest.mark.slow
def test_systems_beside_people_on_coco(shared):
    """Captions of M2 on Karpathy's test images, which BLEU-1 takes for better than people's."""
    from suisei.data.human_captions import human_captions
    from suisei.metrics.registry import get_metric
    from suisei.probes.originals import held_out

    folder = shared / "data/benchmarks/coco-karpathy-systems"
    people = human_captions(str(folder / "reference_captions.json"), note=[].append)
    files = read_systems([f"m2={folder / 'm2_transformer.json'}"], HOW, alone=True)
    ((_, ladder),), _ = ladders_beside_people(held_out(people, which="first"), files, "coco", limit=5000)
    assert len(ladder.sets[0]) == 5000
    (found,) = ladder_outcomes([Scored("bleu-1", get_metric("bleu-1").score)], ladder, "en", n_resamples=0)
    assert found.rho.value == pytest.approx(-0.3005, abs=5e-4)
    assert found.scores.mean(axis=1) == pytest.approx([0.7538, 0.6281], abs=5e-4)
