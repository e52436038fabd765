"""Changes of valid files: of their bytes, their lines, their JSON, and the parts of their containers.

Each takes a generator of random numbers and a valid input, and returns another input, so that an input is
known by its seed and number alone.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes], bytes]

WORDS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"1" * 5000,
    b"9" * 400,
    b"0x10",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"\\u0000",
    b"\\ud800",
    b"\\udfff\\ud800",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1b[31m",
    b"\x1b]0;x\x07",
    b"\xc2\x9b31m",
    "\u202e".encode(),
    "\u2028".encode(),
    "\u2066\u200f".encode(),
    "\N{COMBINING ACUTE ACCENT}".encode() * 50,
    "猫".encode(),
    "\U0001f469\u200d\U0001f680".encode(),
    b"\r",
    b"\n",
    b"\r\n",
    b"\x85",
    b"\x0b\x0c\x1c\x1d",
    b"\t",
    b'"',
    b"'",
    b"'''",
    b";",
    b",",
    b"[" * 3000,
    b'{"a":' * 2000,
    b"(" * 900,
    b"../../../../etc/passwd",
    b"/dev/zero",
    b"/dev/stdin",
    b"/proc/self/mem",
    b"\\\\host\\share",
    b"C:\\x",
    b"NUL",
    b"http://127.0.0.1/",
    b"file:///etc/passwd",
    b"{{7*7}}",
    b"</script><script>",
    b"%s%n",
    b"__class__",
    b"!!python/name:os.system",
    b"&a [*a]",
    b"<<: *a",
    b"a" * 20000,
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"RIFF",
    b".5.",
    b"1_000",
    "１２".encode(),
    b"inf",
    b"-1",
    b"18446744073709551616",
    b"2147483648",
)
"""What readers are known to stumble over."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**64),
    10**400,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    1e308,
    "",
    " ",
    "\0",
    "\ud800",
    "\u202e",
    "\u200b",
    "a" * 11_000,
    "猫",
    "1",
    "-1",
    "nan",
    "true",
    "/etc/passwd",
    "../x",
    "a\nb",
    "\x1b[2J",
    [],
    {},
    [[]],
    [None],
    ["a"],
    [1, 2],
    [1, 2, 3],
    [float("nan")],
    {"a": 1},
    {"": []},
    [[[[[1]]]]],
    ["a"] * 300,
    {str(n): n for n in range(60)},
    "x" * 300,
    1e-320,
    16777217,
    "0",
    "[1]",
    "['a']",
    {"value": None},
)
EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def change_bytes(random: Random, data: bytes) -> bytes:
    """Flip, cut, repeat and overwrite bytes."""
    content = bytearray(data)
    for _ in range(1 + min(int(random.expovariate(0.7)), 12)):
        size = len(content)
        at = random.randrange(size + 1)
        kind = random.randrange(9)
        if kind == 0 and size:
            content[at % size] ^= 1 << random.randrange(8)
        elif kind == 1 and size:
            content[at % size] = random.randrange(256)
        elif kind == 2:
            del content[at : at + 1 + int(random.expovariate(0.1))]
        elif kind == 3:
            content[at:at] = random.choice(WORDS)
        elif kind == 4:
            begin = random.randrange(size + 1)
            content[at:at] = content[begin : begin + 1 + int(random.expovariate(0.03))]
        elif kind == 5:
            width = random.choice((1, 2, 4, 8))
            number = (random.choice(EDGES) + random.randrange(-1, 2)) & (256**width - 1)
            content[at : at + width] = number.to_bytes(width, random.choice(("little", "big")))  # type: ignore[arg-type]
        elif kind == 6 and random.random() < 0.4:
            del content[at:]
        elif kind == 7:
            content[at:at] = random.randbytes(1 + int(random.expovariate(0.2)))
        elif size:
            begin = random.randrange(size)
            count = 1 + int(random.expovariate(0.1))
            content[at : at + count] = content[begin : begin + count]
    return bytes(content[:200_000])


def change_lines(random: Random, data: bytes) -> bytes:
    """Leave out, repeat, swap and change lines."""
    lines = data.split(b"\n")
    for _ in range(1 + int(random.expovariate(1))):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        kind = random.randrange(5)
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[other])
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines.insert(at, b"")
        else:
            lines[at] = change_bytes(random, lines[at])
        if not lines:
            return b""
    return b"\n".join(lines)


def change_value(random: Random, value: Any) -> Any:
    """Return a JSON value of which one or several parts are others."""
    value = copy.deepcopy(value)
    for _ in range(1 + int(random.expovariate(1.2))):
        value = _changed(random, value)
    return value


def _changed(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        kind = random.randrange(8)
        if kind == 0:
            del value[key]
        elif kind == 1:
            value[random.choice((*value, "", "id", "candidate", "references", "image", "a\0b", "\ud800"))] = (
                copy.deepcopy(value[key])
            )
        elif kind == 2:
            value[key] = copy.deepcopy(random.choice(VALUES))
        elif kind == 3:
            other = random.choice(list(value))
            value[key], value[other] = value[other], value[key]
        else:
            value[key] = _changed(random, value[key])
        return value
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        kind = random.randrange(7)
        if kind == 0:
            del value[at]
        elif kind == 1:
            value.insert(at, copy.deepcopy(random.choice(value)))
        elif kind == 2:
            value[at] = copy.deepcopy(random.choice(VALUES))
        else:
            value[at] = _changed(random, value[at])
        return value
    return _leaf(random, value)


def _leaf(random: Random, value: Any) -> Any:
    kind = random.randrange(6)
    if kind == 0 and isinstance(value, str):
        return change_bytes(random, value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")
    if kind == 1 and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**300:
        return random.choice(
            (-value, value + 1, value * 2, value / 3, value * 10**6, float(value), str(value))
        )
    if kind == 2:
        return [value]
    if kind == 3:
        return {"a": value}
    return copy.deepcopy(random.choice(VALUES))


def dumped(random: Random, value: Any) -> bytes:
    """Return JSON, sometimes with a key twice, sometimes with characters as they are."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.03 and text.startswith("{"):
        text = "{" + text[1:-1] + ("," if len(text) > 2 else "") + text[1:]
    return text.encode("utf-8", random.choice(("surrogatepass", "backslashreplace")))


def change_json(random: Random, data: bytes) -> bytes:
    """Change the value that a JSON document holds."""
    if random.random() < 0.25:
        return change_bytes(random, data)
    return dumped(random, change_value(random, json.loads(data)))


def change_json_lines(random: Random, data: bytes) -> bytes:
    """Change the values of JSON Lines."""
    kind = random.random()
    if kind < 0.15:
        return change_bytes(random, data)
    if kind < 0.3:
        return change_lines(random, data)
    lines = data.split(b"\n")
    for _ in range(1 + int(random.expovariate(1))):
        at = random.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except (ValueError, RecursionError):
            continue
        lines[at] = dumped(random, change_value(random, value))
    return b"\n".join(lines)


def change_text(random: Random, data: bytes) -> bytes:
    """Change lines or bytes of text."""
    return random.choice((change_bytes, change_lines))(random, data)


def change_gzip(random: Random, data: bytes) -> bytes:
    """Change what is compressed, or the compressed bytes."""
    if random.random() < 0.3:
        return change_bytes(random, data)
    inner = gzip.decompress(data)
    if random.random() < 0.02:  # a bomb: a line without end
        inner += b" " * 30_000_000
    else:
        inner = change_json_lines(random, inner)
    return gzip.compress(inner, 1, mtime=0)


def change_zip(random: Random, data: bytes) -> bytes:
    """Change a member of an archive that is then whole again, as torch's files are, or the bytes of all."""
    if random.random() < 0.25:
        return change_bytes(random, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = list(members)
    chosen = random.choice([name for name in names if name.endswith(".pkl")] or names)
    chosen = chosen if random.random() < 0.8 else random.choice(names)
    members[chosen] = change_bytes(random, members[chosen])
    if random.random() < 0.05:
        members.pop(random.choice(names), None)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def change_tar(random: Random, data: bytes) -> bytes:
    """Change bytes of one of an archive's headers, whose checksum is then mostly right again, or of all."""
    if random.random() < 0.3:
        return change_bytes(random, data)
    changed = bytearray(data)
    headers = [
        place for place in range(0, len(data) - 511, 512) if data[place + 257 : place + 262] == b"ustar"
    ]
    place = random.choice(headers or [0])
    for _ in range(random.choice((1, 1, 2, 4))):
        # The size, the kind of entry and the first part of the name decide most of what a reader does.
        offset = random.choice((random.randrange(512), random.randrange(124, 136), 156, random.randrange(8)))
        changed[place + offset] = random.choice((0, 0x80, 0xFF, *b"7xLKgSV125", random.randrange(256)))
    if random.random() < 0.9:
        changed[place + 148 : place + 156] = b" " * 8
        changed[place + 148 : place + 156] = b"%06o\0 " % sum(changed[place : place + 512])
    return bytes(changed)


def change_safetensors(random: Random, data: bytes) -> bytes:
    """Change the header of a safetensors file, with its length made to fit, or its bytes."""
    if random.random() < 0.3:
        return change_bytes(random, data)
    size = struct.unpack("<Q", data[:8])[0]
    header = dumped(random, change_value(random, json.loads(data[8 : 8 + size])))
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def change_image(random: Random, data: bytes) -> bytes:
    """Change an image; the checksums of PNG's chunks are made right again most of the time."""
    if data.startswith(b"\x89PNG") and random.random() < 0.7:
        return _changed_png(random, data)
    return change_bytes(random, data)


def _changed_png(random: Random, data: bytes) -> bytes:
    chunks, at = [], 8
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    place = random.randrange(len(chunks))
    kind, body = chunks[place]
    what = random.randrange(6)
    if what == 0:
        chunks.insert(place, chunks[random.randrange(len(chunks))])
    elif what == 1:
        del chunks[place]
    elif what == 2:
        text = b"x\0\0" + zlib.compress(random.choice(WORDS) * random.choice((1, 100, 5000)))
        chunks.insert(
            1, (random.choice((b"zTXt", b"tEXt", b"iTXt", b"iCCP", b"eXIf", b"acTL", b"fcTL")), text)
        )
    elif what == 3:
        inner = change_bytes(random, zlib.decompress(body)) if kind == b"IDAT" else change_bytes(random, body)
        chunks[place] = (kind, zlib.compress(inner) if kind == b"IDAT" else inner)
    else:
        chunks[place] = (kind, change_bytes(random, body))
    parts = [data[:8]]
    for kind, body in chunks:
        parts.append(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
    return b"".join(parts)


def change_named(changes: dict[str, Mutator]) -> Mutator:
    """Return what changes ``NAME\\0CONTENT``, the file of a folder, by what its suffix says."""

    def change(random: Random, data: bytes) -> bytes:
        name, _, content = data.partition(b"\0")
        suffix = name.decode().rpartition(".")[2]
        return name + b"\0" + changes.get(suffix, change_bytes)(random, content)

    return change
