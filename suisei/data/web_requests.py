"""Asking a stranger's machine for a file: what it may cost, and which machines are never asked.

An address comes out of somebody's file. It must not make this machine ask its neighbours, nor itself, in the
place of whoever wrote the file: names are looked up once, each address behind them is checked, and the
connection goes to that very address, again at each redirect. Proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import IO, Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from suisei.errors import DataError
from suisei.version import __version__

SECONDS = 30.0
"""For one file, from looking its name up to its last byte, redirects and all."""
REDIRECTS = 3
PORTS = {"http": 80, "https": 443}
TYPES = ("image/", "application/octet-stream", "binary/octet-stream")
"""What an answer may say it is; one that says nothing is looked at."""

_OVERHEAD = 1 << 20  # bytes of heads and of what frames the content
_PART = 1 << 16
_REDIRECTED = (301, 302, 303, 307, 308)
_NO_URL = re.compile(r"[\x00-\x20\x7f\\]")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL = ipaddress.ip_network("2000::/3")
"""Of IPv6, what is given out to the internet; the rest waits, or has another use."""
_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        ("168.63.129.16/32", "2001::/32", "2002::/16", "192.88.99.0/24"),
    )
)
"""Global by their number, and yet the host of a cloud's machine, or ways into IPv4."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost.

    Attributes:
        size: bytes of its content.
        seconds: for all of it.
        redirects: how often it may be elsewhere.
    """

    size: int
    seconds: float = SECONDS
    redirects: int = REDIRECTS


def is_public(address: str) -> bool:
    """Say whether a numeric address is one of the open internet, which anyone may ask."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(number, ipaddress.IPv6Address):
        if number.ipv4_mapped is not None or number.scope_id is not None:
            return False
        if number in _NAT64:  # how a network without IPv4 reaches it
            return is_public(str(ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)))
        if number not in _GLOBAL:
            return False
    closed = (
        number.is_private or number.is_loopback or number.is_link_local or number.is_multicast
        or number.is_reserved or number.is_unspecified or not number.is_global
    )  # fmt: skip
    return not closed and not any(number.version == net.version and number in net for net in _REFUSED)


def checked_address(address: str) -> SplitResult:
    """Return the parts of an address that may be asked.

    Raises:
        DataError: it is none of the web's, names a user, a password or an unusual port, or is malformed.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise DataError(f"is no address: {error}") from None
    if parts.scheme not in PORTS:
        raise DataError(f"begins with {parts.scheme}:; images are fetched over http: and https: alone")
    if _NO_URL.search(address) or not host:
        raise DataError("is no address: it holds blanks or control characters, or names no host")
    if "@" in parts.netloc:
        raise DataError("holds a user's name or password, which is not sent")
    if port not in (None, *PORTS.values()):
        raise DataError(f"names port {port}; only 80 and 443 are asked")
    return parts


def _as_utf8(header: str) -> str:
    """Return a header, which was read as Latin-1, as browsers take it: as UTF-8 where it is that."""
    with suppress(UnicodeError):
        return header.encode("latin-1").decode("utf-8")
    return header


def fetch(address: str, target: IO[bytes], limits: Limits) -> None:
    """Write the content of an address to a file.

    Raises:
        DataError: it cannot be had within the limits, or from where it must not be; the reason alone.
    """
    deadline = time.monotonic() + limits.seconds
    try:
        for _ in range(limits.redirects + 1):
            with _answer(checked_address(address), deadline, limits.size) as answer:
                if answer.status not in _REDIRECTED:
                    _save(answer, target, limits.size)
                    return
                location = _as_utf8(answer.getheader("Location") or "")
            address = urljoin(address, location)
    except DataError:  # a ValueError too
        raise
    except TimeoutError:
        raise DataError(f"took more than {limits.seconds:g} s") from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or str(error)
        raise DataError(f"has no secure connection: {reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"cannot be had: {str(reason)[:200]}") from None
    raise DataError(f"leads through more than {limits.redirects} redirects")


@contextmanager
def _answer(parts: SplitResult, deadline: float, size: int) -> Iterator[http.client.HTTPResponse]:
    """Ask, and give the answer, of which the head alone has been read."""
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    plain = _connected(_public_addresses(host, port, deadline), deadline)
    try:
        if parts.scheme == "https":
            plain.settimeout(_left(deadline))
            plain = _secure().wrap_socket(plain, server_hostname=host)
        connection = http.client.HTTPConnection(host, port)
        connection.sock = _Wire(plain, deadline, size + _OVERHEAD)
        query = f"?{parts.query}" if parts.query else ""
        target = quote(f"{parts.path or '/'}{query}", safe="/?%:@!$&'()*+,;=~-._")
        connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
        shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
        connection.putheader("Host", f"{shown}:{parts.port}" if parts.port else shown)
        connection.putheader("User-Agent", f"suisei/{__version__}")
        connection.putheader("Accept", "image/*")
        connection.putheader("Accept-Encoding", "identity")
        connection.putheader("Connection", "close")
        connection.endheaders()
        with connection.getresponse() as answer:
            yield answer
    finally:
        plain.close()


@cache
def _secure() -> ssl.SSLContext:
    return ssl.create_default_context()


def _save(answer: http.client.HTTPResponse, target: IO[bytes], size: int) -> None:
    if answer.status != http.client.OK:
        raise DataError(f"was answered with {answer.status} {answer.reason[:60]}")
    kind = (answer.getheader("Content-Type") or TYPES[1]).strip().lower()
    if not kind.startswith(TYPES):
        raise DataError(f"is no image but {kind[:60]}")
    if (packed := answer.getheader("Content-Encoding") or "identity").strip().lower() != "identity":
        raise DataError(f"was sent packed ({packed[:20]}), which was not asked for")
    too_long = DataError(f"has more than {size:,} bytes, the limit of an image file")
    if (answer.length or 0) > size:
        raise too_long
    written, whole = 0, answer.length  # None: not said, or in chunks
    while whole is None or written < whole:
        part = answer.read1(_PART if whole is None else min(_PART, whole - written))
        if not part:
            break
        written += len(part)
        if written > size:
            raise too_long
        target.write(part)
    if whole is not None and written < whole:
        raise DataError(f"was cut off after {written:,} of {whole:,} bytes")


def _public_addresses(host: str, port: int, deadline: float) -> list[tuple[int, Any]]:
    """Return (family, socket address) of what a name stands for, all of them public.

    Raises:
        DataError: the name is not known, or one of its addresses is not public.
    """
    found = _looked_up(host, port, deadline)
    closed = next((address[0] for _, address in found if not is_public(str(address[0]))), None)
    if closed is not None:
        raise DataError(f"is at {closed}, which is no public address")
    return found


def _looked_up(host: str, port: int, deadline: float) -> list[tuple[int, Any]]:
    found: list[Any] = []

    def look() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            found.append(error)

    thread = threading.Thread(target=look, daemon=True)  # the system's look-up has no limit of its own
    thread.start()
    thread.join(_left(deadline))
    if not found:
        raise TimeoutError
    if isinstance(found[0], Exception) or not found[0]:
        raise DataError(f"has a host that is not known, {host[:100]!r}")
    return [(family, address) for family, _, _, _, address in found[0]]


def _connected(addresses: list[tuple[int, Any]], deadline: float) -> socket.socket:
    """Return a connection to the first of the addresses that takes one."""
    last: OSError | None = None
    for family, address in addresses:
        plain = socket.socket(family, socket.SOCK_STREAM)
        try:
            plain.settimeout(_left(deadline))
            plain.connect(address)
        except OSError as error:
            plain.close()
            last = error
        else:
            return plain
    raise last or OSError("no address")


def _left(deadline: float) -> float:
    """Return the seconds that are left.

    Raises:
        TimeoutError: none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Wire:
    """A connection in the place of a socket: each piece waits no longer than the whole may take."""

    def __init__(self, plain: socket.socket, deadline: float, size: int) -> None:
        self._plain, self._deadline, self._size = plain, deadline, size

    def sendall(self, data: bytes) -> None:
        self._plain.settimeout(_left(self._deadline))
        self._plain.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self._plain, self._deadline, self._size))

    def close(self) -> None:
        """Leave the socket to who opened it: the answer is read after http.client lets go of it."""


class _Received(io.RawIOBase):
    """What comes in, until the time or the bytes are used up."""

    def __init__(self, plain: socket.socket, deadline: float, size: int) -> None:
        super().__init__()
        self._plain, self._deadline, self._free = plain, deadline, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._plain.settimeout(_left(self._deadline))
        count = self._plain.recv_into(buffer)
        self._free -= count
        if self._free < 0:
            raise DataError("sends without end")
        return count
