"""What a visitor may have the page read, asked of its endpoints."""

import base64
import json
import os
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
from PIL import Image

import suisei
from suisei.commands.demo import HERE, temporary_uploads
from suisei.data.sample import CaptionSample
from suisei.demo.panels import explanation_panel
from suisei.demo.scoreboard import Scoreboard
from suisei.demo.webpage import examples, launch_settings, make_page

META = {"_type": "gradio.FileData"}
LIMIT = 2**20


class Visitor:
    """Asks the page as a browser does."""

    def __init__(self, address, folder):
        self.address, self.folder = address, folder

    def post(self, path, body, kind="application/json"):
        """Return the status and the text of an answer."""
        request = urllib.request.Request(self.address + path, body, {"Content-Type": kind})
        return self._answer(request)

    def get(self, path):
        return self._answer(self.address + path)

    def call(self, endpoint, *data):
        """Return the answer to a refused call, or (event, data) of one that was run."""
        status, text = self.post(f"gradio_api/call/{endpoint}", json.dumps({"data": data}).encode())
        if status != 200:
            return status, text
        _, events = self.get(f"gradio_api/call/{endpoint}/{json.loads(text)['event_id']}")
        event, data = (line.partition(": ")[2] for line in events.strip().splitlines()[-2:])
        return event, json.loads(data)

    def upload(self, name, content):
        """Return an uploaded file, as Gradio's client names it; the status and the text if it is refused."""
        status, text = self.send(part(content, f'name="files"; filename="{name}"'))
        return {"path": json.loads(text)[0], "meta": META} if status == 200 else (status, text)

    def send(self, *parts):
        """Return the status and the text of the answer to a form's parts."""
        body = b"".join(parts) + b"--end--\r\n"
        return self.post("gradio_api/upload", body, "multipart/form-data; boundary=end")

    @staticmethod
    def _answer(request):
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


def part(content, disposition):
    """Return a part of a form."""
    return f"--end\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


@pytest.fixture(scope="module")
def metric():
    """The model in the package, which sees colours."""
    return suisei.get_metric("suisei", device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def visitor(metric):
    gradio = pytest.importorskip("gradio", reason="needs the extra demo")
    with temporary_uploads() as folder:
        page = make_page(Scoreboard({"suisei": metric}))
        settings = launch_settings(gradio, host=HERE, port=None, megabytes=1, folder=folder)
        _, address, _ = page.launch(prevent_thread_lock=True, **settings)
        yield Visitor(address, folder)
        page.close()


def refused(answer):
    return answer[0] == 403 and "only files that were uploaded" in answer[1]


def test_an_upload_is_scored_from_its_own_bytes(visitor, metric, pictures):
    image = visitor.upload("a dog.png", pictures[0].read_bytes())
    assert Path(image["path"]).read_bytes() == pictures[0].read_bytes()
    event, (scores,) = visitor.call("score", "a dog", "", image)
    expected = metric.score(["a dog"], images=[str(pictures[0])])[0]
    assert event == "complete"
    assert f'"value">{expected:.3f}<' in scores


@pytest.mark.parametrize("mode", ["RGBA", "I;16", "CMYK"])
def test_colours_are_read_as_the_command_reads_them(visitor, metric, mode, tmp_path):
    down = Image.linear_gradient("L")
    colours = Image.merge("RGB", [down, down.rotate(90), down.rotate(180)])
    path = tmp_path / "image.tif"
    if mode == "RGBA":
        colours.putalpha(down.rotate(270))
        colours.save(path)
    elif mode == "I;16":
        Image.fromarray(np.asarray(down, np.uint16) * 256).save(path)
    else:
        colours.convert(mode).save(path)
    assert Image.open(path).mode == mode
    given = ["a dog", "", visitor.upload(path.name, path.read_bytes())]
    _, (scores,) = visitor.call("score", *given)
    _, (reasons,) = visitor.call("explain", *given)
    explanation = metric.explain(CaptionSample("a dog", image=str(path)))
    assert f'"value">{explanation.score:.3f}<' in scores
    assert reasons == explanation_panel(explanation)


def test_a_file_that_is_no_image_is_told_by_its_name(visitor):
    event, said = visitor.call("score", "a dog", "", visitor.upload("dog.png", b"no image"))
    assert event == "error"
    assert said["error"].startswith("dog.png: not an image that can be read")


def test_what_a_visitor_wrote_is_text_in_a_message(visitor):
    rows = visitor.upload("rows.csv", b"foo<b>,<img src=x>\n1,2\n")
    event, said = visitor.call("score_file", rows)
    assert event == "error"
    assert "no column 'candidate'; the columns are foo&lt;b&gt;, &lt;img src=x&gt;." in said["error"]


def test_a_visitor_who_chose_no_file_is_told_so_without_a_traceback(visitor, capfd):
    _, said = visitor.call("score_file", None)
    assert said["error"] == "Choose a file first."
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("image", [{}, {"url": "a.png"}])
def test_an_image_that_is_no_upload_is_told_without_a_traceback(visitor, image, capfd):
    event, said = visitor.call("score", "a dog", "", image)
    assert event == "error"
    assert said["error"] == "the image must be uploaded to this page"
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("endpoint", "given"),
    [
        ("score_file", ["/no/upload"]),
        ("score_file", [{}]),
        ("score", ["a dog", "", "/no/upload"]),
        ("score", ["/no/upload"]),
        ("load_example", ["/no/upload"]),
    ],
)
def test_a_request_of_another_form_is_refused_in_one_line_and_not_printed(visitor, endpoint, given, capfd):
    event, said = visitor.call(endpoint, *given)
    assert event == "error"
    assert said["error"].startswith("the request does not have the form that the page reads")
    printed = capfd.readouterr()
    assert "/no/upload" not in printed.out + printed.err
    assert "Traceback" not in printed.err


def test_words_that_are_no_text_are_read_as_text(visitor, metric):
    event, (scores,) = visitor.call("score", 5, 5, None)
    assert event == "complete"
    assert f'"value">{metric.score(["5"], [["5"]])[0]:.3f}<' in scores


def test_an_example_is_scored(visitor, metric):
    _, config = visitor.get("config")
    example = next(entry for entry in json.loads(config)["dependencies"] if "example" in entry["api_name"])
    _, updates = visitor.call(example["api_name"], 2)
    caption, references, image = (update["value"] for update in updates)
    given, lines, picture = examples()[2]
    assert (caption, references) == (given, lines)
    event, (scores,) = visitor.call("score", caption, references, image)
    expected = metric.score([given], [lines.splitlines()], [picture])[0]
    assert event == "complete"
    assert f'"value">{expected:.3f}<' in scores


@pytest.mark.parametrize("meta", [{}, {"meta": META}], ids=["without meta", "with meta"])
def test_a_file_that_was_not_uploaded_is_refused_whether_it_is_there_or_not(
    visitor, pictures, meta, tmp_path
):
    link = Path(visitor.folder, f"link {len(meta)}.png")
    link.symlink_to(pictures[0])
    elsewhere = [pictures[0], tmp_path / "missing.png", "/etc/hostname", link, "", "a\0.png"]
    elsewhere.append(f"{visitor.folder}/{os.path.relpath(pictures[0], visitor.folder)}")
    answers = [visitor.call("score", "a dog", "", {"path": str(path), **meta}) for path in elsewhere]
    answers.append(visitor.call("score_file", {"path": str(tmp_path / "rows.csv"), **meta}))
    assert all(map(refused, answers))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("address", ["http://192.0.2.1/x.png", "https://huggingface.co/x.csv", "HTTP://a.b/"])
def test_nothing_is_fetched_for_a_visitor(visitor, address, monkeypatch):
    from gradio import processing_utils

    fetched = []
    monkeypatch.setattr(processing_utils, "async_ssrf_protected_get", fetched.append)
    file = {"path": address, "meta": META}
    assert refused(visitor.call("score", "a dog", "", file))
    assert refused(visitor.call("score", "a dog", file, None))  # Gradio fetches for a text, too
    assert refused(visitor.call("score", "a dog", "", [{"in": file}]))
    assert refused(visitor.call("score_file", file))
    assert refused(visitor.get(f"gradio_api/file={address}"))
    assert refused(visitor.get(f"gradio_api/file/{address}"))
    assert fetched == []


def test_uploads_are_limited_in_every_way(visitor, pictures):
    assert visitor.upload("x.csv", b"x" * (LIMIT - 1))["path"]
    assert visitor.upload("x.csv", b"x" * (LIMIT + 1))[0] == 413
    image = f"data:image/png;base64,{base64.b64encode(pictures[0].read_bytes()).decode()}"
    assert refused(visitor.call("score", "a dog", "", {"url": image}))
    assert refused(visitor.call("score", "a dog", "", {"path": "x", "url": image, "meta": META}))
    assert visitor.call("score", "a dog", "x" * LIMIT, None)[0] == 413


@pytest.mark.parametrize("kind", ['name="files"; filename="x.csv"', 'name="x"'], ids=["file", "field"])
def test_an_upload_is_limited_whatever_its_parts_are(visitor, kind):
    def lying():
        return {path for path in Path(visitor.folder).rglob("*") if path.is_file()}

    before = lying()
    half = part(b"y" * (LIMIT // 2), kind)
    status, text = visitor.send(half, half, half)
    assert status == 413
    assert "maximum allowed size of 1,064,960 bytes" in text
    assert lying() == before
    assert visitor.send(part(b"z" * (LIMIT // 4), kind), part(b"z" * (LIMIT // 4), kind))[0] == 200


def test_a_file_of_another_kind_is_told_without_a_traceback(visitor, capfd):
    event, said = visitor.call("score_file", visitor.upload("captions.txt", b"a dog\n"))
    assert event == "error"
    assert said["error"] == "captions.txt: the page reads .jsonl, .csv, .tsv"
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_is_scored_and_the_table_can_be_had(visitor, metric):
    rows = visitor.upload("a.csv", b"candidate,reference_1\na dog,a cat\n")
    event, (said, _, download) = visitor.call("score_file", rows)
    assert (event, said) == ("complete", "1 row")
    status, table = visitor.get(f"gradio_api/file={download['value']['path']}")
    assert status == 200
    assert f"{metric.score(['a dog'], [['a cat']])[0]:.6f}".rstrip("0") in table


def test_a_request_that_is_no_json_or_deep_is_answered(visitor):
    assert visitor.post("gradio_api/call/score", b"{")[0] == 422
    assert visitor.post("gradio_api/call/score", b"[" * 100_000)[0] in (403, 422)
