import socket

import pytest

from suisei.encoders import hub_errors
from suisei.encoders.hub_errors import explain_hub_error, hub_guard, is_hub_error
from suisei.errors import UnavailableError


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    def refuse(*_args, **_kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for variable in hub_errors._PROXIES:
        monkeypatch.delenv(variable, raising=False)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return constants


def test_one_line_names_the_model_and_the_cure():
    error = OSError("We couldn't connect\nCheck your connection")
    error.__cause__ = ConnectionError("no route")
    message = str(explain_hub_error("xlm-roberta-base", error))
    assert "\n" not in message
    for part in ("'xlm-roberta-base'", "local copy", "HF_HOME", "HF_HUB_OFFLINE", "cannot be reached"):
        assert part in message


def test_an_error_of_another_kind_keeps_its_reason():
    assert "bad header" in str(explain_hub_error("x", OSError("bad header\nmore")))


def test_a_folder_is_told_what_it_must_hold(tmp_path):
    message = str(explain_hub_error(str(tmp_path), ValueError("no tokenizer")))
    assert f"{tmp_path}: cannot be loaded (no tokenizer)" in message
    assert "files of its tokenizer" in message
    assert "HF_HOME" not in message


def test_network_errors_are_found_behind_other_errors():
    error = RuntimeError("Failed to download")
    error.__context__ = socket.gaierror(-2, "unknown")
    assert is_hub_error(error)
    assert not is_hub_error(OSError("disk full"))


def test_guard_looks_only_at_the_cache_without_a_network(no_network):
    from transformers import AutoConfig

    seen = []

    def load():
        with hub_guard("nobody/nothing"):
            seen.append(no_network.HF_HUB_OFFLINE)
            AutoConfig.from_pretrained("nobody/nothing")

    before = no_network.HF_HUB_OFFLINE
    with pytest.raises(UnavailableError, match="'nobody/nothing' is not in the local cache"):
        load()
    assert seen == [True]
    assert before == no_network.HF_HUB_OFFLINE


def test_guard_lets_other_errors_through(no_network):
    with pytest.raises(OSError, match="disk full"), hub_guard("x"):
        raise OSError("disk full")
