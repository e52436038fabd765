"""Metrics of other packages: found by what is installed, imported when asked for, never for a folder."""

import json
import os
import pickle
import subprocess
import sys

import pytest

from suisei.commands.metrics import list_rows
from suisei.errors import ConfigError, ModelError, UnavailableError
from suisei.metrics.extras import ExtraInputs, check_names
from suisei.metrics.plugins import offered
from suisei.metrics.registry import REGISTRY, canonical, get_entry, get_metric, list_metrics
from suisei.version import __version__

SOURCE = """
import numpy as np
from suisei.metrics.base import Metric
from suisei.metrics.registry import Entry

class Shouting(Metric):
    name = "shouting"

    def _score(self, samples, *, batch_size, progress):
        return np.array([float(sample.candidate.count("!")) for sample in samples])

ENTRY = Entry(f"{__name__}:Shouting", (), "exclamation marks", extra_input="alone")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package on the path that offers metrics, {name: "module:object"}."""

    def of(package, points, source=SOURCE):
        (tmp_path / f"{package}.py").write_text(source)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (folder / "entry_points.txt").write_text("[suisei.metrics]\n" + "\n".join(lines) + "\n")
        offered.cache_clear()
        return tmp_path

    monkeypatch.syspath_prepend(tmp_path)
    yield of
    offered.cache_clear()
    for module in ("loud", "other", "broken"):
        sys.modules.pop(module, None)


def test_a_metric_of_another_package_is_one_among_all(install):
    install("loud", {"shouting": "loud:ENTRY"})
    assert list_metrics() == [*REGISTRY, "shouting"]
    with pytest.raises(ConfigError, match="did you mean 'shouting'"):
        get_entry("shoutin")
    assert "loud" not in sys.modules  # a list of names imports nothing
    assert get_metric("Shouting").score(["a dog!!", "a dog"]).tolist() == [2, 0]
    row = list_rows()[-1]
    assert (row["name"], row["summary"], row["available"]) == ("shouting", "exclamation marks", True)


def test_its_signature_says_of_which_package_and_version_it_is(install):
    install("loud", {"shouting": "loud:ENTRY"})
    frozen = """
@__import__("dataclasses").dataclass(frozen=True)
class Frozen(Shouting):
    name = "frozen"

FROZEN = Entry(f"{__name__}:Frozen", (), "the same")
"""
    install("other", {"frozen": "other:FROZEN"}, source=SOURCE + frozen)
    assert get_metric("shouting").signature == f"shouting|loud:1.0|suisei:{__version__}"
    assert get_metric("frozen").signature == f"frozen|other:1.0|suisei:{__version__}"
    assert get_metric("length").package is None
    assert pickle.loads(pickle.dumps(get_metric("shouting"))).package == ("loud", "1.0")


def test_a_number_that_is_complex_is_no_score(install):
    install("loud", {"shouting": "loud:ENTRY"}, source=SOURCE.replace("samples])", "samples]) * 1j"))
    with pytest.raises(RuntimeError, match="shouting returned complex numbers"):
        get_metric("shouting").score(["a dog!"])


def test_the_command_and_its_processes_see_it(install, tmp_path):
    install("loud", {"shouting": "loud:ENTRY"})
    (tmp_path / "in.jsonl").write_text("".join(f'{{"candidate": "a dog{"!" * n}"}}\n' for n in range(3)))
    command = [sys.executable, "-m", "suisei", "score", "--metrics", "shouting", "--input", "in.jsonl"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = subprocess.run(
        [*command, "--processes", "2"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert [json.loads(line)["shouting"] for line in found.stdout.splitlines()] == [0, 1, 2]


def test_no_package_takes_the_place_of_a_metric_of_this_one(install):
    install("loud", {"length": "loud:ENTRY"})
    assert get_metric("length").name == "length"
    assert list_metrics() == list(REGISTRY)
    assert "loud" not in sys.modules


def test_a_broken_package_is_named_and_leaves_the_others(install):
    install("loud", {"shouting": "loud:ENTRY", "silent": "loud:ABSENT", "a-class": "loud:Shouting"})
    install("broken", {"cracked": "broken:ENTRY"}, source="raise RuntimeError('no licence')\n")
    with pytest.raises(UnavailableError, match=r"'cracked'.*package broken 1\.0.*RuntimeError: no licence"):
        get_metric("cracked")
    with pytest.raises(UnavailableError, match=r"'silent': loud:ABSENT of package loud 1\.0"):
        get_metric("silent")
    with pytest.raises(ConfigError, match=r"package loud 1\.0 offers .*expected an Entry"):
        get_metric("a-class")
    rows = {row["name"]: row for row in list_rows()}
    assert rows["cracked"]["available"] is False
    assert "package broken 1.0" in rows["cracked"]["reason"]
    assert rows["shouting"]["available"] is True


def test_a_target_that_is_not_there_is_named(install):
    install("loud", {"shouting": "loud:ENTRY"}, source=SOURCE.replace(":Shouting", ":Whispering"))
    with pytest.raises(UnavailableError, match=r"loud:Whispering cannot be imported"):
        get_metric("shouting")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((":Shouting", ":np"), "loud:np is no class or function, but module"),
        ((":Shouting", ":three"), "loud:three cannot be imported: RuntimeError: no licence"),
        (('"exclamation marks"', '"exclamation marks", modules=("absent.part",)'), "needs absent.part"),
    ],
)
def test_what_is_wrong_with_an_entry_is_told_and_costs_no_other_metric(install, change, told):
    late = "\ndef __getattr__(name):\n    raise RuntimeError('no licence')\n"
    install("loud", {"shouting": "loud:ENTRY"}, source=SOURCE.replace(*change) + late)
    with pytest.raises(UnavailableError, match=told):
        get_metric("shouting")
    assert {row["name"] for row in list_rows()} == {*REGISTRY, "shouting"}


def test_names_are_those_of_the_metrics_here_however_they_are_written(install):
    install("loud", {"CIDEr": "loud:ENTRY", "my_own": "loud:ENTRY", "my-own": "loud:ENTRY"})
    assert list_metrics() == [*REGISTRY, "my-own", "my_own"]
    assert [canonical(name) for name in ("CIDEr", "my_own", "My_Own")] == ["cider", "my_own", "my-own"]


def test_two_packages_at_odds_are_both_named(install):
    install("loud", {"shouting": "loud:ENTRY"})
    install("other", {"shouting": "other:ENTRY"})
    with pytest.raises(ConfigError, match=r"package loud 1\.0 and by package other 1\.0"):
        get_metric("shouting")


def test_no_model_folder_has_a_package_imported(install):
    install("loud", {"shouting": "loud:ENTRY"})
    with pytest.raises(ModelError, match="'shouting' is none that a model folder may name"):
        check_names(["shouting"])
    assert "loud" not in sys.modules
    with pytest.raises(ConfigError, match="'shouting' cannot go into a model folder"):
        ExtraInputs(["shouting"])


def test_who_has_a_metric_of_his_own_is_told_how():
    with pytest.raises(ConfigError, match=r"entry point suisei\.metrics"):
        get_metric("mymetric:Recall")
