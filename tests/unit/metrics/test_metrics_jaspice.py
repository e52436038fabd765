import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.jaspice import START, JaSpice


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((self.path, body))
        status, answer = self.server.reply(body, len(self.server.bodies))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_args):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.bodies = []
        server.reply = lambda body, _count: (
            200,
            json.dumps([len(c) / 100 for c in body["candidates"]]).encode(),
        )
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


SAMPLES = [CaptionSample("猫" * n, ("犬'が走る", "猫")) for n in range(1, 6)]


def test_scores_come_in_order_over_several_requests(server):
    scores = JaSpice(server.address).score(SAMPLES, batch_size=2)
    np.testing.assert_allclose(scores, [0.01, 0.02, 0.03, 0.04, 0.05])
    assert [len(body["candidates"]) for _, body in server.bodies] == [2, 2, 1]
    assert server.bodies[0][1] == {"references": [["犬'が走る", "猫"]] * 2, "candidates": ["猫", "猫猫"]}
    assert server.bodies[0][0] in {"", "/"}


def test_a_sample_without_references_is_not_sent(server):
    scores = JaSpice(server.address).score([CaptionSample("猫"), SAMPLES[0]])
    assert np.isnan(scores[0])
    assert scores[1] == pytest.approx(0.01)


def test_an_english_sample_is_not_sent(server):
    samples = [CaptionSample("a cat", ("a cat",)), SAMPLES[0]]
    metric = JaSpice(server.address)
    assert metric.missing(samples) == {0: "jaspice reads Japanese only"}
    np.testing.assert_allclose(metric.score(samples), [np.nan, 0.01])
    assert [body["candidates"] for _, body in server.bodies] == [["猫"]]


def test_a_passing_failure_is_retried(server):
    good = server.reply
    server.reply = lambda body, count: (503, b"busy") if count == 1 else good(body, count)
    assert JaSpice(server.address, pause=0).score(SAMPLES[:1])[0] == pytest.approx(0.01)
    assert len(server.bodies) == 2


def test_a_rejected_request_is_not_repeated(server):
    server.reply = lambda _body, _count: (422, b"no such field")
    with pytest.raises(UnavailableError, match=r"status 422 .*no such field"):
        JaSpice(server.address, pause=0).score(SAMPLES)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"[0.1]", "1 scores for 5 captions"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"mean": 1}', "list of finite numbers"),
        (b"[NaN, 0, 0, 0, 0]", "list of finite numbers"),
        (b'["0.1", 0, 0, 0, 0]', "list of finite numbers"),
    ],
)
def test_an_answer_of_another_form_is_shown(server, answer, message):
    server.reply = lambda _body, _count: (200, answer)
    with pytest.raises(UnavailableError, match=message):
        JaSpice(server.address).score(SAMPLES)


def test_an_absent_server_is_named_with_the_cure(server):
    server.shutdown()
    server.server_close()
    with pytest.raises(
        UnavailableError,
        match=rf"{server.address} does not answer .*keio-smilab23/JaSPICE .*{START}.*jaspice:http",
    ):
        JaSpice(server.address, retries=1, pause=0, timeout=5).score(SAMPLES)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "localhost:2115", "http://", "ftp://host"])
def test_only_http_addresses(address):
    with pytest.raises(ConfigError, match="expected http"):
        JaSpice(address)
