"""``suisei caption --resume``: what is captioned is kept, and a run that goes on ends as an unbroken one."""

import errno
import json
import os

import pytest

from suisei.cli import run_command
from suisei.commands.caption import main
from suisei.data.part_files import locked, part_of
from suisei.errors import ConfigError, DataError
from tests.unit.commands.caption_runs import colours, counting, rows_of, tiny_captioner

BATCH = 2


@pytest.fixture
def folder(tmp_path):
    tiny_captioner().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def images(tmp_path):
    place = colours(tmp_path / "images")
    for number in range(3):
        os.link(place / f"{'abd'[number]}.png", place / f"e{number}.png")
    return place


@pytest.fixture
def run(folder, images, tmp_path):
    """Return a function that runs the command on seven images, the third damaged, in batches of two."""

    def started(output, *options, model=folder):
        arguments = (
            "--model",
            model,
            "--images",
            images,
            "--batch-size",
            BATCH,
            "--output",
            tmp_path / output,
        )
        return main([*map(str, (*arguments, *options))])

    return started


@pytest.fixture
def cut_off(run, tmp_path, monkeypatch):
    """Return a function that runs the command until its third batch; returns the part file."""

    def stopped(output="captions.jsonl", *options):
        with monkeypatch.context() as patch:
            counting(patch, stop_at=3)
            with pytest.raises(KeyboardInterrupt, match=r"4 images done, in .*part; the same with --resume"):
                run(output, *options)
        assert not (tmp_path / output).exists()
        return part_of(tmp_path / output)

    return stopped


@pytest.mark.parametrize("name", ["captions.jsonl", "captions.json"])
@pytest.mark.parametrize("options", [(), ("--method", "sample", "--seed", 3), ("--language", "ja")])
def test_a_run_that_goes_on_ends_as_an_unbroken_one(run, cut_off, tmp_path, monkeypatch, name, options):
    run(f"whole-{name}", *options)
    cut_off(name, *options)
    before = sorted(tmp_path.iterdir())
    (
        tmp_path / f".{name}.0123456789ab.{name.partition('.')[2]}"
    ).touch()  # of a run that was killed at its end
    seen = counting(monkeypatch)
    assert run(name, "--resume", *options) == 0
    assert seen == [2, 1]  # and not the first four images
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted({*before, tmp_path / name} - {part_of(tmp_path / name)})


def test_several_samples_of_an_image_are_kept(run, cut_off, tmp_path):
    options = ("--method", "sample", "--samples", 3)
    run("whole.jsonl", *options)
    cut_off("captions.jsonl", *options)
    run("captions.jsonl", "--resume", *options)
    assert rows_of(tmp_path / "captions.jsonl") == rows_of(tmp_path / "whole.jsonl")
    assert len(rows_of(tmp_path / "captions.jsonl")) == 6 * 3 + 1


def test_a_part_file_is_gone_on_with_only_if_that_is_asked_for(run, cut_off):
    part = cut_off()
    left = part.read_bytes()
    with pytest.raises(ConfigError, match=r"part is left from a run that was cut off; go on with --resume"):
        run("captions.jsonl", model="absent")  # before it is looked for
    assert part.read_bytes() == left


@pytest.mark.parametrize(
    "rest",
    [
        b"", b'{"batch": 2, "imag', b'{"batch": 2}\n', b"\0\0\0\n", b"[]\n{}\n",
        b'{"batch": 2, "images": [1, 2], "written": [[["a"], [0.5], ""]]}\n',
        b'{"batch": 2, "images": [1], "written": [[[1], [0.5], ""]]}\n',
        b'{"batch": 2, "images": [1], "written": [[["a"], ["b"], ""]]}\n',
        b'{"batch": 2, "images": [1], "written": [[["a"], [0.5]]]}\n',
        b'{"batch": 2, "images": [1], "written": [5]}\n',
        b'{"batch": "2", "images": [], "written": []}\n',
    ],
)  # fmt: skip
def test_what_a_killed_run_left_half_written_is_captioned_again(run, cut_off, tmp_path, monkeypatch, rest):
    run("whole.jsonl")
    part = cut_off()
    part.write_bytes(part.read_bytes() + rest)
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert seen == [2, 1]
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("whole_lines", [0, 1, 2])
def test_a_part_file_that_breaks_off_early_loses_what_comes_after(
    run, cut_off, tmp_path, monkeypatch, whole_lines
):
    run("whole.jsonl")
    part = cut_off()
    lines = part.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    part.write_bytes(b"".join(lines[:whole_lines]) + lines[whole_lines][:20])
    with monkeypatch.context() as patch:
        counting(patch, stop_at=2)
        with pytest.raises(KeyboardInterrupt):
            run("captions.jsonl", "--resume")
    known = max(0, whole_lines - 1) + 1
    assert [json.loads(line).get("batch") for line in part.read_bytes().splitlines()] == [None, *range(known)]
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert len(seen) == 4 - known
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--batch-size", 3), "batch_size"),
        (("--seed", 1), "seed"),
        (("--beams", 3), "decoding"),
        (("--max-length", 4), "decoding"),
        (("--language", "ja"), "language"),
        (("--precision", "fp16"), "precision"),
    ],
)
def test_other_options_are_refused(run, cut_off, options, what):
    part = cut_off()
    left = part.read_bytes()
    with pytest.raises(ConfigError, match=f"part was written with another {what}; give the same, or another"):
        run("captions.jsonl", "--resume", *options)
    assert part.read_bytes() == left


def test_the_precision_that_was_computed_in_counts_and_not_what_it_was_called(run, cut_off, monkeypatch):
    monkeypatch.setenv("SUISEI_PRECISION", "fp32")
    cut_off()
    monkeypatch.setenv("SUISEI_PRECISION", "bf16")
    with pytest.raises(ConfigError, match="part was written with another precision"):
        run("captions.jsonl", "--resume")
    assert run("captions.jsonl", "--resume", "--precision", "fp32") == 0


def test_batches_draw_by_themselves(run, images, tmp_path):
    for name in ("b", "c", "d", "e1", "e2"):
        (images / f"{name}.png").unlink()
    run("captions.jsonl", "--method", "sample", "--samples", 4, "--batch-size", 1)
    first, second = (
        [row["candidate"] for row in rows_of(tmp_path / "captions.jsonl") if row["id"].startswith(name)]
        for name in ("a", "e0")  # the same picture
    )
    assert len(first) == len(second) == 4
    assert first != second


def test_images_that_never_were_there_have_their_rows(folder, images, tmp_path):
    listed = tmp_path / "listed.txt"
    listed.write_text("a.png\nabsent.png\nb.png\n")
    arguments = ("--model", folder, "--input", listed, "--images", images, "--batch-size", BATCH)
    assert main([*map(str, (*arguments, "--output", tmp_path / "captions.jsonl"))]) == 0
    assert ["error" in row for row in rows_of(tmp_path / "captions.jsonl")] == [False, True, False]


def test_another_captioner_is_refused_and_the_same_elsewhere_is_not(run, cut_off, folder, tmp_path):
    part = cut_off()
    folder.rename(tmp_path / "moved")
    other = tiny_captioner()
    other.decoder.last_norm.bias.data += 0.5
    other.save(folder)
    with pytest.raises(ConfigError, match="part was written with another captioner"):
        run("captions.jsonl", "--resume")
    assert part.exists()
    assert run("captions.jsonl", "--resume", model=tmp_path / "moved") == 0


@pytest.mark.parametrize("first", [b"no JSON\n", b'{"part": 0}\n', b'{"part": 1, "suisei": "0"}\n', b"[1]\n"])
def test_a_part_file_that_nothing_is_known_of_is_refused(run, cut_off, first):
    part = cut_off()
    part.write_bytes(first + part.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(ConfigError, match="is damaged or of another version of suisei, so nothing says"):
        run("captions.jsonl", "--resume")
    assert part.read_bytes().startswith(first)


def test_images_that_have_changed_are_refused(run, cut_off, images):
    cut_off()
    content = (images / "b.png").read_bytes()
    (images / "b.png").unlink()
    with pytest.raises(DataError, match=r"the images have changed: .*c\.png is not what was captioned"):
        run("captions.jsonl", "--resume")
    (images / "b.png").write_bytes(content)
    os.utime(images / "b.png", ns=(1, 1))
    with pytest.raises(DataError, match=r"b\.png is not what was captioned; go on with the images as they"):
        run("captions.jsonl", "--resume")


def test_fewer_images_are_refused(run, cut_off, images):
    cut_off()
    for name in ("b", "d", "e0", "e1", "e2"):
        (images / f"{name}.png").unlink()
    (images / "b2.png").symlink_to(images / "a.png")
    with pytest.raises(DataError, match=r"b2\.png is not what was captioned"):
        run("captions.jsonl", "--resume")
    (images / "b2.png").unlink()
    (images / "c.png").unlink()
    with pytest.raises(DataError, match="batch 1 of the images has 1, in the part file 2"):
        run("captions.jsonl", "--resume")


def test_an_image_that_was_damaged_and_is_mended_is_captioned_with_its_batch(
    run, cut_off, images, tmp_path, monkeypatch
):
    cut_off()
    (images / "c.png").write_bytes((images / "a.png").read_bytes())
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert sorted(seen) == [1, 2, 2]  # c and d again, and the last three
    run("whole.jsonl")
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert all("candidate" in row for row in rows_of(tmp_path / "captions.jsonl"))


def test_an_image_that_can_be_read_by_now_is_captioned_though_its_size_and_time_are_as_they_were(
    run, cut_off, images, tmp_path, monkeypatch
):
    content = (images / "a.png").read_bytes()
    for written in (bytes(len(content)), content):
        (images / "c.png").write_bytes(written)
        os.utime(images / "c.png", ns=(1, 1))
        if written != content:
            cut_off()
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert sorted(seen) == [1, 2, 2]
    assert all("candidate" in row for row in rows_of(tmp_path / "captions.jsonl"))


def test_a_batch_that_was_done_again_is_known_by_its_later_line(run, cut_off, images, tmp_path, monkeypatch):
    part = cut_off()
    (images / "c.png").write_bytes((images / "a.png").read_bytes())
    with monkeypatch.context() as patch:
        counting(patch, stop_at=2)
        with pytest.raises(KeyboardInterrupt, match="4 images done"):
            run("captions.jsonl", "--resume")
    assert [json.loads(line).get("batch") for line in part.read_bytes().splitlines()] == [None, 0, 1, 1]
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert seen == [2, 1]
    run("whole.jsonl")
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_images_that_go_away_stop_the_run_and_it_goes_on_once_they_are_back(
    run, images, tmp_path, monkeypatch
):
    from suisei.captioning import caption_writing

    read, calls = caption_writing._read, []

    def gone(model, image):
        calls.append(image)
        if len(calls) == 3:
            images.rename(tmp_path / "away")
        return read(model, image)

    run("whole.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(caption_writing, "_read", gone)
        patch.setattr(caption_writing, "DECODING_THREADS", 1)
        with pytest.raises(
            DataError, match=r"[a-e0]\.png is not there any more; --resume goes on once it is"
        ):
            run("captions.jsonl")
    assert not (tmp_path / "captions.jsonl").exists()
    (tmp_path / "away").rename(images)
    assert run("captions.jsonl", "--resume") == 0
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_captioned_image_that_is_gone_when_the_run_goes_on_is_named(folder, images, tmp_path, cut_off):
    listed = tmp_path / "listed.txt"
    listed.write_text("".join(f"{path}\n" for path in sorted(images.iterdir())))
    cut_off()
    (images / "a.png").unlink()
    arguments = ("--model", folder, "--input", listed, "--images", images, "--batch-size", BATCH)
    with pytest.raises(DataError, match=r"a\.png is not there any more; --resume goes on once it is back"):
        main([*map(str, (*arguments, "--output", tmp_path / "captions.jsonl", "--resume"))])


def test_a_finished_output_is_left_as_it_is(run, images, tmp_path, capsys, monkeypatch):
    assert run("captions.jsonl", "--resume") == 0  # nothing is there to go on with: from the start
    capsys.readouterr()
    seen = counting(monkeypatch)
    content = (tmp_path / "captions.jsonl").read_bytes()
    assert run("captions.jsonl", "--resume") == 0
    assert "is complete, newer than its images and its captioner: nothing to resume" in " ".join(
        capsys.readouterr().err.split()
    )
    assert not seen
    later = (tmp_path / "captions.jsonl").stat().st_mtime_ns + 10**9
    os.utime(images / "b.png", ns=(later, later))
    with pytest.raises(
        ConfigError, match=r"is complete, but .*b\.png was changed after it; write captions anew"
    ):
        run("captions.jsonl", "--resume")
    assert (tmp_path / "captions.jsonl").read_bytes() == content


def test_two_runs_never_write_one_output(run, tmp_path):
    part = part_of(tmp_path / "captions.jsonl")
    with locked(part, "--output"), pytest.raises(ConfigError, match="another run is writing"):
        run("captions.jsonl")
    part.unlink()
    assert run("captions.jsonl") == 0


def test_a_full_disk_keeps_what_is_finished(run, tmp_path, monkeypatch):
    from suisei.captioning import caption_part

    run("whole.jsonl")
    write, lines = caption_part.write_all, []

    def full(stream, text):
        lines.append(text)
        if len(lines) == 3:
            write(stream, text[:40])
            raise OSError(28, "No space left on device")
        write(stream, text)

    with monkeypatch.context() as patch:
        patch.setattr(caption_part, "write_all", full)
        with pytest.raises(DataError, match=r"part: cannot be written: No space left on device"):
            run("captions.jsonl")
    seen = counting(monkeypatch)
    run("captions.jsonl", "--resume")
    assert seen == [1, 2, 1]
    assert (tmp_path / "captions.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_an_output_that_cannot_be_written_in_the_end_says_where_its_captions_are(run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", _no_room_for_rows(json.dumps))
        with pytest.raises(DataError, match=r"No space.*; captions are in .*part, and --resume"):
            run("captions.jsonl")
    assert not (tmp_path / "captions.jsonl").exists()
    seen = counting(monkeypatch)
    assert run("captions.jsonl", "--resume") == 0
    assert not seen
    assert len(rows_of(tmp_path / "captions.jsonl")) == 7


def _no_room_for_rows(dumps):
    """Return a ``json.dumps`` that fails for rows of an output and no line of a part file."""

    def dumped(value, *args, **options):
        if "candidate" in value:
            raise OSError(errno.ENOSPC, "No space left on device")
        return dumps(value, *args, **options)

    return dumped


def test_a_run_that_finished_no_batch_leaves_nothing(folder, images, tmp_path, capsys, monkeypatch):
    counting(monkeypatch, stop_at=1)
    before = sorted(tmp_path.iterdir())
    arguments = ("--model", folder, "--images", images, "--output", tmp_path / "captions.jsonl")
    assert run_command(main, [*map(str, arguments)]) == 130
    assert "interrupted; 0 images done" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
