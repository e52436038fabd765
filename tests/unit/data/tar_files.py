"""Archives that tests write."""

import io
import tarfile


def add(tar, name, content=b"", **fields):
    """Add a member; ``fields`` are those of its header."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(content))
