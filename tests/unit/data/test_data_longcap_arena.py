"""LongCap-Arena in its published layouts: tables of one scale and one test set each, brought together."""

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.errors import DataError
from tests.unit.data.row_files import write_csv, write_parquet


def write_longcap(root, part, **scales):
    for scale, rows in scales.items():
        write_parquet(
            root / "data" / f"{part}.{scale}-00000-of-00001.parquet",
            file_name=[row[0] for row in rows],
            image=[{"bytes": b"an image", "path": None} for _ in rows],
            refs=[["a long reference"] for _ in rows],
            cand=[row[1] for row in rows],
            score=[row[2] for row in rows],
        )


def test_a_scale_of_longcap_arena_lacks_shards(tmp_path):
    write_longcap(tmp_path, "dci_val", flu=[("sa_1.jpg", "long one", 0.0)])
    path = tmp_path / "data" / "dci_val.flu-00000-of-00001.parquet"
    path.rename(path.with_name("dci_val.flu-00000-of-00012.parquet"))
    with pytest.raises(DataError, match=r"11 of them .*00001-of-00012.parquet.*00005-of-00012.*, \.\.\."):
        BENCHMARKS["longcap-arena"].read(tmp_path)


def test_longcap_arena_brings_the_ratings_of_a_caption_together(tmp_path):
    write_longcap(
        tmp_path,
        "dci_test",
        desc=[("sa_1.jpg", "long one", 0.625), ("sa_2.jpg", "long two", 0.5)],
        rel=[("sa_1.jpg", "long  one", 1.0)],
    )
    write_longcap(tmp_path, "dci_val", flu=[("sa_1.jpg", "long one", 0.0)])
    samples = BENCHMARKS["longcap-arena"].read(tmp_path)
    found = [
        (s.group, s.parts, {name: rating.values for name, rating in s.scales}, s.rating.mean) for s in samples
    ]
    assert found == [
        ("sa_1.jpg", ("test A",), {"fluency": (0.0,)}, 0.0),
        ("sa_1.jpg", ("test B",), {"descriptiveness": (0.625,), "relevance": (1.0,)}, 0.8125),
        ("sa_2.jpg", ("test B",), {"descriptiveness": (0.5,)}, 0.5),
    ]
    assert len({sample.id for sample in samples}) == 3


def test_a_table_of_longcap_arena_is_not_taken_for_all_of_them(tmp_path):
    write_longcap(tmp_path, "dci_val", flu=[("sa_1.jpg", "long one", 0.5)])
    (table,) = tmp_path.rglob("*.parquet")
    with pytest.raises(DataError, match="of one scale and one test set; give the folder"):
        BENCHMARKS["longcap-arena"].read(table)


def test_longcap_arena_beside_its_code_and_what_is_wrong_in_it(tmp_path):
    with pytest.raises(DataError, match=r"looked for data/dci_test.desc-.*found none"):
        BENCHMARKS["longcap-arena"].read(tmp_path)
    rows = [("sa_1.jpg", "long one", "['r']", "0.5"), ("sa_2.jpg", "long two", "['r']", "bad")]
    write_csv(tmp_path / "test" / "desc_dci_val.csv", ("imgid", "mt", "refs", "score"), *rows)
    with pytest.raises(DataError, match=r"desc_dci_val.csv, row 2: the rating"):
        BENCHMARKS["longcap-arena"].read(tmp_path)
    (sample,) = BENCHMARKS["longcap-arena"].read(tmp_path, on_error="skip")
    assert sample.references == ("r",)
