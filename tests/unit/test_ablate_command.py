"""The ablate command: planning, settings that changed, and failures, with trainings that are made up."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from suisei import ablate
from suisei.ablation import runs as runs_module
from suisei.ablation.runs import Run, locked, prepare_runs, train_all
from suisei.ablation.variants import _BLOCKS, BUILT_IN, choose_variants, parse_variant
from suisei.cli import run_command
from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError

MODEL = {
    "image": {"name": "tiny", "frozen": False},
    "fusion": {
        "poolings": ["idf-normalised", "mean"], "blocks": None, "similarity": True, "alignment": True,
        "image_similarity": True, "extra_inputs": ["ridge", "bleu-2", "pac-s:weights"],
    },
    "head": {"members": 4},
    "pretraining": {"epochs": 12, "image_epochs": 5, "cross_fit": 4},
}  # fmt: skip


def settings(support="jsts", **changed):
    model = {key: changed.pop(key, value) for key, value in MODEL.items() if key != "fusion"}
    return {"model": {**model, "fusion": {**MODEL["fusion"], **changed}}, "data": {"support": support}}


def changes(given, *names):
    chosen, skipped = choose_variants(names or None, [], given)
    return {variant.name: variant.changes for variant in chosen}, skipped


# -- variants -------------------------------------------------------------------------------------


def test_blocks_are_those_of_the_model():
    from suisei.models.fusion import BLOCKS

    assert BLOCKS == _BLOCKS


def test_every_part_is_left_out_by_its_settings():
    found, skipped = changes(settings())
    assert next(iter(found)) == "full"
    assert found["full"] == {}
    assert skipped == {}
    assert found["no-idf"] == {"model.fusion.poolings": '["mean"]'}
    assert found["no-image"] == {
        "model.image": "null", "model.fusion.extra_inputs": '["ridge", "bleu-2"]',
    }  # fmt: skip
    assert found["no-pac-s"] == {"model.fusion.extra_inputs": '["ridge", "bleu-2"]'}
    assert found["no-ridge"] == {"model.fusion.extra_inputs": '["bleu-2", "pac-s:weights"]'}
    assert found["no-lexical"] == {"model.fusion.extra_inputs": '["pac-s:weights"]'}
    assert found["no-extra"] == {"model.fusion.extra_inputs": "[]"}
    assert found["no-similarity"] == {"model.fusion.similarity": "false"}
    assert found["no-alignment"] == {"model.fusion.alignment": "false"}
    assert found["no-pretraining"] == {"model.pretraining": "null"}
    assert found["no-cross-fit"] == {"model.pretraining.cross_fit": "0"}
    assert found["no-support"] == {"data.support": "null"}
    assert found["one-member"] == {"model.head.members": "1"}
    assert found["only-extra"] == {
        "model.fusion.blocks": "[]", "model.fusion.similarity": "false", "model.fusion.alignment": "false",
        "model.fusion.image_similarity": "false",
    }  # fmt: skip
    for block in _BLOCKS:
        kept = json.loads(found[f"no-{block}"]["model.fusion.blocks"])
        assert sorted([*kept, block]) == sorted(_BLOCKS)


def test_what_cannot_apply_is_left_out_with_its_reason():
    bare = settings(
        image=None, poolings=["mean"], blocks=["candidate"], similarity=False, extra_inputs=["ridge"],
        alignment=False, head={"members": 1}, pretraining=None, support=None,
    )  # fmt: skip
    found, skipped = changes(bare)
    assert list(found) == ["full", "no-ridge", "only-extra"]
    assert found["only-extra"] == {"model.fusion.blocks": "[]"}  # image_similarity needs an image
    assert skipped["no-alignment"] == "the full model has no alignment inputs"
    assert skipped["no-pretraining"] == "the full model is not pre-trained"
    assert skipped["no-cross-fit"] == "the full model's pre-training is not cross-fitted"
    assert skipped["no-support"] == "the full model has no data.support"
    assert skipped["one-member"] == "the full model has one member"
    assert skipped["no-image"] == "the full model reads no image"
    assert skipped["no-idf"] == "the full model does not pool by idf"
    assert skipped["no-lexical"] == "the same as no-ridge here"
    assert skipped["no-candidate"] == "the full model has no other block"
    assert skipped["no-reference"] == "it is not in the full model"
    assert skipped["no-image-product"] == "the full model reads no image"
    assert set(found) | set(skipped) == {"full", *BUILT_IN}


def test_no_image_leaves_out_the_blocks_of_the_image():
    found, _ = changes(settings(blocks=["candidate", "image-product"], extra_inputs=[]), "no-image")
    assert found["no-image"]["model.fusion.blocks"] == '["candidate"]'
    _, skipped = changes(settings(blocks=["image-product"]), "no-image")
    assert "no other fusion blocks" in skipped["no-image"]


def test_an_image_beside_no_block_is_left_out_too():
    found, _ = changes(settings(blocks=[], extra_inputs=["ridge"]), "no-image", "only-extra")
    assert found["no-image"] == {"model.image": "null"}
    assert found["only-extra"]["model.image"] == "null"
    assert found["only-extra"]["model.pretraining"] == "null"
    assert "model.fusion.blocks" not in found["only-extra"]


def test_a_variant_leaves_something_to_score_by():
    alone = {"similarity": False, "alignment": False, "image_similarity": False, "blocks": []}
    for given, name in (
        ({"extra_inputs": ["ridge"]}, "no-ridge"),
        ({"extra_inputs": [], "similarity": True}, "no-similarity"),
        ({"extra_inputs": [], "alignment": True}, "no-alignment"),
        ({"extra_inputs": [], "image_similarity": True}, "no-image"),
    ):
        found, skipped = changes(settings(**{**alone, **given}), name)
        assert list(found) == ["full"]
        assert skipped[name] == "the full model has nothing else to score by"
        found, _ = changes(settings(**{**alone, **given, "blocks": ["candidate"]}), name)
        assert name in found


def test_extra_inputs_alone_need_some_and_something_beside():
    alone = {"similarity": False, "alignment": False, "image_similarity": False, "blocks": []}
    assert changes(settings(**alone), "only-extra")[1] == {"only-extra": "the full model has nothing else"}
    _, skipped = changes(settings(extra_inputs=[]), "only-extra")
    assert skipped == {"only-extra": "the full model has no extra inputs"}


def test_a_frozen_image_encoder_is_not_left_random():
    image = {"name": "tiny", "frozen": True}
    found, _ = changes(settings(image=image), "no-pretraining")
    assert found["no-pretraining"] == {"model.pretraining.epochs": "0"}
    _, skipped = changes(
        settings(image=image, pretraining={"epochs": 0, "image_epochs": 5}), "no-pretraining"
    )
    assert skipped["no-pretraining"] == "the image encoder is frozen and starts from random weights"
    _, skipped = changes(settings(pretraining={"epochs": 0, "image_epochs": 0}), "no-pretraining")
    assert skipped["no-pretraining"] == "the full model is not pre-trained"


def test_idf_alone_becomes_the_mean():
    found, _ = changes(settings(poolings=["idf"]), "no-idf")
    assert found["no-idf"] == {"model.fusion.poolings": '["mean"]'}


def test_own_variants():
    variant = parse_variant("wide:model.head.hidden=[512, 64],trainer.max_epochs=4,data.train='a,b'")
    assert variant.changes == {
        "model.head.hidden": "[512, 64]", "trainer.max_epochs": "4", "data.train": "'a,b'",
    }  # fmt: skip
    assert variant.arguments[1] == "--trainer.max_epochs=4"
    chosen, _ = choose_variants(["no-idf"], [variant], settings())
    assert [each.name for each in chosen] == ["full", "no-idf", "wide"]


@pytest.mark.parametrize("text", ["wide", "wide:", "a/b:x=1", "full:x=1", "no-idf:x=1", "wide:x", "..:x=1"])
def test_refused_variants(text):
    with pytest.raises(ConfigError, match="--variant"):
        parse_variant(text)


def test_unknown_variants_list_the_known():
    with pytest.raises(ConfigError, match=r"no variant 'no-idff'; there are: full, no-image, .*wide"):
        choose_variants(["no-idff"], [parse_variant("wide:x=1")], settings())


# -- runs -----------------------------------------------------------------------------------------


def run_of(folder: Path, name="full", seed=1, **values) -> Run:
    return Run(name, seed, folder / name / f"seed-{seed}", {"a": {"b": 1}, "seed_everything": seed, **values})


def finish(run: Run):
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "report.json").write_text("{}")


def test_finished_runs_are_kept_and_others_prepared(tmp_path):
    runs = [run_of(tmp_path, seed=seed) for seed in (1, 2)]
    assert prepare_runs(runs) == runs
    assert yaml.safe_load(runs[0].settings_file.read_text()) == runs[0].settings
    finish(runs[0])
    assert prepare_runs(runs) == runs[1:]


def test_runs_with_other_settings_are_refused_or_redone(tmp_path):
    before, after = run_of(tmp_path), run_of(tmp_path, a={"b": 2, "c": None})
    prepare_runs([before])
    assert prepare_runs([after]) == [after]  # never started: nothing is lost
    prepare_runs([before])
    finish(before)
    with pytest.raises(ConfigError, match=r"a\.b: 1, now 2; a\.c: 'not there', now None\. .*--redo"):
        prepare_runs([after])
    assert before.finished
    assert prepare_runs([after], redo=True) == [after]
    assert not before.finished


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    run = run_of(tmp_path)
    finish(run)
    with pytest.raises(ConfigError, match="not a run of this ablation"):
        prepare_runs([run], redo=True)
    assert run.finished


def test_one_ablation_at_a_time(tmp_path):
    with locked(tmp_path / "new"), pytest.raises(ConfigError, match="at work in"), locked(tmp_path / "new"):
        pass
    with locked(tmp_path / "new"):
        pass


TRAINING = """
import json, os, pathlib, sys
config, folder = sys.argv[1:3]
print("threads", os.environ.get("OMP_NUM_THREADS"), "resumed", "last" in sys.argv)
if "broken" in folder:
    sys.exit("no such thing")
folder = pathlib.Path(folder)
(folder / "checkpoints").mkdir(parents=True)
(folder / "report.json").write_text("{}")
"""


@pytest.fixture
def small_trainings(tmp_path, monkeypatch):
    """Processes that leave a report instead of training."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    started = runs_module.subprocess.Popen

    def start(command, **options):
        config, folder = command[command.index("--config") + 1], command[command.index("--output") + 1]
        return started([sys.executable, str(script), config, folder, *command[7:]], **options)

    monkeypatch.setattr(runs_module.subprocess, "Popen", start)
    monkeypatch.setattr(runs_module, "_POLL_SECONDS", 0.01)


def test_trainings_run_apart_and_a_failure_leaves_the_others(tmp_path, small_trainings):
    runs = [run_of(tmp_path, name) for name in ("full", "broken", "no-idf")]
    prepare_runs(runs)
    runs[2].folder.mkdir()
    (runs[2].folder / "config.yaml").write_text("{}")  # it was started before
    seen, most = [], []
    failures = train_all(
        runs, 2, None,
        started=lambda active: most.append(len(active)),
        ended=lambda run, problem, minutes: seen.append((run.name, problem is None)),
    )  # fmt: skip
    assert list(failures) == ["broken, seed 1"]
    assert failures["broken, seed 1"].startswith("exit status 1: no such thing (see ")
    assert sorted(seen) == [("broken, seed 1", False), ("full, seed 1", True), ("no-idf, seed 1", True)]
    assert max(most) == 2
    assert runs[0].log_file.read_text() == "threads 1 resumed False\n"
    assert runs[2].log_file.read_text() == "threads 1 resumed True\n"
    assert not (runs[0].folder / "checkpoints").exists()


def test_an_interrupt_ends_the_trainings(tmp_path, monkeypatch):
    started = runs_module.subprocess.Popen
    processes = []

    def start(command, **options):
        processes.append(started([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        return processes[-1]

    monkeypatch.setattr(runs_module.subprocess, "Popen", start)
    runs = [run_of(tmp_path, name) for name in ("a", "b")]
    prepare_runs(runs)

    def interrupt(active):
        if len(active) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(runs, 2, None, started=interrupt, ended=lambda *_: None)
    assert [process.poll() is not None for process in processes] == [True, True]


# -- the command ----------------------------------------------------------------------------------


def write_result(run: Run):
    """Write what a training leaves, as if noise were less with seed 1 and more without idf."""
    rng = np.random.default_rng(0)
    human = rng.integers(0, 5, 60) / 4
    samples = [
        CaptionSample(f"a dog {n}", ("a dog",), rating=Rating((value,)), group=f"g{n // 3}", id=str(n))
        for n, value in enumerate(human)
    ]
    noise = 0.2 * run.seed + (3.0 if run.variant == "no-idf" else 0.0)
    scores = human + noise * np.random.default_rng(run.seed).normal(size=60)
    run.folder.mkdir(parents=True)
    write_samples(run.folder / "test.jsonl", samples)
    lines = [json.dumps({"id": str(n), "suisei": score}) for n, score in enumerate(scores.tolist())]
    (run.folder / "test_scores.jsonl").write_text("\n".join(lines) + "\n")
    report = {"training": {"minutes": 1.5}, "results": {"settings": {"raters": "rows"}}}
    (run.folder / "report.json").write_text(json.dumps(report))


@pytest.fixture
def made_up(monkeypatch):
    """Trainings that take no time; returns the runs that were asked for."""
    trained: list[Run] = []

    def train(runs, jobs, lock, *, started, ended):
        failures = {}
        for run in runs:
            if run.settings["model"]["head"]["dropout"] == 0.9:
                failures[run.name] = "exit status 1: too much"
                ended(run, failures[run.name], 0.0)
                continue
            write_result(run)
            trained.append(run)
            ended(run, None, 0.0)
        return failures

    monkeypatch.setattr(runs_module, "train_all", train)
    return trained


def command(*arguments):
    return run_command(ablate.main, [str(argument) for argument in arguments])


def test_the_tables_of_an_ablation(tmp_path, made_up, capsys):
    given = (
        "--config", "configs/scenes.yaml", "--seeds", "1,2", "--output", tmp_path / "ab", "--bootstrap", 99,
        "--variants", "no-idf,no-similarity,no-pac-s", "--trainer.max_epochs", "1",
    )  # fmt: skip
    assert command(*given) == 0
    assert {(run.variant, run.seed) for run in made_up} == {
        (variant, seed) for variant in ("full", "no-idf", "no-similarity") for seed in (1, 2)
    }
    by_name = {run.name: run.settings for run in made_up}
    assert by_name["no-idf, seed 2"]["model"]["fusion"]["poolings"] == ["mean"]
    assert {run.settings["data"]["split_seed"] for run in made_up} == {0}
    assert {run.settings["trainer"]["max_epochs"] for run in made_up} == {1}
    assert by_name["full, seed 1"]["seed_everything"] == 1
    content = json.loads((tmp_path / "ab" / "report.json").read_text())
    assert content["variants"]["no-similarity"] == {"model.fusion.similarity": "false"}
    figures = {row["label"]: row for row in content["ablation"]["sections"][0]["rows"]}
    assert list(figures) == ["full", "no-idf", "no-similarity"]
    full = figures["full"]
    assert full["cells"]["pearson"]["value"] == pytest.approx(
        np.mean(list(full["by_seed"]["pearson"].values()))
    )
    assert full["cells"]["sd"]["value"] > 0
    rows = {row["label"]: row["cells"] for row in content["differences"]["sections"][0]["rows"]}
    assert rows["no-idf"]["pearson"]["high"] < 0
    assert rows["no-idf"]["holm"]["value"] < 0.05
    assert rows["no-similarity"]["pearson"]["value"] == pytest.approx(0)
    assert rows["no-similarity"]["pearson"]["low"] < 0 < rows["no-similarity"]["pearson"]["high"]
    assert rows["no-similarity"]["holm"]["value"] > 0.2
    assert "no-pac-s is left out" in (tmp_path / "ab" / "report.md").read_text()
    assert r"\begin{table}" in (tmp_path / "ab" / "report.tex").read_text()
    assert (tmp_path / "ab" / "differences.png").read_bytes().startswith(b"\x89PNG")
    assert "Differences to full" in capsys.readouterr().out

    del made_up[:]
    assert command(*given, "--seeds", "1,2,3") == 0  # only what is new is trained
    assert {run.seed for run in made_up} == {3}
    assert command(*given, "--data.batch_size", "8") == 2
    assert "data.batch_size: 32, now 8" in capsys.readouterr().err


def test_a_failed_variant_is_named_and_the_others_reported(tmp_path, made_up, capsys):
    status = command(
        "--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--bootstrap", "50",
        "--variants", "no-idf", "--variant", "dry:model.head.dropout=0.9",
    )  # fmt: skip
    assert status == 1
    content = json.loads((tmp_path / "ab" / "report.json").read_text())
    assert [row["label"] for row in content["differences"]["sections"][0]["rows"]] == ["no-idf"]
    assert "dry, seed 1 failed: exit status 1: too much" in content["ablation"]["notes"]
    assert any("a single seed" in note for note in content["differences"]["notes"])


def test_dry_run_writes_nothing(tmp_path, capsys):
    assert (
        command("--config", "scenes", "--output", tmp_path / "ab", "--variants", "no-idf", "--dry-run") == 0
    )
    assert not (tmp_path / "ab").exists()
    assert "6 runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed_everything", "3"), "--seed_everything is not for an ablation"),
        (("--ckpt_path=last",), "--ckpt_path is not for an ablation"),
        (("--variants", "no-such"), "no variant 'no-such'"),
        (("--config", "configs/pacs.yaml"), "trains an encoder alone"),
        (("--config", "configs/pretrain.yaml"), "trains an encoder alone"),
    ],
)
def test_refused_options(arguments, message, tmp_path, capsys):
    assert command("--config", "scenes", "--output", tmp_path / "ab", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_setting_that_train_does_not_know_is_refused(tmp_path):
    with pytest.raises(SystemExit) as stop:
        command("--config", "scenes", "--output", tmp_path / "ab", "--variant", "x:model.hed=1", "--dry-run")
    assert stop.value.code == 2


def test_runs_of_another_split_are_refused(tmp_path, made_up, capsys):
    given = ("--config", "scenes", "--seeds", "1,2", "--output", tmp_path / "ab", "--variants", "no-idf")
    assert command(*given, "--bootstrap", "0") == 0
    path = tmp_path / "ab" / "no-idf" / "seed-2" / "test.jsonl"
    path.write_text(path.read_text().replace("a dog 7", "a cat 7"))
    assert command(*given) == 2
    assert "no-idf, seed 2 was tested on other samples than full, seed 1" in capsys.readouterr().err
