"""A server of pictures, and of whatever else an address on the web may answer."""

import io
import time
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from PIL import Image


def picture():
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stream, "PNG")
    return stream.getvalue()


class Answers(BaseHTTPRequestHandler):
    """Answers as the path says."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list] = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.asked.append((self.path, dict(self.headers)))
        what = self.path.split("?")[0].rpartition("/")[2].partition(".")[0]
        getattr(self, f"give_{what}", self.give_a)()

    def send(self, content, kind="image/png", status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def give_a(self):
        self.send(picture())

    def give_page(self):
        self.send(b"<html>", "text/html; charset=utf-8")

    def give_lie(self):
        self.send(b"<html>no image</html>")

    def give_absent(self):
        self.send(b"", status=404)

    def give_packed(self):
        self.send(picture(), Content_Encoding="gzip")

    def give_nothing(self):
        self.send(b"")

    def give_announced(self):
        self.send_response(200)
        self.send_header("Content-Length", "99999999999999")
        self.end_headers()

    def give_cut(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)
        self.close_connection = True

    def give_chunks(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (picture()[:20], picture()[20:], b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def give_endless(self):
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        self._until_gone(b"x" * 65536, 0)

    def give_drip(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self._until_gone(b"x", 0.02)

    def give_heads(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        self._until_gone(b"x", 0.02)

    def give_soon(self):
        self._until_gone(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000, 0)

    def _until_gone(self, data, pause):
        for _ in range(3000):
            try:
                self.wfile.write(data)
            except OSError:
                return
            time.sleep(pause)

    def give_hop(self):
        left = int(self.path.rpartition("=")[2])
        self.send(b"", status=302, Location=f"hop?n={left - 1}" if left else "/a.png")

    def give_cat(self):
        self.send(b"", status=302, Location="/猫.png".encode().decode("latin-1"))

    def give_cafe(self):
        self.send(b"", status=302, Location="/café.png")

    def give_inside(self):
        self.send(b"", status=301, Location="http://127.0.0.2/a.png")

    def give_file(self):
        self.send(b"", status=302, Location="file:///etc/passwd")

    def give_circle(self):
        self.send(b"", status=302)
