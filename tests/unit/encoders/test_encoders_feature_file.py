"""Features on disk: never stale, never another's, safe under writers, bounded, rebuilt when damaged."""

import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig

from suisei.encoders.cache_place import disk_cache
from suisei.encoders.feature_file import FILE, DiskCache, DiskFeatures
from suisei.encoders.weight_digest import module_digest
from suisei.errors import ConfigError

LIMIT = 1 << 20


class Encoder:
    """Turns numbers into features of three by two, and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, items):
        self.asked += items
        return torch.tensor([[[float(item), 1.0], [-float(item), 0.1], [0.0, 1e-30]] for item in items])


def look_up(features, numbers, encoder):
    found = features.look_up([str(n) for n in numbers], numbers, encoder)
    torch.testing.assert_close(found, Encoder()(numbers), rtol=0, atol=0)
    return found


@pytest.fixture
def encoder():
    return Encoder()


def features_in(folder, limit=LIMIT, space=b"one"):
    return DiskFeatures(DiskCache(folder, limit), space)


def test_the_next_run_encodes_only_what_is_new(tmp_path, encoder):
    look_up(features_in(tmp_path), [3, 1, 2], encoder)
    look_up(features_in(tmp_path), [2, 5, 3, 2], encoder)
    assert encoder.asked == [3, 1, 2, 5]


def test_items_beyond_the_first_chunk_get_their_own_features(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr("suisei.encoders.feature_file.ITEMS_PER_CHUNK", 3)
    numbers = [4, 7, 1, 8, 2, 6, 3, 5]
    for _ in range(2):  # encoded, and then from disk
        look_up(features_in(tmp_path), numbers, encoder)
    assert encoder.asked == numbers


def test_another_space_shares_nothing(tmp_path, encoder):
    look_up(features_in(tmp_path, space=b"one"), [1], encoder)
    look_up(features_in(tmp_path, space=b"two"), [1], encoder)
    assert encoder.asked == [1, 1]


def test_nothing_is_kept_without_a_cache(encoder):
    look_up(DiskFeatures(), [1], encoder)
    look_up(DiskFeatures(), [1], encoder)
    assert encoder.asked == [1, 1]
    assert DiskFeatures().look_up([], [], lambda items: torch.zeros(len(items), 2)).shape == (0, 2)


def test_the_oldest_make_room_and_the_file_stays_within_its_bound(tmp_path):
    features = features_in(tmp_path, limit=500_000)
    wide = {number: torch.full((1, 1000), float(number)) for number in range(200)}
    for number, row in wide.items():
        features.look_up([str(number)], [number], lambda items, row=row: row)
    items, size = features.cache.size()
    assert 40 < items < 125  # 4 kB each
    features.cache.close()  # merges SQLite's log into the file
    assert (tmp_path / FILE).stat().st_size <= 500_000
    assert size > 0
    asked = []

    def encode(numbers):
        asked.extend(numbers)
        return torch.cat([wide[number] for number in numbers])

    for number in (199, 0):
        assert features.look_up([str(number)], [number], encode)[0, 0] == number
    assert asked == [0]


@pytest.mark.parametrize("damage", ["garbage", "cut", "empty"])
def test_a_damaged_file_is_built_anew(tmp_path, encoder, damage, caplog):
    features = features_in(tmp_path)
    look_up(features, list(range(500)), encoder)
    features.cache.close()
    content = (tmp_path / FILE).read_bytes()
    ruined = {"garbage": b"nonsense" * 1000, "cut": content[: len(content) // 2], "empty": b""}[damage]
    (tmp_path / FILE).write_bytes(ruined)
    look_up(features_in(tmp_path), list(range(500)), encoder)
    assert len(encoder.asked) == 1000
    assert damage == "empty" or "damaged" in caplog.text
    look_up(features_in(tmp_path), list(range(500)), encoder)
    assert len(encoder.asked) == 1000


def test_a_damaged_file_that_may_not_be_removed_costs_a_warning(tmp_path, encoder, monkeypatch, caplog):
    (tmp_path / FILE).write_bytes(b"nonsense" * 1000)

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)  # as in a folder of somebody else's
    features = features_in(tmp_path)
    look_up(features, [1], encoder)
    look_up(features, [1], encoder)
    assert features.cache.size() == (0, 8000)
    assert encoder.asked == [1, 1]
    assert "is not used ([Errno 13] Permission denied" in caplog.text


def test_one_damaged_entry_is_encoded_again(tmp_path, encoder):
    look_up(features_in(tmp_path), [1, 2, 3], encoder)
    with sqlite3.connect(tmp_path / FILE) as connection:
        value = bytearray(connection.execute("SELECT value FROM features WHERE rowid = 2").fetchone()[0])
        value[-1] ^= 1
        connection.execute("UPDATE features SET value = ? WHERE rowid = 2", (bytes(value),))
    connection.close()
    look_up(features_in(tmp_path), [1, 2, 3], encoder)
    assert encoder.asked == [1, 2, 3, 2]
    look_up(features_in(tmp_path), [1, 2, 3], encoder)
    assert len(encoder.asked) == 4


@pytest.mark.parametrize("value", [7, 0.5, "text", None, b"", b"short"])
def test_an_entry_of_another_type_is_encoded_again(tmp_path, encoder, value):
    look_up(features_in(tmp_path), [1, 2], encoder)
    with sqlite3.connect(tmp_path / FILE) as connection:  # as if another program had made the table
        connection.execute("CREATE TABLE other (key BLOB UNIQUE, value)")
        connection.execute("INSERT INTO other SELECT key, value FROM features")
        connection.execute("DROP TABLE features")
        connection.execute("ALTER TABLE other RENAME TO features")
        connection.execute("UPDATE features SET value = ? WHERE rowid = 2", (value,))
    connection.close()
    for _ in range(2):
        look_up(features_in(tmp_path), [1, 2], encoder)
    assert encoder.asked == [1, 2, 2]


def test_a_file_that_stays_locked_costs_a_warning_not_the_run(tmp_path, encoder, monkeypatch, caplog):
    monkeypatch.setattr("suisei.encoders.feature_file.LOCK_SECONDS", 0.01)
    features = features_in(tmp_path)
    look_up(features, [1], encoder)
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("BEGIN IMMEDIATE")
    look_up(features, [2], encoder)
    look_up(features, [2], encoder)
    other.rollback()
    other.close()
    assert "is not used" in caplog.text
    assert encoder.asked == [1, 2, 2]


WRITER = """
import sys
import torch
from pathlib import Path
from suisei.encoders.feature_file import DiskCache, DiskFeatures
features = DiskFeatures(DiskCache(Path(sys.argv[1]), 1 << 24), b"one")
for start in range(0, 300, 3):
    numbers = list(range(start, start + 30))
    keys = [str(n) for n in numbers]
    found = features.look_up(keys, numbers, lambda items: torch.tensor(items).float()[:, None].expand(-1, 50))
    assert found[:, 7].tolist() == [float(n) for n in numbers]
"""


def test_two_processes_may_write_at_once(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    messages = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], messages
    assert messages == [b"", b""]
    found = DiskCache(tmp_path, LIMIT)
    assert found.size()[0] == 327
    assert found.size()[1] > 327 * 200
    found.clear()
    assert found.size() == (0, 0)


def test_every_weight_buffer_name_and_type_counts():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    digests = [module_digest(model)]
    with torch.no_grad():
        model[0].weight[1, 2] += 1e-6
        digests.append(module_digest(model))
        model[1].running_mean[0] += 1e-6
        digests.append(module_digest(model))
    digests += [module_digest(model.bfloat16()), module_digest(nn.ModuleDict({"a": model}))]
    assert len(set(digests)) == 5
    assert module_digest(model) == digests[3]


def test_layers_with_the_same_weights_that_compute_otherwise_count():
    """Such as OpenAI's CLIP with one activation or the other, or with other heads."""
    torch.manual_seed(0)
    heads = [nn.MultiheadAttention(8, count) for count in (2, 2, 4)]
    heads[1].load_state_dict(heads[0].state_dict())
    heads[2].load_state_dict(heads[0].state_dict())
    one, same, other = map(module_digest, heads)
    assert one == same != other
    linear = nn.Linear(2, 2)
    followed = [nn.Sequential(linear, function) for function in (nn.GELU(), nn.GELU("tanh"), nn.ReLU())]
    assert len(set(map(module_digest, followed))) == 3
    assert module_digest(followed[0].eval()) == module_digest(followed[0].train())


def test_settings_and_functions_of_a_module_count_and_what_it_is_called_does_not():
    linear = nn.Linear(2, 2)

    def followed(function, **settings):
        made = nn.Sequential(linear)
        made.function, made.config = function, PretrainedConfig(**settings)
        return module_digest(made)

    different = [
        followed(functional.gelu),
        followed(functional.relu),
        followed(partial(functional.gelu, approximate="tanh")),
        followed(partial(functional.gelu, approximate="none")),
        followed(functional.gelu, head_scale=2.0),
        followed(functional.gelu, sizes=(1, 2)),
        followed(functional.gelu, sizes=(2, 1)),
    ]
    assert len(set(different)) == len(different)
    assert followed(functional.gelu, name_or_path="elsewhere") == different[0]


def test_small_encoders_stay_off_the_disk_unless_a_folder_is_given(tmp_path, monkeypatch, encoder):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SUISEI_CACHE")
    small = disk_cache().features_of(nn.Linear(2, 2))
    look_up(small, [1], encoder)
    look_up(small, [1], encoder)
    assert encoder.asked == [1, 1]
    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path / "chosen"))
    for _ in range(2):
        torch.manual_seed(0)
        look_up(disk_cache().features_of(nn.Linear(2, 2)), [1], encoder)
    assert encoder.asked == [1, 1, 1]
    assert disk_cache("off") is None
    assert disk_cache(tmp_path / "other").path == tmp_path / "other" / FILE


def test_impossible_folders_and_sizes_are_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be in"):
        disk_cache(tmp_path / "file" / "folder")
    monkeypatch.setenv("SUISEI_CACHE_GB", "-1")
    with pytest.raises(ConfigError, match="SUISEI_CACHE_GB is '-1'"):
        disk_cache(tmp_path)
