"""The page's settings, and the page clicked through in a browser."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import suisei
from suisei.commands.demo import HERE, temporary_uploads
from suisei.demo.panels import EMPTY
from suisei.demo.webpage import examples, launch_settings, load_gradio, make_page
from suisei.errors import UnavailableError
from suisei.explain import leave_out

CHROMIUM = Path("/usr/bin/chromium")


def test_uploads_lie_in_a_folder_that_goes(monkeypatch):
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "True")
    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
    with temporary_uploads() as folder:
        assert os.environ["GRADIO_TEMP_DIR"] == folder
        assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
        Path(folder, "upload.png").write_bytes(b"x")
    assert not Path(folder).exists()
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "True"
    assert "GRADIO_TEMP_DIR" not in os.environ


def test_examples_are_in_both_languages_and_their_images_exist():
    captions, references, images = zip(*examples(), strict=True)
    assert [suisei.data.sample.detect_language(caption) for caption in captions] == ["en", "en", "ja", "ja"]
    assert all(Path(image).is_file() for image in images)
    assert all(len(text.splitlines()) > 1 for text in references)


def test_without_gradio_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(UnavailableError, match=r"pip install 'suisei\[demo\]'"):
        load_gradio()


def test_the_page_is_closed_unless_told_otherwise():
    gradio = pytest.importorskip("gradio", reason="needs the extra demo")
    settings = launch_settings(gradio, host=HERE, port=None, megabytes=10, folder="uploads")
    assert (settings["server_name"], settings["share"]) == ("127.0.0.1", False)
    assert settings["max_file_size"] == 10 * 1024 * 1024
    assert [settings[name] for name in ("mcp_server", "enable_monitoring", "run_history")] == [False] * 3
    assert "fonts.googleapis" not in str(settings["theme"]._font_css)
    with temporary_uploads():
        page = make_page(suisei.demo.scoreboard.Scoreboard({"rouge-l": suisei.get_metric("rouge-l")}))
    assert page.analytics_enabled is False
    assert page.delete_cache is not None


def test_a_file_that_is_scored_again_is_still_the_one_that_was_given(tmp_path):
    pytest.importorskip("gradio", reason="needs the extra demo")
    with temporary_uploads():
        page = make_page(suisei.demo.scoreboard.Scoreboard({"rouge-l": suisei.get_metric("rouge-l")}))
    (score,) = [each.fn for each in page.fns.values() if each.api_name == "score_file"]
    given = tmp_path / "scores.csv"
    given.write_text("candidate,reference_1\na dog,a dog\n")
    first, second = (score({"path": str(given)})[1].value for _ in range(2))
    assert first["data"] == second["data"] != []


def functions_of(labels):
    """The page's functions: what scores, what explains, and all."""
    pytest.importorskip("gradio", reason="needs the extra demo")
    with temporary_uploads():
        page = make_page(
            suisei.demo.scoreboard.Scoreboard({each: suisei.get_metric(each) for each in labels})
        )
    named = {each.api_name: each for each in page.fns.values()}
    return named["score"], named["explain"], list(page.fns.values())


def test_scores_go_when_what_they_belong_to_changes_or_is_asked_anew():
    score, explain, functions = functions_of(["rouge-l"])
    emptied = [each for each in functions if each.js == f"() => {json.dumps([EMPTY, ''])}"]
    asked, changed = emptied
    assert asked.targets == score.targets  # so that what fails leaves nothing of the inputs before
    assert {kind for _, kind in asked.targets} == {"click", "submit"}
    assert set(changed.targets) == {(each._id, "change") for each in score.inputs}
    cancelled = [each.targets for each in functions if set(each.cancels) == {score._id, explain._id}]
    assert cancelled == [changed.targets]  # what is still computed does not come later
    assert all(each.outputs == [*score.outputs, *explain.outputs] for each in emptied)
    # Gradio takes what is cancelled for failed, some time later, when newer scores may be there
    assert not any(each.trigger_only_on_failure for each in functions)


def test_scores_do_not_wait_for_reasons(monkeypatch):
    score, explain, _ = functions_of(["rouge-l", "length"])
    assert (explain.trigger_after, explain.trigger_only_on_success) == (score._id, True)
    assert explain.concurrency_id != score.concurrency_id  # nobody's scores wait for another's reasons
    *_, reasons = explain.fn("a dog runs", "a dog", None)
    assert "Why" in reasons
    assert list(explain.fn("a dog runs", "", None)) == [""]  # rouge-l has no score
    monkeypatch.setattr(leave_out, "explain_in_steps", lambda *_: pytest.fail("explained"))
    assert "row first" in score.fn("a dog runs", "a dog", None)


def test_reasons_that_nobody_waits_for_are_sought_no_longer(monkeypatch):
    _, explain, _ = functions_of(["rouge-l"])
    assert explain.types_generator  # so Gradio stops between two steps
    scored = []
    real = suisei.metrics.base.Metric.score
    monkeypatch.setattr(
        suisei.metrics.base.Metric, "score", lambda *a, **k: scored.append(len(a[1])) or real(*a, **k)
    )
    caption = " ".join(f"dog{number}" for number in range(150))
    steps = explain.fn(caption, "a dog", None)
    assert [next(steps), next(steps)] == [load_gradio().skip()] * 2
    steps.close()
    assert scored == [64]
    *_, reasons = explain.fn(caption, "a dog", None)
    assert "Why" in reasons
    assert scored[1:] == [64, 64, 26]  # the words, all, and what says of the reference


@pytest.fixture
def running(model_folder, tmp_path):
    """The command, running: its process and its port."""
    pytest.importorskip("gradio", reason="needs the extra demo")
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    arguments = [
        "demo",
        "--metrics",
        f"suisei:{model_folder},rouge-l,chrf",
        "--port",
        str(port),
        "--max-upload",
        "1",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "SUISEI_PRECISION": "fp32", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "suisei", *arguments, "--device", "cpu"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert f"http://{HERE}:{port}/" in process.stdout.readline()
        yield process, port
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_ends_the_page_well_and_leaves_nothing(running, tmp_path):
    process, _ = running
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert list(tmp_path.glob("suisei-demo-*")) == []


@pytest.fixture
def browser():
    """A Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.mark.slow
def test_clicked_through_in_a_browser(running, browser, model_folder, tmp_path):
    process, port = running
    metric = suisei.load(model_folder, device="cpu", precision="fp32")
    page = browser.new_page()
    page.set_default_timeout(400_000)  # a machine may be busy with other things
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))  # of data: it is empty
    page.goto(f"http://{HERE}:{port}/")
    caption, references, image = examples()[2]  # Japanese
    page.locator("tbody tr").nth(2).click()
    page.wait_for_function("text => document.querySelector('textarea').value == text", arg=caption)
    page.get_by_role("button", name="Score", exact=True).click()
    page.wait_for_selector(".sui .words")
    expected = metric.score([caption], [references.splitlines()], [image])[0]
    assert page.locator(".row.first .value").inner_text() == f"{expected:.3f}"
    assert page.locator(".sui .row .name").all_inner_texts() == ["suisei", "rouge-l", "chrf"]
    assert page.locator(".sui .words").inner_text() == caption
    assert "the image" in page.locator(".sui table").first.inner_text()

    page.get_by_role("button", name="Clear").click()
    page.get_by_text("Scores appear here.").wait_for()
    assert page.locator(".sui .words").count() == 0
    page.get_by_label("Caption", exact=True).fill("<b>a dog</b>")
    page.get_by_role("button", name="Score", exact=True).click()
    alone = metric.score(["<b>a dog</b>"])[0]
    page.locator(".row.first .value", has_text=f"{alone:.3f}").wait_for()
    assert page.locator(".sui .row .hint").all_inner_texts() == ["no references", "no references"]
    page.get_by_label("Caption", exact=True).fill("")
    page.get_by_role("button", name="Score", exact=True).click()
    page.get_by_text("candidate is empty").wait_for()
    assert page.locator(".row.first").count() == 0

    large = {"name": "large.csv", "mimeType": "text/csv", "buffer": b"candidate\n" * 110_000}  # 1.1 MB
    address = f"http://{HERE}:{port}/gradio_api/upload"
    assert page.request.post(address, multipart={"files": large}).status == 413
    _score_files(page, metric, tmp_path)
    assert hosts <= {f"{HERE}:{port}", ""}
    _refuses_others(port)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert list(tmp_path.glob("suisei-demo-*")) == []


def _score_files(page, metric, folder):
    rows = [
        {"candidate": "a dog runs", "references": ["a dog"]},
        {"candidate": "猫", "image": "/etc/hostname"},
    ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page.get_by_role("tab", name="A file of captions").click()
    upload = page.locator("input[type=file]").last
    upload.set_input_files(folder / "captions.jsonl")
    page.get_by_text("captions.jsonl").first.wait_for()
    page.get_by_role("button", name="Score the file").click()
    page.get_by_text("2 rows").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download all rows").click()
    text = Path(download.value.path()).read_text(encoding="utf-8-sig")
    first, second = metric.score(["a dog runs", "猫"], [["a dog"], []])
    lines = text.splitlines()
    assert lines[0] == "id,caption,suisei,rouge-l,chrf,note"
    for line, start, score in zip(
        lines[1:], (["1", "a dog runs"], ["2", "猫"]), (first, second), strict=True
    ):
        cells = line.split(",")
        assert cells[:2] == start
        assert float(cells[2]) == pytest.approx(score, abs=1e-4)


def _refuses_others(port):
    """An address of this machine that others see is not answered."""
    own = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own - {HERE}:
        if not address.startswith("127."):
            with pytest.raises(OSError, match=r"refused|unreachable"):
                socket.create_connection((address, port), timeout=5)
