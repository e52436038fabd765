"""``suisei caption``: every image has a row, broken ones and wordless captions are named."""

import csv
import gzip
import io
import json

import pytest
import torch

from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_writing import captions_of, write_captions
from suisei.captioning.captioner import Captioner
from suisei.cli import run_command
from suisei.commands.caption import main
from suisei.errors import ConfigError, DataError
from tests.unit.commands.caption_runs import colours, counting, rows_of, tiny_captioner


@pytest.fixture
def model():
    return tiny_captioner()


@pytest.fixture
def folder(tmp_path, model):
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def images(tmp_path):
    return colours(tmp_path / "images")


def test_every_image_has_a_row_and_a_broken_one_its_error(folder, images, tmp_path, capsys, model):
    output = tmp_path / "captions.jsonl"
    arguments = ["--model", folder, "--images", images, "--output", output, "--max-length", "5"]
    assert main(list(map(str, arguments))) == 0
    rows = rows_of(output)
    assert [row["id"] for row in rows] == ["a.png", "b.png", "c.png", "d.png"]
    assert "candidate" not in rows[2]
    assert "c.png" in rows[2]["error"]
    said = capsys.readouterr().err
    assert "3 of 4 images captioned" in said
    assert "1 image could not be read: c.png" in said
    files = [images / f"{name}.png" for name in "abd"]
    wanted = captions_of(model, files, Decoding("beam", max_length=5))
    assert [row["candidate"] for row in rows if "candidate" in row] == [own[0] for own in wanted]


def test_captions_are_no_longer_than_the_captioner_can_write(folder, images, tmp_path, model, capsys):
    model.decoder.positions.data = model.decoder.positions.data[:4]
    model.config.positions = 4
    model.save(tmp_path / "short")
    arguments = ["--model", tmp_path / "short", "--images", images / "a.png"]
    assert run_command(main, [*map(str, arguments), "--max-length", "5"]) == 2
    assert "--max-length is 5; this captioner writes at most 4 tokens: lower it" in capsys.readouterr().err
    assert run_command(main, [*map(str, arguments)]) == 0  # without it as many as it can


def test_coco_results_hold_the_captions_alone(folder, images, tmp_path, capsys):
    (images / "a.png").rename(images / "COCO_val2014_000000000042.png")
    output = tmp_path / "results.json"
    main([*map(str, ("--model", folder, "--images", images, "--output", output, "--method", "greedy"))])
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [42, "b.png", "d.png"]
    assert all(set(row) == {"image_id", "caption"} for row in results)
    assert "c.png" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_name_that_is_not_utf8_costs_its_image_alone(folder, images, tmp_path, capsys, kind):
    (images / "c.png").unlink()
    (images / "b.png").rename(images / "b\udcff.png")
    output = tmp_path / f"captions.{kind}"
    assert main([*map(str, ("--model", folder, "--images", images, "--output", output))]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2 of 3 images captioned" in said
    assert r"1 image with a name or id that is not UTF-8, to be renamed: b\udcff.png" in said
    if kind == "json":
        assert [row["image_id"] for row in json.loads(output.read_text("utf-8"))] == ["a.png", "d.png"]
        return
    rows = rows_of(output)
    assert [row["id"] for row in rows] == ["a.png", r"b\udcff.png", "d.png"]
    assert "not UTF-8" in rows[1]["error"]
    assert "candidate" not in rows[1]


def test_half_of_a_surrogate_pair_in_an_id_costs_its_image_alone(folder, images, tmp_path):
    rows, output = tmp_path / "rows.jsonl", tmp_path / "captions.jsonl"
    given = [
        {"id": "1", "image": "a.png"},
        {"id": "\ud83d", "image": "b.png"},
        {"id": "3", "image": "\ud83d"},
    ]
    rows.write_text("".join(json.dumps(row) + "\n" for row in given))
    options = ("--model", folder, "--images", images, "--input", rows, "--output", output)
    assert main([*map(str, options)]) == 0
    written = rows_of(output)
    assert [row["id"] for row in written] == ["1", r"\ud83d", "3"]
    assert ["error" in row for row in written] == [False, True, True]


def test_coco_results_tell_images_of_one_number_apart(folder, images, tmp_path):
    for name, place in (("a", "cat/0001.png"), ("b", "dog/0001.png"), ("d", "dog/0002.png")):
        (tmp_path / "photos" / place).parent.mkdir(parents=True, exist_ok=True)
        (images / f"{name}.png").rename(tmp_path / "photos" / place)
    output = tmp_path / "results.json"
    options = ("--model", folder, "--images", tmp_path / "photos", "--output", output, "--method", "greedy")
    main([*map(str, options)])
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == ["cat/0001.png", "dog/0001.png", 2]


def test_ids_that_images_share_give_way_to_paths_and_that_is_said(folder, images, tmp_path, caplog):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    for ids, written in (("112", [str(images / "a.png"), str(images / "b.png"), "2"]), ("123", None)):
        rows = [{"id": own, "image": f"{name}.png"} for own, name in zip(ids, "abd", strict=True)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        options = (
            "--model",
            folder,
            "--input",
            file,
            "--images",
            images,
            "--output",
            output,
            "--method",
            "greedy",
        )
        assert main([*map(str, options)]) == 0
        found = [json.loads(line)["id"] for line in output.read_text(encoding="utf-8").splitlines()]
        assert found == (written or list(ids))
        said = "id '1' is that of several images, whose paths are written instead"
        assert (said in caplog.text) == bool(written)
        caplog.clear()


def test_a_caption_without_a_word_is_counted_and_named(folder, images, tmp_path, capsys, model):
    with torch.no_grad():
        state = model.decoder.last_norm
        state.weight.zero_()
        state.bias.copy_(model.decoder.embedding.weight[model.end_id])
        model.decoder.embedding.weight[model.end_id] *= 100
    model.save(folder)
    (images / "c.png").unlink()
    output = tmp_path / "captions.jsonl"
    assert main([*map(str, ("--model", folder, "--images", images, "--output", output))]) == 1
    assert all(row["error"] == "the caption decoded to nothing" for row in rows_of(output))
    said = " ".join(capsys.readouterr().err.split())
    assert "0 of 3 images captioned" in said
    assert "3 images got captions without a word: a.png; b.png; d.png" in said


def test_samples_have_a_row_each_and_follow_the_seed(folder, images, tmp_path):
    (images / "c.png").unlink()

    def drawn(seed):
        output = tmp_path / f"{seed}.jsonl"
        options = ("--method", "sample", "--samples", 2, "--seed", seed, "--language", "ja")
        main([*map(str, ("--model", folder, "--images", images, "--output", output, *options))])
        return rows_of(output)

    first, other = drawn(1), drawn(2)
    assert [row["id"] for row in first[:3]] == ["a.png#1", "a.png#2", "b.png#1"]
    assert {row["language"] for row in first} == {"ja"}
    assert [row["candidate"] for row in first] != [row["candidate"] for row in other]
    assert first == drawn(1)


def test_rows_are_scored_as_they_are(folder, images, tmp_path):
    from suisei.commands.score import main as score

    (tmp_path / "rows.jsonl").write_text(
        "".join(
            json.dumps({"id": str(n), "image": f"{name}.png", "references": ["a red picture"]}) + "\n"
            for n, name in enumerate("abd")
        )
    )
    output, scores = tmp_path / "captions.jsonl", tmp_path / "scores.jsonl"
    main([
        *map(str, ("--model", folder, "--input", tmp_path / "rows.jsonl", "--images", images)),
        *map(str, ("--output", output, "--method", "greedy")),
    ])  # fmt: skip
    assert rows_of(output)[1]["references"] == ["a red picture"]
    assert score([*map(str, ("--metrics", "bleu-1", "--input", output, "--output", scores))]) == 0
    assert len(rows_of(scores)) == 3


def test_images_are_named_as_readers_of_the_rows_find_them(folder, images, tmp_path, monkeypatch, capsys):
    from suisei.commands.score import main as score

    monkeypatch.chdir(tmp_path)
    (images / "c.png").unlink()
    (tmp_path / "out").mkdir()
    options = ("--model", folder, "--images", "images", "--method", "greedy", "--output")
    score_options = ("--metrics", "length", "--output", tmp_path / "scores.jsonl", "--input")
    for output, named, more in (
        ("captions.jsonl", "images/a.png", ()),
        ("out/captions.jsonl", str(images / "a.png"), ("--images", "images")),
    ):
        main([*map(str, (*options, output))])
        assert rows_of(tmp_path / output)[0]["image"] == named
        assert score([*map(str, (*score_options, output, *more))]) == 0
    capsys.readouterr()
    main([*map(str, (*options, "-"))])
    assert json.loads(capsys.readouterr().out.splitlines()[0])["image"] == "images/a.png"


def test_references_of_another_language_stand_beside_no_caption(folder, images, tmp_path):
    rows = [
        {"image": "a.png", "references": ["赤い絵", "a red picture"]},
        {"image": "b.png", "references": ["ABC"], "language": "ja"},
        {"image": "d.png", "references": ["a blue picture"], "language": None},
    ]
    file, output = images / "rows.jsonl", tmp_path / "captions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ("--model", folder, "--input", file, "--output", output, "--max-length", 5, "--language")
    for language, wanted in (
        ("en", [["a red picture"], None, ["a blue picture"]]),
        ("ja", [["赤い絵"], ["ABC"], None]),
    ):
        main([*map(str, (*options, language))])
        assert [row.get("references") for row in rows_of(output)] == wanted


@pytest.mark.parametrize("name", ["split.json:test", "annotations.json", "pairs.jsonl", "rated.csv"])
def test_images_of_a_file_with_references_may_lie_elsewhere(folder, images, tmp_path, name):
    split = {"filename": "a.png", "split": "test", "sentences": [{"raw": "a red picture"}]}
    coco = {"images": [{"id": 7, "file_name": "a.png"}]}
    coco["annotations"] = [{"id": 1, "image_id": 7, "caption": "a red picture"}]
    file, output = tmp_path / "elsewhere" / name.partition(":")[0], tmp_path / "captions.jsonl"
    file.parent.mkdir()
    pairs = {"image": "a.png", "captions": ["a red picture"]}
    contents = {"split.json": {"images": [split]}, "annotations.json": coco, "pairs.jsonl": pairs}
    table = 'image,candidate,references\na.png,red,"[""a red picture""]"\n'
    file.write_text(json.dumps(contents[file.name]) if file.name in contents else table)
    options = [*map(str, ("--model", folder, "--data", file.parent / name, "--output", output))]
    with pytest.raises(DataError, match="--images"):
        main(options)
    assert main([*options, "--images", str(images)]) == 0
    (row,) = rows_of(output)
    assert (row["image"], row["references"]) == ("images/a.png", ["a red picture"])


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz"])
def test_tables_have_references_too(folder, images, tmp_path, name):
    file, output = images / name, tmp_path / "captions.jsonl"
    rows = [["image", "references"], ["a.png", '["a red picture", "red"]'], ["b.png", ""]]
    text = io.StringIO()
    csv.writer(text, delimiter="\t" if "tsv" in name else ",").writerows(rows)
    content = text.getvalue().encode()
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    options = ("--model", folder, "--input", file, "--output", output, "--method", "greedy")
    main([*map(str, options)])
    assert [row.get("references") for row in rows_of(output)] == [["a red picture", "red"], None]
    if not name.endswith(".gz"):
        file.write_bytes(content.replace(b'[""a', b"a"))
        with pytest.raises(DataError, match="line 2: references must be a JSON list"):
            main([*map(str, options)])


def test_batches_change_no_caption(model, images):
    files = [images / f"{name}.png" for name in "abcd"]
    decoding = Decoding("beam", beams=3, max_length=5)
    alone, together = (
        list(write_captions(model, files, decoding, batch_size=size, precision="fp32")) for size in (1, 3)
    )
    assert [written.captions for written in alone] == [written.captions for written in together]
    assert [bool(written.problem) for written in alone] == [False, False, True, False]
    with pytest.raises(DataError, match=r"c\.png"):
        captions_of(model, files, decoding)


def test_captions_are_computed_in_the_precision_asked_for(model, images, monkeypatch):
    seen = []
    encode = Captioner.encode

    def watched(self, pixels):
        found = encode(self, pixels)
        kinds = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        seen.append((kinds, torch.get_float32_matmul_precision()))
        return found

    monkeypatch.setattr(Captioner, "encode", watched)
    decoding = Decoding("greedy", max_length=3)
    for precision in ("fp32", "bf16", "fp16"):
        found = next(write_captions(model, [images / "a.png"], decoding, precision=precision))
        assert found.captions
        assert not torch.is_autocast_enabled("cpu")
    usual = torch.get_float32_matmul_precision()
    wanted = [(None, usual), (torch.bfloat16, usual), (torch.float16, usual)]
    assert seen == wanted
    with pytest.raises(ConfigError, match="precision tf32 is for CUDA GPUs"):
        next(write_captions(model, [images / "a.png"], decoding, precision="tf32"))
    with pytest.raises(ConfigError, match="precision is 'int8'; captioners compute in auto, fp32"):
        next(write_captions(model, [images / "a.png"], decoding, precision="int8"))
    monkeypatch.setenv("SUISEI_PRECISION", "int8")  # which is for text encoders
    assert next(write_captions(model, [images / "a.png"], decoding)).captions


def test_quiet_and_a_log_tell_what_is_told(folder, images, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    output = tmp_path / "captions.jsonl"
    arguments = ["--model", folder, "--images", images, "--output", output, "--max-length", 3]
    assert run_command(main, [*map(str, arguments), "--quiet", "--log-json", str(log)]) == 0
    assert not capsys.readouterr().err
    events = rows_of(log)
    assert [event["event"] for event in events] == ["start", "stage", "done", "note", "note", "end"]
    assert events[2]["stage"] == "writing captions"
    assert events[2]["done"] == 4
    assert "3 of 4 images captioned" in events[3]["text"]
    assert run_command(main, [*map(str, arguments), "--log-json", str(output)]) == 2
    assert "--log-json" in capsys.readouterr().err


def test_an_interruption_of_a_stream_says_what_was_done(folder, images, capsys, monkeypatch):
    counting(monkeypatch, stop_at=2)
    arguments = ["--model", folder, "--images", images, "--batch-size", 1]
    assert run_command(main, [*map(str, arguments)]) == 130
    told = capsys.readouterr()
    said = "interrupted; 1 image done, and their rows are written; the same command starts anew"
    assert said in told.err
    assert len(told.out.splitlines()) == 1


def test_a_file_that_is_read_is_not_written_over(folder, images):
    rows = images / "rows.jsonl"
    rows.write_text('{"image": "a.png"}\n')
    with pytest.raises(ConfigError, match="--output"):
        main([*map(str, ("--model", folder, "--input", rows, "--output", rows))])
    assert rows.read_text() == '{"image": "a.png"}\n'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to caption"),
        (["--images", "a", "--data", "scenes"], "--data names its images itself"),
        (["--images", "a", "--root", "b"], "--root belongs to --data"),
        (["--data", "split.json:test", "--root", "b"], "--data split.json:test takes no --root; its images"),
        (["--images", "a", "--method", "greedy", "--beams", "3"], "--beams is for --method beam"),
        (["--images", "a", "--top-p", "0.9"], "--top-p is for --method sample; leave it out with beam"),
        (["--images", "a", "--samples", "2"], "--samples is for --method sample"),
        (["--images", "a", "b", "--input", "c.csv"], "with --input, --images is the one folder"),
        (["--images", "a", "b", "--data", "c.csv"], "with --data, --images is the one folder"),
        (["--images", "a", "--method", "sample", "--samples", "2", "--output", "x.json"], "one caption per"),
        (["--images", "a", "--method", "sample", "--samples", "2", "--output", "x.JSON"], "one caption per"),
        (["--images", "a", "--output", "x.jsonl.gz"], "captions are not compressed"),
        (["--images", "a", "--output", "x.csv"], "must end in .jsonl"),
        (["--images", "a", "--beams", "0"], "--beams"),
        (["--images", "a", "--precision", "int8"], "--precision"),
        (["--images", "a", "--resume"], "--resume needs an --output file"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        main(["--model", "absent", *options])
