"""The cache command, and the option of score and evaluate."""

import json

import pytest

from suisei.__main__ import main
from suisei.data.writers import replacing
from suisei.encoders.drawings import drawings_folder
from suisei.encoders.feature_file import FILE


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture
def captions_file(tmp_path, captions, pictures):
    rows = [
        {"id": str(n), "candidate": text, "references": [captions[n - 1]], "image": str(pictures[n % 4])}
        | {"rating": n / 8}
        for n, text in enumerate(captions)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_features_are_kept_shown_and_removed(tmp_path, model_folder, captions_file, capsys, command):
    cache = tmp_path / "cache"
    given = ["--input", captions_file] if command == "score" else ["--data", captions_file, "--bootstrap", 0]
    for _ in range(2):
        assert run(command, "--model", model_folder, *given, "--any-path", "--cache", cache) == 0
    capsys.readouterr()
    assert run("cache", "--cache", cache) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{cache / FILE}: 12 captions and images, ")
    assert run("cache", "--cache", cache, "--clear") == 0
    assert "removed 12 captions and images" in capsys.readouterr().out
    assert not list(cache.iterdir())
    assert run("cache", "--cache", cache) == 0
    assert ": 0 captions and images, 0.0 MB of at most 5,000 MB" in capsys.readouterr().out


def test_drawn_images_are_shown_and_removed(tmp_path, capsys):
    folder = drawings_folder(tmp_path)
    key = f"ab{'0' * 38}"
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / f"{key}.png").write_bytes(b"x" * 1_500_000)
    (folder / "ab" / f"{key}.declined.json").write_text("{}")
    assert run("cache", "--cache", tmp_path) == 0
    assert f"{folder}: 1 drawn image, 1.5 MB\n" in capsys.readouterr().out
    assert run("cache", "--cache", tmp_path, "--clear") == 0
    assert f"{folder}: removed 1 drawn image" in capsys.readouterr().out
    assert not folder.exists()


def test_a_users_own_files_beside_drawn_images_are_neither_counted_nor_removed(tmp_path, capsys):
    folder = drawings_folder(tmp_path)
    key = f"ab{'0' * 38}"
    drawn = [folder / "ab" / f"{key}.png", folder / "ab" / f"{key}.declined.json"]
    own = ["thesis.txt", "my.png", f"{key}.png", "ab/my.png", f"cd/{key}.png", f"ab/{key}.jpg", "ef/x.json"]
    for path in (*drawn, *(folder / name for name in own)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 500_000)
    (folder / "ab" / f"{key[:-1]}1.png").mkdir()
    (folder / "cc").mkdir()
    assert run("cache", "--cache", tmp_path) == 0
    assert f"{folder}: 1 drawn image, 0.5 MB\n" in capsys.readouterr().out
    assert run("cache", "--cache", tmp_path, "--clear") == 0
    assert f"{folder}: removed 1 drawn image, 0.5 MB\n" in capsys.readouterr().out
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(own)
    assert not (folder / "cc").exists()


@pytest.mark.parametrize("kind", ["png", "declined.json"])
def test_what_a_killed_process_left_of_an_image_is_removed(tmp_path, kind):
    folder = drawings_folder(tmp_path)
    (folder / "ab").mkdir(parents=True)
    with replacing(folder / "ab" / f"ab{'0' * 38}.{kind}") as temporary:
        temporary.write_bytes(b"x")
    temporary.write_bytes(b"x")
    assert run("cache", "--cache", tmp_path, "--clear") == 0
    assert not folder.exists()


def test_off_is_off(tmp_path, model_folder, captions_file, capsys, monkeypatch):
    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path / "cache"))
    given = ["--input", captions_file, "--any-path", "--cache", "off"]
    assert run("score", "--model", model_folder, *given) == 0
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("SUISEI_CACHE", "off")
    assert run("cache") == 0
    assert "no feature cache is in use" in capsys.readouterr().out
