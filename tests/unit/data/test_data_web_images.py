"""Images on the web: only when asked for, within limits, and never from machines that are not public."""

import io
import json
import pickle
import socket
import threading
import time
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from suisei.__main__ import main
from suisei.data import web_images, web_requests
from suisei.data.file_rows import Row
from suisei.data.formats import iter_rows, read_samples
from suisei.data.paths import Allowed, FetchedImage
from suisei.data.web_requests import Limits, checked_address, fetch, is_public
from suisei.errors import DataError
from suisei.scoring.digest import row_digest
from tests.unit.data.answers import Answers, picture

WEB = Allowed(web=True)


@pytest.fixture(scope="module")
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def web(server, tmp_path, monkeypatch):
    """Stands for http://pictures.test: our server, whose address alone is taken for a public one."""
    here = server.server_address[:2]

    def look_up(host, port, **_):
        names = {"pictures.test": here[0], "home.test": "10.1.2.3", "127.0.0.2": "127.0.0.2"}
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (names[host], here[1]))]

    Answers.asked.clear()
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(web_requests, "is_public", lambda address: address == here[0])
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "web").mkdir()
    own = web_images.Fetcher(tmp_path / "web")
    monkeypatch.setattr(web_images, "fetcher", lambda: own)
    return "http://pictures.test"


def rows_of(folder, *images, **columns):
    path = folder / "rows.jsonl"
    rows = [{"candidate": f"a dog {n}", "image": image, **columns} for n, image in enumerate(images)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fetched(address, **limits):
    stream = io.BytesIO()
    fetch(address, stream, Limits(**{"size": 100_000, "seconds": 10, **limits}))
    return stream.getvalue()


def test_images_are_fetched_where_that_is_asked_for(web, tmp_path):
    path = rows_of(tmp_path, f"{web}/a.png", f"{web}/x/b%20c.png?size=1", f"{web}/a.png")
    first, second, third = read_samples(path, note=len, allowed=WEB)
    assert first.image.read_bytes() == second.image.read_bytes() == picture()
    assert (first.image.name, second.image.name) == ("a.png", "b_20c.png")
    assert first.image == third.image != second.image
    assert sorted(path for path, _ in Answers.asked) == ["/a.png", "/x/b%20c.png?size=1"]
    heads = Answers.asked[0][1]
    assert heads["Host"] == "pictures.test"
    assert not {"Cookie", "Authorization", "Referer"} & set(heads)


def test_nothing_is_fetched_by_default(web, tmp_path):
    (row,) = iter_rows(rows_of(tmp_path, f"{web}/a.png"), note=len)
    assert "is an address, and nothing is fetched" in str(row.error)
    assert "--web-images" in str(row.error)
    assert Answers.asked == []


def test_an_address_that_fails_costs_its_own_row(web, tmp_path):
    path = rows_of(
        tmp_path, f"{web}/a.png", f"{web}/absent.png", f"{web}/lie.png", "http://home.test/", "ftp://x/a"
    )
    good, *bad = iter_rows(path, note=len, allowed=WEB)
    assert good.sample.image.is_file()
    reasons = [
        f"'{web}/absent.png' was answered with 404 Not Found",
        f"'{web}/lie.png' cannot be used: not an image",
        "'http://home.test/' is at 10.1.2.3, which is no public address",
        "'ftp://x/a' begins with ftp:",
    ]
    for number, (row, reason) in enumerate(zip(bad, reasons, strict=True), 2):
        assert str(row.error).startswith(f"{path}, row {number}: image {reason}")
        assert row.sample is None
    assert [each.name for each in (tmp_path / "web").rglob("*") if each.is_file()] == ["a.png"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("page", "is no image but text/html"),
        ("packed", "was sent packed"),
        ("announced", "has more than 100,000 bytes"),
        ("endless", "has more than 100,000 bytes"),
        ("soon", "sends without end|more than 100 interim responses"),  # 2nd: newer Pythons themselves
        ("cut", "was cut off after 10 of 1,000 bytes"),
        ("inside", "is at 127.0.0.2, which is no public address"),
        ("file", "begins with file:"),
        ("hop?n=3", "leads through more than 3 redirects"),
        ("circle", "leads through more than 3 redirects"),
        ("absent", "was answered with 404"),
    ],
)
def test_what_is_not_taken(web, name, problem):
    with pytest.raises(DataError, match=problem):
        fetched(f"{web}/{name}")


def test_what_is_taken(web):
    assert fetched(f"{web}/chunks.png") == picture()
    assert fetched(f"{web}/hop?n=2") == picture()
    for name, asked in (("cat", "/%E7%8C%AB.png"), ("cafe", "/caf%C3%A9.png")):  # in UTF-8, in Latin-1
        fetched(f"{web}/{name}")
        assert Answers.asked[-1][0] == asked
    assert fetched(f"{web}/nothing") == b""  # whoever reads it says that it is empty


@pytest.mark.parametrize("name", ["drip", "heads"])
def test_one_that_drips_ends_in_time(web, name):
    started = time.monotonic()
    with pytest.raises(DataError, match=r"took more than 0\.3 s"):
        fetched(f"{web}/{name}", seconds=0.3)
    assert time.monotonic() - started < 20


def test_a_look_up_that_hangs_ends_in_time(web, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(60))
    with pytest.raises(DataError, match=r"took more than 0\.1 s"):
        fetched(f"{web}/a.png", seconds=0.1)
    over.set()


def test_one_closed_address_closes_a_host(web, monkeypatch):
    both = [(socket.AF_INET, 1, 6, "", (number, 80)) for number in ("127.0.0.1", "192.168.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with pytest.raises(DataError, match=r"is at 192\.168\.0\.1"):
        fetched(f"{web}/a.png")
    assert Answers.asked == []


def test_a_name_is_looked_up_once_and_its_address_asked(web, server, monkeypatch):
    calls = []

    def rebinding(host, port, **_):
        calls.append(host)
        number = "127.0.0.1" if len(calls) == 1 else "10.0.0.1"
        return [(socket.AF_INET, 1, 6, "", (number, server.server_address[1]))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    assert fetched(f"{web}/a.png") == picture()
    assert calls == ["pictures.test"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254",
        "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "2002:7f00:1::",
        "2001:0:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::1", "2001:db8::1", "name", "",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "64:ff9b::808:808"])
def test_addresses_that_are(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://user:password@pictures.test/a.png", "http://user@pictures.test/", "http://pictures.test:22/",
        "http://pictures.test:8080/", "http://pictures.test:99999/", "ftp://pictures.test/a.png", "http:///a",
        "http://[::1/a", "http://pictures.test/a b.png", "http://pictures.test/\r\nX: 1", "http://a\\b/",
        "file:///etc/passwd", "s3://bucket/a.png", "data:image/png;base64,AA", "gopher://pictures.test/",
    ],
)  # fmt: skip
def test_addresses_that_are_not_asked(web, address, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", None)
    with pytest.raises(DataError):
        checked_address(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"]
)
def test_this_machine_is_not_asked(host, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", None)
    with pytest.raises(DataError, match=r"which is no public address|has a host that is not known"):
        fetched(f"http://{host}/")


def test_an_encrypted_connection_is_checked(web, server):
    with pytest.raises(DataError, match="has no secure connection"):
        fetched(web.replace("http:", "https:") + "/a.png")  # our server speaks no TLS


def test_a_limit_of_images_is_that_of_fetched_ones(web, tmp_path, monkeypatch):
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "8")
    (row,) = iter_rows(rows_of(tmp_path, f"{web}/a.png"), note=len, allowed=WEB)
    assert "has more than 64 bytes" in str(row.error)


def test_a_reading_that_ends_early_fetches_no_more(web, tmp_path, monkeypatch):
    release = threading.Event()
    begun = []

    def keep(address, path):
        begun.append(address)
        if not address.endswith("/0.png"):
            release.wait(20)

    monkeypatch.setattr(web_images, "_keep", keep)
    path = rows_of(tmp_path, *[f"{web}/{number}.png" for number in range(2 * web_images.AHEAD)])
    rows = iter_rows(path, note=len, allowed=WEB)
    assert next(rows).sample is not None
    rows.close()
    release.set()
    time.sleep(0.3)
    assert 1 <= len(begun) <= 1 + web_images.THREADS


def test_rows_that_come_one_by_one_are_given_one_by_one(web):
    read = []

    def rows():
        for number in range(3):
            read.append(number)
            yield Row(number, None, None, None)

    assert next(web_images.with_fetched(rows(), "x", waits=True)).number == 0
    assert read == [0]


def test_a_fetched_image_is_the_same_in_another_run(web, tmp_path):
    path = rows_of(tmp_path, f"{web}/a.png")
    (row,) = iter_rows(path, note=len, allowed=WEB)
    (tmp_path / "other").mkdir()
    web_images.fetcher()._folder = tmp_path / "other"
    web_images.fetcher()._started.clear()
    (again,) = iter_rows(path, note=len, allowed=WEB)
    assert row.sample.image != again.sample.image
    assert row_digest(row) == row_digest(again)
    assert isinstance(pickle.loads(pickle.dumps(row.sample)).image, FetchedImage)


@contextmanager
def closed_network(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", None)
        yield


def test_commands_fetch_where_they_are_told_to(web, tmp_path, monkeypatch, capsys):
    path = rows_of(tmp_path, f"{web}/a.png", f"{web}/absent.png", references=["a dog"])
    output = tmp_path / "scores.jsonl"
    command = ["score", "--input", str(path), "--metrics", "bleu-1", "--output", str(output)]
    with closed_network(monkeypatch):
        assert main(command) == 2
    assert "nothing is fetched" in capsys.readouterr().err
    assert main([*command, "--web-images", "--on-error", "skip"]) in (0, 1)
    first, second = map(json.loads, output.read_text().splitlines())
    assert first["scores"]["bleu-1"] > 0 if "scores" in first else first["bleu-1"] > 0
    assert "was answered with 404" in json.dumps(second)
    rated = rows_of(
        tmp_path, f"{web}/a.png", f"{web}/b.png", f"{web}/c.png", references=["a dog"], rating=0.5
    )
    assert main(["evaluate", "--data", str(rated), "--metrics", "bleu-1", "--web-images"]) in (0, 1)
    assert {path for path, _ in Answers.asked} >= {"/a.png", "/b.png", "/c.png"}
    assert (
        main(["score", "--input", str(tmp_path / "*.jsonl"), "--output", str(tmp_path / "o"), "--web-images"])
        == 2
    )
    assert "--web-images is not for sets in shards" in capsys.readouterr().err
