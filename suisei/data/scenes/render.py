"""Images of the bundled sample: integer masks on a lattice, written as uncompressed palette PNG.

No drawing library, no float and no compressor is involved, so that the bytes are the same on every
platform and with every version of every dependency.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from suisei.data.scenes.world import SIZES, Entity, Scene

SIDE = 72
"""Width and height of an image, in pixels."""

LATTICE = 24
"""Shapes are laid out on a square of this many units, whatever their size in pixels."""

PALETTE = (
    ("red", (214, 40, 40)),
    ("blue", (36, 84, 214)),
    ("yellow", (250, 212, 30)),
    ("green", (20, 122, 54)),
    ("white", (255, 255, 255)),
    ("black", (12, 12, 12)),
    ("pink", (255, 130, 190)),
    ("purple", (128, 44, 172)),
    ("ink", (58, 50, 56)),
    ("sky", (176, 222, 250)),
    ("lawn", (150, 206, 96)),
    ("water", (64, 156, 196)),
    ("wall", (246, 230, 200)),
    ("floor", (186, 140, 96)),
    ("dark", (24, 28, 72)),
    ("grey", (206, 206, 210)),
)
INDEX = {name: number for number, (name, _) in enumerate(PALETTE)}

BACKDROPS = {
    "grass": ("sky", "lawn", 36),
    "sea": ("sky", "water", 24),
    "room": ("wall", "floor", 48),
    "night": ("dark", "ink", 60),
    "snow": ("sky", "white", 34),
    "plain": ("grey", "grey", 36),
}
"""Upper colour, lower colour, and the row where they meet."""

# Each part: ink ("fill" is the object's colour, "mark" contrasts with it, "hole" is white), form, numbers.
SHAPES: dict[str, tuple[tuple[str, str, tuple[int, ...]], ...]] = {
    "ball": (("fill", "disc", (12, 12, 11)), ("hole", "disc", (8, 8, 3)), ("mark", "box", (1, 13, 23, 14))),
    "cat": (
        ("fill", "tri", (3, 1, 3, 11, 11, 7)),
        ("fill", "tri", (21, 1, 21, 11, 13, 7)),
        ("fill", "disc", (12, 14, 9)),
        ("mark", "disc", (8, 12, 1)),
        ("mark", "disc", (16, 12, 1)),
        ("mark", "tri", (10, 16, 14, 16, 12, 19)),
        ("mark", "box", (1, 16, 6, 17)),
        ("mark", "box", (18, 16, 23, 17)),
    ),
    "dog": (
        ("fill", "box", (4, 9, 18, 17)),
        ("fill", "disc", (18, 8, 5)),
        ("fill", "box", (18, 8, 24, 12)),
        ("fill", "box", (4, 16, 7, 23)),
        ("fill", "box", (15, 16, 18, 23)),
        ("fill", "tri", (0, 4, 3, 4, 6, 12)),
        ("mark", "box", (14, 3, 16, 10)),
        ("mark", "disc", (19, 7, 1)),
        ("mark", "box", (22, 8, 24, 10)),
    ),
    "fish": (
        ("fill", "disc", (10, 12, 7)),
        ("fill", "box", (7, 6, 14, 18)),
        ("fill", "tri", (23, 4, 23, 20, 13, 12)),
        ("hole", "disc", (7, 10, 2)),
        ("mark", "disc", (7, 10, 1)),
        ("mark", "box", (13, 7, 14, 17)),
    ),
    "house": (
        ("fill", "tri", (12, 0, 0, 11, 24, 11)),
        ("fill", "box", (3, 11, 21, 23)),
        ("mark", "box", (1, 11, 23, 12)),
        ("mark", "box", (10, 15, 14, 23)),
        ("hole", "box", (5, 14, 9, 18)),
        ("hole", "box", (15, 14, 19, 18)),
    ),
    "tree": (
        ("mark", "box", (10, 15, 14, 24)),
        ("fill", "tri", (12, 0, 4, 9, 20, 9)),
        ("fill", "tri", (12, 4, 1, 17, 23, 17)),
    ),
    "car": (
        ("fill", "box", (6, 5, 18, 12)),
        ("fill", "box", (1, 11, 23, 18)),
        ("hole", "box", (8, 7, 11, 11)),
        ("hole", "box", (13, 7, 16, 11)),
        ("mark", "disc", (6, 18, 3)),
        ("mark", "disc", (18, 18, 3)),
    ),
    "boat": (
        ("mark", "box", (11, 1, 12, 16)),
        ("hole", "tri", (13, 2, 13, 14, 22, 14)),
        ("fill", "tri", (10, 5, 10, 14, 3, 14)),
        ("fill", "box", (4, 16, 20, 21)),
        ("fill", "tri", (0, 16, 4, 16, 4, 21)),
        ("fill", "tri", (24, 16, 20, 16, 20, 21)),
    ),
    "cup": (
        ("fill", "disc", (17, 12, 6)),
        ("back", "disc", (17, 12, 3)),
        ("fill", "box", (3, 4, 17, 21)),
        ("mark", "box", (3, 6, 17, 7)),
        ("hole", "box", (6, 10, 8, 17)),
    ),
    "chair": (
        ("fill", "box", (4, 0, 8, 14)),
        ("fill", "box", (4, 11, 20, 15)),
        ("fill", "box", (4, 15, 7, 24)),
        ("fill", "box", (17, 15, 20, 24)),
        ("mark", "box", (5, 3, 7, 4)),
        ("mark", "box", (5, 7, 7, 8)),
    ),
    "hat": (
        ("fill", "box", (7, 5, 17, 18)),
        ("fill", "box", (1, 17, 23, 20)),
        ("mark", "box", (7, 14, 17, 17)),
    ),
    "umbrella": (
        ("fill", "disc", (12, 12, 11)),
        ("back", "box", (0, 12, 24, 24)),
        ("mark", "box", (11, 12, 13, 23)),
        ("mark", "box", (7, 21, 12, 23)),
        ("mark", "box", (11, 0, 13, 2)),
        ("hole", "tri", (12, 2, 9, 12, 15, 12)),
    ),
    "star": (
        ("fill", "tri", (12, 0, 8, 10, 16, 10)),
        ("fill", "tri", (0, 9, 24, 9, 12, 17)),
        ("fill", "tri", (5, 23, 8, 10, 16, 15)),
        ("fill", "tri", (19, 23, 16, 10, 8, 15)),
        ("fill", "disc", (12, 12, 5)),
    ),
    "flower": (
        ("mark", "box", (11, 12, 13, 24)),
        ("mark", "tri", (13, 21, 20, 16, 18, 21)),
        ("fill", "disc", (12, 4, 4)),
        ("fill", "disc", (7, 8, 4)),
        ("fill", "disc", (17, 8, 4)),
        ("fill", "disc", (9, 13, 4)),
        ("fill", "disc", (15, 13, 4)),
        ("mark", "disc", (12, 9, 3)),
    ),
}

_FINE = 10
"""Sub-units per lattice unit: pixel centres are rounded down to these, in integers."""


def render(scene: Scene) -> np.ndarray:
    """Return the palette indices of a scene, uint8 of shape [72, 72]."""
    upper, lower, horizon = BACKDROPS[scene.background]
    pixels = np.full((SIDE, SIDE), INDEX[upper], dtype=np.uint8)
    pixels[horizon:] = INDEX[lower]
    outline = INDEX["grey" if scene.background == "night" else "ink"]
    for entity in scene.entities:
        for left, top in _corners(entity, len(scene.entities)):
            _stamp(pixels, _sprite(entity), left, top, outline)
    return pixels


def _corners(entity: Entity, groups: int) -> list[tuple[int, int]]:
    """Upper left corners of the entity's objects, centred in its part of the image."""
    left, top, width, height = _region(entity.region, groups)
    side = SIZES[entity.size]
    columns = entity.count if width == SIDE and groups > 1 else min(entity.count, 2)
    rows = -(-entity.count // columns)
    x0 = left + (width - columns * side) // 2
    y0 = top + (height - rows * side) // 2
    return [(x0 + (n % columns) * side, y0 + (n // columns) * side) for n in range(entity.count)]


def _region(region: str, groups: int) -> tuple[int, int, int, int]:
    """Left, top, width and height of a part of the image."""
    half = SIDE // 2
    if groups == 3:
        return {"top": (0, 0, SIDE, 30), "left": (0, 30, half, 42), "right": (half, 30, half, 42)}[region]
    return {
        "left": (0, 0, half, SIDE),
        "right": (half, 0, half, SIDE),
        "top": (0, 0, SIDE, half),
        "bottom": (0, half, SIDE, half),
        "centre": (0, 0, SIDE, SIDE),
    }[region]


def _sprite(entity: Entity) -> np.ndarray:
    """Palette indices of one object, int16 of shape [side, side]; -1 where nothing is drawn."""
    side = SIZES[entity.size]
    inks = {
        "fill": INDEX[entity.colour],
        "mark": INDEX["grey" if entity.colour == "black" else "ink"],
        "hole": INDEX["grey" if entity.colour == "white" else "white"],
        "back": -1,
    }
    sprite = np.full((side, side), -1, dtype=np.int16)
    for ink, form, numbers in SHAPES[entity.kind]:
        sprite[_mask(form, numbers, side)] = inks[ink]
    return sprite


def _mask(form: str, numbers: tuple[int, ...], side: int) -> np.ndarray:
    """Where a form covers the pixel centres, bool of shape [side, side]."""
    centres = (2 * np.arange(side, dtype=np.int64) + 1) * LATTICE * _FINE // (2 * side)
    x, y = centres[None, :], centres[:, None]
    values = [number * _FINE for number in numbers]
    if form == "disc":
        centre_x, centre_y, radius = values
        return (x - centre_x) ** 2 + (y - centre_y) ** 2 <= radius**2
    if form == "box":
        left, top, right, bottom = values
        return (x >= left) & (x < right) & (y >= top) & (y < bottom)
    return _triangle(x, y, values)


def _triangle(x: np.ndarray, y: np.ndarray, values: list[int]) -> np.ndarray:
    """Inside all three edges; the sign of the cross product says on which side a point is."""
    corners = list(zip(values[::2], values[1::2], strict=True))
    sides = []
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        sides.append((bx - ax) * (y - ay) - (by - ay) * (x - ax))
    stacked = np.stack(np.broadcast_arrays(*sides))
    return np.logical_or((stacked >= 0).all(axis=0), (stacked <= 0).all(axis=0))


def _stamp(pixels: np.ndarray, sprite: np.ndarray, left: int, top: int, outline: int) -> None:
    """Draw a sprite with an outline of one pixel around it, in place."""
    side = len(sprite)
    drawn = np.zeros((SIDE + 2, SIDE + 2), dtype=bool)
    drawn[top + 1 : top + 1 + side, left + 1 : left + 1 + side] = sprite >= 0
    grown = drawn[:-2, 1:-1] | drawn[2:, 1:-1] | drawn[1:-1, :-2] | drawn[1:-1, 2:]
    inside = drawn[1:-1, 1:-1]
    pixels[grown & ~inside] = outline
    pixels[inside] = sprite[sprite >= 0]


def encode_png(pixels: np.ndarray) -> bytes:
    """Return a 4-bit palette PNG whose image data is stored, not compressed.

    Args:
        pixels: palette indices below 16, uint8 of shape [height, width], width even.
    """
    height, width = pixels.shape
    packed = (pixels[:, ::2] << 4) | pixels[:, 1::2]
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), packed], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)
    palette = bytes(value for _, colour in PALETTE for value in colour)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", _stored(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def _stored(content: bytes) -> bytes:
    """A zlib stream of one stored block (RFC 1950 and 1951); at most 65,535 bytes."""
    length = len(content)
    block = struct.pack("<BHH", 1, length, length ^ 0xFFFF) + content
    return b"\x78\x01" + block + struct.pack(">I", zlib.adler32(content))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
