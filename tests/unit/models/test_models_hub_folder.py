"""Models by their name on the hub, against a hub that is a folder of this machine."""

import inspect
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled, RepositoryNotFoundError

import suisei
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, ModelError, UnavailableError
from suisei.metrics.extras import ExtraInputs, check_names
from suisei.models.folder import load_model, save_model, save_pair
from suisei.models.hub_folder import is_hub_name, push_model
from suisei.models.second import Second, Weighing

COMMIT = "0123456789abcdef0123456789abcdef01234567"


REAL = huggingface_hub.HfApi


def check_call(method, *given, **settings):
    """Fail where the real client would not take a call."""
    inspect.signature(getattr(REAL, method)).bind(None, *given, **settings)


class FakeHub:
    """What of huggingface_hub is used, over the folder ``files``; the cache is laid out as the real one."""

    def __init__(self, root: Path) -> None:
        self.files, self.cache, self.asked, self.calls = root / "hub", root / "cache", [], []
        self.offline = False

    def hf_hub_download(self, name, file, *, revision=None):
        check_call("hf_hub_download", name, file, revision=revision)
        self.asked.append((name, file, revision))
        repository = self.cache / f"models--{name.replace('/', '--')}"
        cached = repository / "snapshots" / COMMIT / file
        if cached.exists():
            return str(cached)
        if self.offline:
            raise LocalEntryNotFoundError("not in the cache")
        if not (self.files / name).is_dir():
            raise RepositoryNotFoundError("404", response=SimpleNamespace(headers={}, request=None))
        blob = repository / "blobs" / file.replace("/", "-")
        for path in (blob, cached):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.files / name / file, blob)
        cached.symlink_to(blob)
        return str(cached)

    def create_repo(self, name, **settings):
        check_call("create_repo", name, **settings)
        self.calls.append(("create_repo", name, settings))
        (self.files / name).mkdir(parents=True, exist_ok=True)

    def create_branch(self, name, **settings):
        check_call("create_branch", name, **settings)
        self.calls.append(("create_branch", name, settings))

    def list_repo_files(self, name, **settings):
        check_call("list_repo_files", name, **settings)
        return [
            p.relative_to(self.files / name).as_posix() for p in (self.files / name).rglob("*") if p.is_file()
        ]

    def create_commit(self, name, operations, **settings):
        check_call("create_commit", name, operations, **settings)
        commit_message, revision = settings["commit_message"], settings["revision"]
        self.calls.append(("create_commit", name, commit_message, revision))
        for operation in operations:
            target = self.files / name / operation.path_in_repo
            if isinstance(operation, huggingface_hub.CommitOperationDelete):
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with operation.as_file() as stream:
                target.write_bytes(stream.read())
        return type("Done", (), {"commit_url": f"https://hub/{name}/commit/1"})


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.hf_hub_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **_: fake)
    monkeypatch.setattr("suisei.encoders.hub_errors._reachable", lambda _: True)
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def published(hub, model_folder):
    """The model folder on the fake hub, beside files that are nobody's business."""
    folder = hub.files / "org" / "metric"
    shutil.copytree(model_folder, folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps("never read"))
    (folder / "handler.py").write_text("raise SystemExit('never run')")
    return folder


def score(metric):
    return metric.score(["a dog", "犬"], [["two dogs"], ["犬が走る"]]).tolist()


def test_a_name_gives_what_the_folder_gives(published, hub, model_folder):
    metric = suisei.load("org/metric", device="cpu", revision="v1")
    assert score(metric) == score(suisei.load(model_folder, device="cpu"))
    assert metric.signature == suisei.load(model_folder, device="cpu").signature
    assert hub.asked[0] == ("org/metric", "config.json", "v1")
    assert {revision for _, _, revision in hub.asked[1:]} == {COMMIT}
    listed = json.loads((model_folder / "config.json").read_text())["sha256"]
    assert {file for _, file, _ in hub.asked} == set(listed)
    assert score(suisei.get_metric("suisei:org/metric", device="cpu")) == score(metric)


def test_long_lists_of_texts_come_along(hub, build_regressor, captions, tmp_path):
    extras = ExtraInputs(["cider"])
    extras.fit([CaptionSample(text, [captions[0], text]) for text in captions])
    save_model(hub.files / "org" / "texts", build_regressor(extra_inputs=["cider"]), extras=extras.state())
    assert (hub.files / "org" / "texts" / "extras.txt").is_file()
    metric = suisei.load("org/texts", device="cpu")
    assert score(metric) == score(suisei.load(hub.files / "org" / "texts", device="cpu"))


def test_the_cache_is_enough_without_a_connection(published, hub):
    expected = score(suisei.load("org/metric", device="cpu"))
    shutil.rmtree(published)
    hub.offline = True
    assert score(suisei.load("org/metric", device="cpu")) == expected


def test_out_of_reach_is_one_clear_line(hub):
    hub.offline = True
    with pytest.raises(UnavailableError) as caught:
        suisei.load("org/metric")
    assert "'org/metric' is not in the local cache, and the Hugging Face hub cannot be reached" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)
    hub.offline = False
    with pytest.raises(UnavailableError, match="neither a local folder nor a public model on the hub"):
        suisei.load("org/metric")


def test_second_models_are_fetched_with_the_first(published, hub, model_folder):
    own = load_model(model_folder, check_names)
    one = Second(Weighing(("en",), 0.5), model_folder, None, own.checksum)
    save_pair(hub.cache.parent / "one", own, one)
    first = load_model(hub.cache.parent / "one", check_names)
    save_pair(published, first, replace(one, weighing=Weighing(("ja",), 0.3)))
    metric, here = suisei.load("org/metric", device="cpu"), suisei.load(published, device="cpu")
    assert score(metric) == score(here)
    assert {"second/config.json", "second-2/config.json"} <= {file for _, file, _ in hub.asked}
    assert metric.signature == here.signature


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_model.bin",
        "tokenizer/code.py",
        "../other",
        "extras/x/weights.pkl",
        "tokenizer/.hidden.json",
        "second/code.py",
        "second-3/config.json",
        "second/second/model.safetensors",
        "third/model.safetensors",
        "second/../config.json",
    ],
)
def test_other_files_are_neither_fetched_nor_read(published, hub, resign, name):
    resign(published, lambda config: config["sha256"].update({name: "0" * 64}))
    with pytest.raises(ModelError, match=r"config\.json names .*, which is no file of a model folder"):
        suisei.load("org/metric")
    assert [file for _, file, _ in hub.asked] == ["config.json"]


def test_an_altered_file_and_another_kind_of_model_are_named(published, hub):
    (published / "idf.json").write_text("{}")
    with pytest.raises(ModelError, match=r"idf\.json was altered"):
        suisei.load("org/metric")
    shutil.rmtree(hub.cache)
    (published / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"config\.json: lacks format"):
        suisei.load("org/metric")


def test_links_out_of_the_cache_of_the_model_are_refused(published, hub, tmp_path):
    suisei.load("org/metric", device="cpu")
    [link] = hub.cache.rglob("snapshots/*/idf.json")
    shutil.copyfile(published / "idf.json", tmp_path / "elsewhere.json")
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ModelError, match="leads out of the folder"):
        suisei.load("org/metric")


def test_folders_come_before_names(published, hub, model_folder, tmp_path):
    shutil.copytree(model_folder, tmp_path / "org" / "metric")
    suisei.load("org/metric", device="cpu")
    assert hub.asked == []
    with pytest.raises(ConfigError, match="revision 'v1' is for a model on the hub"):
        suisei.load("org/metric", revision="v1")
    assert not any(
        is_hub_name(name) for name in ("model", "./a/b", "/a/b", "a/b/c", "a\\b", "a/b ", Path("a/b"))
    )


def test_pushing_replaces_an_older_model(hub, model_folder):
    old = hub.files / "org" / "metric"
    (old / "extras").mkdir(parents=True)
    for name in ("extras.json", "extras.txt", "extras.safetensors", "notes.md"):
        (old / name).write_text("old")
    address = push_model(model_folder, "org/metric", "# Card\n", private=True, revision="next")
    assert address == "https://hub/org/metric/commit/1"
    assert hub.calls[0] == ("create_repo", "org/metric", {"private": True, "exist_ok": True})
    assert hub.calls[1][:2] == ("create_branch", "org/metric")
    assert hub.calls[2][3] == "next"
    kept = set(json.loads((model_folder / "config.json").read_text())["sha256"])
    assert set(hub.list_repo_files("org/metric")) == {*kept, "README.md", "notes.md"}
    assert (old / "README.md").read_text() == "# Card\n"
    assert score(suisei.load("org/metric", device="cpu")) == score(suisei.load(model_folder, device="cpu"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OfflineModeIsEnabled("offline"), "cannot be reached; --dry-run"),
        (huggingface_hub.errors.LocalTokenNotFoundError("no token"), "log in with a token"),
        (huggingface_hub.errors.HFValidationError("bad\nname"), "bad name"),
        (huggingface_hub.errors.HFValidationError(), "cannot be written to: HFValidationError"),
    ],
)
def test_what_stops_a_push_is_one_line(hub, model_folder, monkeypatch, error, said):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(hub, "create_repo", refuse)
    with pytest.raises(UnavailableError, match=said) as caught:
        push_model(model_folder, "org/metric", "# Card\n")
    assert str(caught.value).startswith("org/metric cannot be written to: ")
    assert "\n" not in str(caught.value)
