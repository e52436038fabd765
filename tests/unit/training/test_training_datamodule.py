"""The data module: splits by group, folds, several sources, and an order that the seed decides."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from suisei.data.formats import read_samples, write_samples
from suisei.errors import ConfigError, DataError
from suisei.training.datamodule import CaptionDataModule


def write(path, groups, *, per_group=3, prefix="g", rated=True):
    lines = []
    for group in range(groups):
        for number in range(per_group):
            row = {"id": f"{prefix}{group}-{number}", "candidate": f"caption {group} {number}"}
            row |= {"references": [f"reference {group}"], "group": f"{prefix}{group}"}
            lines.append(json.dumps(row | ({"rating": [number / per_group]} if rated else {})))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.jsonl", 20)


def groups(module, part):
    return {sample.group for sample in module.part(part)}


def load(*args, **options):
    module = CaptionDataModule(*args, **options)
    module.load()
    return module


def test_parts_share_no_group_and_lose_no_sample(data):
    module = load(data, fractions=(0.6, 0.2, 0.2))
    parts = [groups(module, part) for part in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [12, 4, 4]
    assert len(set.union(*parts)) == 20
    positions = [*module.split.train, *module.split.validation, *module.split.test]
    assert sorted(positions) == list(range(60))


def test_a_row_per_rater_is_a_sample_with_all_its_ratings(data, tmp_path, caplog):
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    more = [{**row, "id": f"{row['id']}+", "rating": [1.0]} for row in rows]
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows + more))
    module = load(str(path))
    assert len(module.samples) == 60
    assert [sample.rating.values for sample in module.samples[:2]] == [(0.0, 1.0), (1 / 3, 1.0)]
    assert module.split == load(data).split
    assert "120 rows rate 60 samples, a row per rater" in caplog.text


def test_split_depends_on_its_seed_alone(data):
    assert load(data, batch_size=4).split == load(data).split
    assert load(data, split_seed=1).split != load(data).split


@pytest.mark.parametrize(
    ("options", "given", "method", "seed"),
    [
        ({"split_seed": 12}, "", "by group, 0.8 / 0.1 / 0.1", 12),
        ({"split_seed": 12, "folds": 5, "fold": 2}, "", "by group, fold 2 of 5", 12),
        ({"folds": 5, "fold": 2, "disjoint": "captions"}, "", "by group, fold 2 of 5", 0),
        ({"fractions": (0.9, 0.1, 0.0)}, "test", "by group, 0.9 / 0.1 / 0, test given", 0),
        ({}, "validation test", "given", None),
    ],
)
def test_the_saved_split_says_how_it_was_made(data, tmp_path, options, given, method, seed):
    files = {part: write(tmp_path / f"{part}.jsonl", 2, prefix=part) for part in given.split()}
    module = load(data, **options, **files)
    module.split.save(tmp_path / "splits.json", module.samples)
    saved = json.loads((tmp_path / "splits.json").read_text("utf-8"))
    assert (saved["method"], saved["seed"]) == (method, seed)


def test_every_group_is_tested_in_exactly_one_fold(data):
    tested = []
    for fold in range(4):
        module = load(data, folds=4, fold=fold)
        parts = [groups(module, part) for part in ("train", "validation", "test")]
        assert not parts[0] & parts[1]
        assert not parts[2] & (parts[0] | parts[1])
        tested += sorted(parts[2])
    assert sorted(tested) == sorted(f"g{number}" for number in range(20))


def test_share_of_validation_in_a_fold_is_the_second_fraction(data):
    for share, count in ((0.25, 4), (0.125, 2)):
        module = load(data, folds=5, fold=0, fractions=(0.8 - share, share, 0.2))
        assert [len(groups(module, part)) for part in ("validation", "test")] == [count, 4]


def test_several_sources_are_each_split_and_their_names_kept_apart(data, tmp_path):
    other = write(tmp_path / "other.jsonl", 10)  # its groups have the same names
    module = load([data, other], fractions=(0.6, 0.2, 0.2))
    assert len(module.samples) == 90
    for part, expected in (("train", (12, 6)), ("validation", (4, 2)), ("test", (4, 2))):
        names = groups(module, part)
        counts = tuple(
            sum(name.startswith(f"{Path(source).name}/") for name in names) for source in (data, other)
        )
        assert counts == expected


@pytest.mark.parametrize(
    "names",
    [
        ("first.jsonl", "second.jsonl"),
        ("en/train.jsonl", "ja/train.jsonl"),
        ("en/train.jsonl", "train.jsonl"),
        ("en/train.jsonl", "ja/train.jsonl", "more.jsonl"),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_moved_files_are_split_and_named_as_before(tmp_path, names, several):
    def load_from(folder):
        for number, name in enumerate(names):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [
                {"candidate": f"{number} {n}", "image": f"photos{n % 2}/{n}.png", "rating": [n / 30], "id": n}
                for n in range(30)
            ]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            for row in rows:
                (path.parent / row["image"]).parent.mkdir(exist_ok=True)
                (path.parent / row["image"]).write_bytes(f"{number} {row['image']}".encode())
        return load([str(folder / name) for name in names[:count]], folds=5, fold=2)

    count = len(names) if several else 1
    here, there = load_from(tmp_path / "here"), load_from(tmp_path / "far" / "away")
    for part in ("train", "validation", "test"):
        assert getattr(here.split, part) == getattr(there.split, part)
    assert len(here.split.test) == 6 * count
    assert [sample.id for sample in here.samples] == [sample.id for sample in there.samples]
    if several:
        assert here.split == there.split
        assert all(f"{folder}/" not in s.group + s.id for s in here.samples for folder in (tmp_path, "here"))


@pytest.mark.parametrize("written", ["{folder}/./{name}", "{folder}/x/../{name}", "{name}"])
def test_one_file_written_in_two_ways_has_its_groups_once(data, written, monkeypatch):
    (Path(data).parent / "x").mkdir()
    monkeypatch.chdir(Path(data).parent)
    module = load([data, written.format(folder=Path(data).parent, name=Path(data).name)])
    assert len(module.samples) == 120
    assert {sample.group for sample in module.samples} == {f"data.jsonl/g{n}" for n in range(20)}


@pytest.mark.parametrize("options", [{"fractions": (0.6, 0.2, 0.2)}, {"folds": 4, "fold": 1}])
def test_an_image_of_several_sources_is_in_one_part_of_them_all(tmp_path, options):
    def rated(name, images):
        rows = [
            {"candidate": f"{name} {n}", "image": f"{n}.png", "group": f"{name}{n}", "rating": [0.5]}
            for n in images
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    for number in range(36):
        (tmp_path / f"{number}.png").write_bytes(b"%d" % number)
    first, second = rated("a", range(24)), rated("b", range(6, 36))
    module = load([first, second], **options)
    images = [{sample.image for sample in module.part(p)} for p in ("train", "validation", "test")]
    assert sum(map(len, images)) == len(set.union(*images)) == 36
    assert module.shared == {}
    alone = load(first, **options)  # the first source is split as it is by itself but for its groups' names
    assert len(module.split.train) + len(module.split.validation) + len(module.split.test) == 54
    counts = [sum(s.candidate.startswith("a") for s in module.part(p)) for p in ("train", "test")]
    assert counts == [len(alone.split.train), len(alone.split.test)]
    assert module.split == load([first, second], **options).split
    group_of_image = {}
    for sample in module.samples:  # what trains without a group, such as a ridge, trains without the image
        assert group_of_image.setdefault(sample.image, sample.group) == sample.group
    balanced = load([first, second], batching="balanced", **options)
    assert balanced.set_numbers().tolist() == [0] * 24 + [1] * 30


def test_a_set_of_which_nothing_is_left_to_train_on_is_refused_in_balanced_batches(data, tmp_path):
    other = write(tmp_path / "other.jsonl", 10, prefix="o")
    rows = [json.loads(line) for line in Path(other).read_text("utf-8").splitlines()]
    same = "".join(json.dumps(row | {"candidate": "one and the same"}) + "\n" for row in rows)
    Path(other).write_text(same, encoding="utf-8")
    settings = {"disjoint": "captions", "fractions": (0.6, 0.2, 0.2)}
    assert load([data, other], **settings).split.train
    with pytest.raises(DataError, match=r"other\.jsonl: no sample of it is left to train on"):
        load([data, other], batching="balanced", **settings)


def test_rows_of_several_sources_have_ids_of_their_own(data, tmp_path):
    other = write(tmp_path / "other.jsonl", 10)  # with the same ids
    test = load([data, other]).part("test")
    write_samples(tmp_path / "test.jsonl", test)
    assert [s.id for s in read_samples(tmp_path / "test.jsonl")] == [s.id for s in test]


def test_given_validation_and_test_files_are_used_whole(data, tmp_path):
    validation = write(tmp_path / "validation.jsonl", 2, prefix="v")
    test = write(tmp_path / "test.jsonl", 3, prefix="t")
    module = load(data, validation=validation, test=test)
    assert groups(module, "train") == {f"g{number}" for number in range(20)}
    assert groups(module, "validation") == {"v0", "v1"}
    assert groups(module, "test") == {"t0", "t1", "t2"}
    only_validation = load(data, validation=validation)
    assert groups(only_validation, "validation") == {"v0", "v1"}
    assert len(groups(only_validation, "test")) == 2
    assert len(groups(only_validation, "train")) == 18


@pytest.mark.parametrize("sources", [1, 2])
def test_given_file_that_shares_groups_with_training_is_refused(data, tmp_path, sources):
    training = data if sources == 1 else [data, write(tmp_path / "more.jsonl", 5, prefix="m")]
    with pytest.raises(DataError, match=r"data\.jsonl: \d+ of its groups.*in the train split too"):
        load(training, validation=data)


@pytest.mark.parametrize("options", [{"folds": 5, "fold": 0}, {"fractions": (0.8, 0.1, 0.1)}])
def test_of_several_sources_the_one_with_too_few_groups_is_named(data, tmp_path, options):
    few = write(tmp_path / "few.jsonl", 1)
    with pytest.raises(DataError, match=r"/few\.jsonl: the samples form 1 group, too few for"):
        load([data, few], **options)


def test_unrated_samples_are_refused(tmp_path):
    path = write(tmp_path / "unrated.jsonl", 4, rated=False)
    for on_error in ("raise", "skip"):
        with pytest.raises(DataError, match=r"none of its 12 samples has a rating.*'rating_2', \.\.\.$"):
            load(path, on_error=on_error)


def test_unrated_rows_among_others_are_named_or_left_out_and_counted(data, caplog):
    rows = [json.loads(line) for line in Path(data).read_text("utf-8").splitlines()]
    rows[5]["candidate"] = ""
    rows[4]["rating"] = rows[7]["rating"] = None
    Path(data).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    module = load(data, on_error="skip")
    assert len(module.samples) == 57
    assert [row.number for row in module.skipped] == [5, 6, 8]
    assert str(module.skipped[0].error) == f"{data}, row 5: no rating, and training needs one"
    assert f"3 bad rows skipped, the first: {data}, row 5: no rating" in caplog.text
    rows[5]["candidate"] = "a dog"
    Path(data).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(DataError) as refused:
        load(data)
    assert str(refused.value) == (
        f"{data}: 2 of 60 samples have no rating, the first is row 5; training needs one each: add them, or "
        "leave the rows out: --data.on_error skip"
    )


def test_a_benchmark_is_read_from_its_own_folder(tmp_path):
    from PIL import Image

    for name, groups in (("one", 5), ("two", 8)):
        folder = tmp_path / name
        (folder / "images").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(folder / "images" / "a.png")
        rows = [
            {
                "id": str(n),
                "candidate": "a",
                "references": ["b"],
                "image": "images/a.png",
                "rating": [1 + n % 5],
            }
            | {"rating_scale": [1, 5], "language": "en", "system": "s", "group": f"g{n}"}
            for n in range(groups)
        ]
        (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    split = {"fractions": (0.4, 0.3, 0.3)}
    assert len(load("scenes", root=str(tmp_path / "one"), **split).samples) == 5
    assert len(load("scenes", root={"scenes": str(tmp_path / "two")}, **split).samples) == 8


def made_by(positions):
    return os.getpid()


def test_batches_are_made_by_as_many_processes(data):
    for workers in (0, 2):
        module = load(data, num_workers=workers, batch_size=8)
        module.attach(made_by, seed=0)
        makers = {*module.train_dataloader(), *module.val_dataloader()}
        assert (os.getpid() in makers) == (workers == 0)
        assert len(set(module.train_dataloader())) == max(1, workers)


def test_bad_rows_are_raised_or_counted(data, tmp_path, caplog):
    path = tmp_path / "bad.jsonl"
    bad = '{"candidate": " ", "rating": 0.5}\n{"candidate": "x", "rating": 7}\n'
    path.write_text((tmp_path / "data.jsonl").read_text() + bad)
    with pytest.raises(DataError, match="61"):
        load(str(path))
    module = load(str(path), on_error="skip")
    assert len(module.samples) == 60
    assert [row.number for row in module.skipped] == [61, 62]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"2 bad rows skipped, the first: {path}, row 61: candidate is empty")


def test_a_row_that_is_left_out_is_advised_on_in_settings_of_training(data, tmp_path, caplog):
    path = tmp_path / "off.jsonl"
    path.write_text('{"candidate": "x", "rating": 7}\n' + (tmp_path / "data.jsonl").read_text())
    load(str(path), on_error="skip")
    assert "the right scale: --data.rating_scale '[LOW,HIGH]'" in caplog.text
    assert "--rating-scale" not in caplog.text


def test_settings_that_cannot_work_are_refused(data):
    for options in (
        {"batch_size": 0},
        {"folds": 3, "fold": 3},
        {"folds": 3, "test": "x"},
    ):
        with pytest.raises(ConfigError):
            CaptionDataModule(data, **options)
    with pytest.raises(ConfigError, match=r"data\.fold is null"):
        load(data, folds=3)
    with pytest.raises(DataError, match="empty"):
        load(data, fractions=(0.9, 0.1, 0.0))
    with pytest.raises(ConfigError, match=r"unknown data 'scene'.*'scenes'"):
        load("scene")


def test_loaders_do_not_draw_from_the_global_random_numbers(data):
    module = load(data)
    module.attach(lambda positions: list(positions), seed=0)
    before = torch.get_rng_state()
    training = [position for batch in module.train_dataloader() for position in batch]
    validation = [position for batch in module.val_dataloader() for position in batch]
    assert torch.equal(before, torch.get_rng_state())
    assert sorted(training) == sorted(module.split.train)
    assert validation == list(module.split.validation)


def test_samples_of_a_group_meet_in_a_batch(data):
    module = load(data, batching="group", batch_size=6, fractions=(0.6, 0.2, 0.2))
    module.attach(lambda positions: list(positions), seed=0)
    batches = list(module.train_dataloader())
    assert sorted(p for batch in batches for p in batch) == sorted(module.split.train)
    assert [len(batch) for batch in batches] == [6] * 6
    for batch in batches:
        assert len({module.samples[position].group for position in batch}) == 2  # three samples each


def test_samples_as_long_meet_in_a_batch_where_lengths_are_known(data):
    module = load(data, batching="length", batch_size=4)
    lengths = np.arange(len(module.samples)) % 7
    module.attach(lambda positions: list(positions), 0, lengths)
    spread = [np.ptp(lengths[batch]) for batch in module.train_dataloader()]
    assert max(spread) <= 1
    module.attach(lambda positions: list(positions), 0)
    assert max(np.ptp(lengths[batch]) for batch in module.train_dataloader()) > 1


@pytest.mark.parametrize("group", [True, False])
def test_training_samples_go_through_the_references_of_their_image(tmp_path, group):
    names, rows = "abcde", []
    for number in range(70):  # seven samples of each of ten groups, mixed
        image, row = number % 10, number // 10
        references = [f"{name} of {image}" for name in names]
        rows.append({"candidate": f"{row} of {image}", "references": references, "rating": [row / 10]})
        rows[-1] |= {"group": str(image)} if group else {}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, turned = (load(str(path), references=order) for order in ("first", "rotate"))
    assert turned.split == first.split
    for sample in turned.part("train"):
        row, image = sample.candidate.split(" of ")
        wanted = [names[(int(row) + n) % len(names)] for n in range(len(names))]
        assert sample.references == tuple(f"{name} of {image}" for name in wanted)
    for part in ("validation", "test"):
        assert turned.part(part) == first.part(part)
    assert first.samples[0].references[0].startswith("a")
    with pytest.raises(ConfigError, match=r"data\.references is 'turn'; it must be one of first, rotate"):
        load(str(path), references="turn")


def test_samples_without_references_stay(data, tmp_path):
    rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
    for row in rows[::2]:
        del row["references"]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert load(str(path), references="rotate").samples == load(str(path)).samples
