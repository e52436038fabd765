"""What a visitor's request may name: files that were uploaded to this page, and no address.

Gradio opens the files that a request names, and fetches the addresses, before a function of the page is
called, so requests are looked at before Gradio sees them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from suisei.data.paths import is_inside

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Scope]]
_Send = Callable[[_Scope], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

_UPLOAD = "/gradio_api/upload"
"""Where files are uploaded to: by parts, each of which Gradio holds to the limit, whatever they add up to."""
_AROUND = 2**14
"""Bytes that an upload may have beside its file: the lines around it and its name."""
_ADDRESS = re.compile(r"[=/]https?://", re.IGNORECASE)
"""In the path of a request, something that Gradio would fetch: /gradio_api/file=https://..."""
_OTHERS = "only files that were uploaded to this page are read, and nothing is fetched: upload the file"


class UploadsAlone:
    """ASGI middleware that refuses requests which name anything but uploads, or are too long.

    The answer is 403 for whatever is no upload, whether it exists or not, and 413 for a long request.

    Args:
        app: answers the other requests.
        folder: where uploads lie, and copies of the examples.
        limit: bytes of a request; an upload's may be a little more, since its file may be as long.
    """

    def __init__(self, app: _App, *, folder: Path | str, limit: int) -> None:
        self._app, self._folder, self._limit = app, folder, limit

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["path"] == _UPLOAD:
            return await self._app(scope, _limited(receive, self._limit + _AROUND), send)
        body = await _body(receive, self._limit)
        if body is None:
            return await _refuse(send, 413, f"the request has more than {self._limit:,} bytes")
        if _ADDRESS.search(scope["path"]) or not self._allows(body):
            return await _refuse(send, 403, _OTHERS)
        return await self._app(scope, _once_more(body, receive), send)

    def _allows(self, body: bytes) -> bool:
        """Say whether all files that a body names, at any depth and in any field, are uploads."""
        try:
            waiting = [json.loads(body)]  # as Starlette parses it, so that both see the same
        except ValueError:  # no JSON: no files, and Gradio says so
            return True
        except RecursionError:
            return False
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                if not self._is_upload(value):
                    return False
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        return True

    def _is_upload(self, file: dict[str, Any]) -> bool:
        path, url = file.get("path"), file.get("url")
        if isinstance(url, str) and url.startswith("data:"):
            return False
        return path is None or (isinstance(path, str) and is_inside(self._folder, path))


async def _body(receive: _Receive, limit: int) -> bytes | None:
    """Return the body of a request, None where it is longer than ``limit``."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        more = message.get("more_body", False)
    return bytes(body)


def _limited(receive: _Receive, limit: int) -> _Receive:
    """Return what gives the same body, and no more than ``limit`` bytes of it."""
    from starlette.formparsers import MultiPartException

    left = limit

    async def limited() -> _Scope:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:  # Gradio removes what it has of the files, and answers 413 for these words
            raise MultiPartException(f"the upload exceeds the maximum allowed size of {limit:,} bytes")
        return message

    return limited


def _once_more(body: bytes, receive: _Receive) -> _Receive:
    """Return what gives a body that was received already, and then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> _Scope:
        return messages.pop() if messages else await receive()

    return again


async def _refuse(send: _Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": reason}).encode()})
