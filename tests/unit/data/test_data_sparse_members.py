"""Sparse files in archives, as tar -S writes them: refused by their names, and what follows is read."""

import tarfile

import pytest

from suisei.data.shards import shard_rows
from suisei.data.tar_members import tar_members
from tests.unit.data.tar_files import add

PART = b"a ball"
FEW, MANY = 4, 60  # a header of GNU's has room for four parts, a block after it for 21 more each


def octal(number):
    return b"%011o\0" % number


def listed(parts):
    """Return offset and length of each part."""
    return [octal(4096 * part) + octal(len(PART)) for part in range(parts)]


def add_gnu(tar, name, parts):
    """Add a member of GNU's own kind."""
    info = tarfile.TarInfo(name)
    info.type, info.size = tarfile.GNUTYPE_SPARSE, parts * len(PART)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    first, *others = [listed(parts)[:4], *(listed(parts)[at : at + 21] for at in range(4, parts, 21))]
    header[386 : 386 + 24 * len(first)] = b"".join(first)
    header[482], header[483:495] = bool(others), octal(4096 * parts)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    blocks = [
        b"".join(each).ljust(504, b"\0") + bytes([each is not others[-1]]) + bytes(7) for each in others
    ]
    content = PART * parts
    written = bytes(header) + b"".join(blocks) + content + bytes(-len(content) % 512)
    tar.offset += tar.fileobj.write(written)


def add_with_header(tar, name, parts, version):
    """Add a member whose parts an extended header, or with version 1.0 its own first block, lists."""
    headers = {"GNU.sparse.realsize": str(4096 * parts)}
    content = PART * parts
    if version == "1.0":
        headers |= {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name}
        numbers = [parts, *(value for part in range(parts) for value in (4096 * part, len(PART)))]
        table = "".join(f"{number}\n" for number in numbers).encode()
        content = table + bytes(-len(table) % 512) + content
        name = f"./GNUSparseFile.77/{name}"
    else:
        pairs = (str(value) for part in range(parts) for value in (4096 * part, len(PART)))
        headers |= {"GNU.sparse.size": str(4096 * parts), "GNU.sparse.map": ",".join(pairs)}
    add(tar, name, content, pax_headers=headers)


@pytest.mark.parametrize("parts", [FEW, MANY])
@pytest.mark.parametrize("version", ["gnu", "0.1", "1.0"])
def test_a_sparse_file_is_refused_by_its_name_and_what_follows_is_read(tmp_path, parts, version):
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "a.txt", b"a dog")
        if version == "gnu":
            add_gnu(tar, "b.txt", parts)
        else:
            add_with_header(tar, "b.txt", parts, version)
        add(tar, "c.txt", b"a cat")
    with tarfile.open(path) as tar:  # such as Python reads too
        assert [(info.name, info.issparse()) for info in tar] == [
            ("a.txt", False), ("b.txt", True), ("c.txt", False),
        ]  # fmt: skip
        assert tar.extractfile("b.txt").read(4096) == PART.ljust(4096, b"\0")
    with path.open("rb") as stream:
        found = [(one.name, one.content, one.problem) for one in tar_members(stream, lambda _: 1 << 20)]
    assert found == [
        ("a.txt", b"a dog", ""),
        ("b.txt", None, "is a sparse file, which is not read"),
        ("c.txt", b"a cat", ""),
    ]
    good = [one.row.sample is not None for one in shard_rows(path, {})]
    assert good == [True, False, True]
