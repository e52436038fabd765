"""What the command lines of all trainings share: a folder of their own, progress, precision."""

import pytest
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only

from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig
from suisei.commands.train import main
from suisei.errors import ConfigError
from suisei.training import run_callbacks, run_lock
from suisei.training.progress_lines import ProgressLines
from suisei.training.run_lock import alone_in
from suisei.training.task_cli import TaskCLI
from tests.unit.tiny_models import write_clip

TASKS = ("pacs", "captioner", "self-critical", "recap-mapper", "recap-latent")


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    """The folder of a tiny captioner."""
    torch.manual_seed(0)
    layers = TransformerConfig(width=32, heads=4, encoder_layers=1, decoder_layers=1, feed_forward=64)
    tower = GridTower(create_image_encoder(TowerConfig(name="tiny", train=True)))
    folder = tmp_path_factory.mktemp("captioner") / "model"
    Captioner(tower, layers, Pieces.learned(["a red wall", "a blue wall"], 40), ["en"]).save(folder)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """The folder of a tiny CLIP."""
    return write_clip(tmp_path_factory.mktemp("clip") / "model")


@pytest.fixture
def train(tmp_path, clip, captioner):
    """Start a training of a task, up to its data, which are not there."""

    def start(task, output, *more):
        options = {
            "pacs": [f"--model.model={clip}"],
            "captioner": ["--model.tower.name=tiny", "--model.tower.train=true"],
            "self-critical": [f"--model={captioner}", "--reward=length"],
            "pretrain": ["--model.text.tiny.layers=0", "--model.pretraining.epochs=1"],
            "ratings": ["--model.text.tiny.layers=0"],
        }
        config = tmp_path / f"{task}.yaml"
        config.write_text(f"task: {'null' if task == 'ratings' else task}\n", encoding="utf-8")
        given = ["--config", str(config), f"--output={output}", "--trainer.accelerator=cpu"]
        return main([*given, *options.get(task, []), *more])

    return start


@pytest.mark.parametrize("task", [*TASKS, "pretrain", "ratings"])
def test_a_training_into_a_folder_in_use_is_refused(train, tmp_path, monkeypatch, task):
    monkeypatch.setattr(run_lock, "PATIENCE", 0.1)
    output = tmp_path / "run"
    with alone_in(output, fresh=True):
        with pytest.raises(ConfigError, match="another training is writing"):
            train(task, output)
        assert list(output.iterdir()) == []
    with alone_in(output, fresh=True):  # and what was refused holds no lock
        pass


@pytest.fixture
def made(monkeypatch, train, tmp_path):
    """The command line of a task, with model, data and trainer."""

    class MadeError(Exception):
        pass

    def stop(self):
        raise MadeError(self)

    def make(task, *more):
        monkeypatch.setattr(TaskCLI, "alone", stop)
        with pytest.raises(MadeError) as caught:
            train(task, tmp_path / "run", *more)
        return caught.value.args[0]

    return make


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("silent", [False, True])
def test_a_bar_gives_way_where_nothing_is_to_be_shown(made, monkeypatch, task, silent):
    monkeypatch.setattr(run_callbacks, "silent", lambda: silent)
    monkeypatch.setattr(run_callbacks, "wanted", lambda _: False)
    trainer = made(task).trainer
    assert (trainer.progress_bar_callback is None) is silent
    assert sum(isinstance(each, ProgressLines) for each in trainer.callbacks) == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_started_once_and_precision_is_the_machines_where_it_is_null(
    made, train, monkeypatch, tmp_path, task
):
    monkeypatch.setattr("suisei.training.task_cli.best_precision", lambda: "bf16-mixed")
    cli = made(task, "--trainer.precision=null")
    assert cli.trainer.precision == "bf16-mixed"
    assert cli.trainer.default_root_dir == str(tmp_path / "run")
    assert cli.trainer.checkpoint_callback.filename == "best"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"holds a run already.*--ckpt_path last"):
        train(task, tmp_path / "run")


@pytest.mark.parametrize("task", ["pacs", "captioner", "self-critical"])
def test_a_further_process_does_not_mind_what_the_first_one_wrote(made, monkeypatch, tmp_path, task):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    monkeypatch.setattr(rank_zero_only, "rank", 0, raising=False)  # is put back
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert made(task, "--trainer.devices=2").folder == tmp_path / "run"


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2"}
SRUN = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
ONE_TASK = {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}


@pytest.fixture
def started_by(monkeypatch):
    """Let this process look as one that torchrun or SLURM started."""

    def put(variables):
        monkeypatch.setattr(rank_zero_only, "rank", 0, raising=False)  # is put back
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


@pytest.mark.parametrize("task", [*TASKS, "pretrain", "ratings"])
@pytest.mark.parametrize("variables", [TORCHRUN, {**SRUN, "SLURM_JOB_NAME": "train"}])
def test_processes_that_would_each_train_alone_in_one_folder_are_refused(
    train, started_by, tmp_path, task, variables
):
    started_by(variables)
    with pytest.raises(ConfigError, match=r"started 2 process.* ask for 1: give --trainer\.devices 2, or st"):
        train(task, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("variables", "devices", "advice"),
    [
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, 4, "devices 4 --trainer.num_nodes 2, or"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, 2, "devices 1, or start 2"),
        (ONE_TASK, 2, "devices 1, or start 2"),  # whose number of tasks Lightning takes
    ],
)
def test_more_or_fewer_processes_than_the_settings_ask_for_are_refused(
    train, started_by, tmp_path, variables, devices, advice
):
    started_by(variables)
    with pytest.raises(ConfigError, match=advice.replace(".", r"\.")):
        train("pacs", tmp_path / "run", f"--trainer.devices={devices}")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
        {**SRUN, "SLURM_JOB_NAME": "interactive"},
        {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0"},  # in a job without srun
    ],
)
def test_one_process_trains_wherever_it_was_started(made, started_by, monkeypatch, tmp_path, variables):
    started_by(variables)
    alone = TaskCLI.alone
    cli = made("pacs")
    monkeypatch.setattr(run_lock, "PATIENCE", 0.1)
    with alone(cli), pytest.raises(ConfigError, match="another training is writing"), alone(cli):
        pass


@pytest.mark.parametrize("task", TASKS)
def test_what_is_no_runs_is_not_overwritten(train, tmp_path, task):
    (tmp_path / "run" / "model").mkdir(parents=True)
    with pytest.raises(ConfigError, match="holds model, which is no run's and would be overwritten"):
        train(task, tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file; choose a folder"):
        train(task, tmp_path / "file")


@pytest.mark.parametrize(
    ("monitor", "mode"), [("val_loss", "min"), ("val_recall10", "max"), ("val_kendall", "max")]
)
def test_the_better_figure_is_kept_and_waited_for(tmp_path, monitor, mode):
    assert run_callbacks.best_checkpoint(tmp_path, monitor).mode == mode
    assert run_callbacks.early_stopping(monitor, 3).mode == mode


@pytest.mark.parametrize("task", ["pacs", "recap-mapper", "recap-latent"])
@pytest.mark.parametrize(("accumulated", "validations"), [(1, 3), (4, 12)])
def test_patience_is_counted_in_steps_of_however_many_batches(made, task, accumulated, validations):
    cli = made(
        task, "--patience_steps=300", "--trainer.val_check_interval=100",
        f"--trainer.accumulate_grad_batches={accumulated}",
    )  # fmt: skip
    assert cli.trainer.early_stopping_callback.patience == validations
