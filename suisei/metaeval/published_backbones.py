"""Published figures of metrics with another backbone than that of the papers' tables.

Sarto et al. (CVPR 2023), table 8. CLIP-S and EMScore have the weights of the backbone as they are; those of
PAC-S were trained from them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

PAPERS_BACKBONE = "ViT-B-32@openai"
"""What all other tables of the papers are of."""
BACKBONED = frozenset(
    f"{ref}{name}" for ref in ("", "ref-") for name in ("clip-s", "pac-s", "em-score", "video-pac-s")
)
"""Metrics whose published figures are of a backbone."""
BACKBONE_NOTE = (
    "CLIP-S, EMScore and PAC-S are published with OpenAI's ViT-B/32; a row of one of the four other "
    "backbones of Sarto et al. (CVPR 2023), table 8, stands beside the figures of that one, and a row of any "
    "other beside none"
)

_COLUMNS = {
    "image": (
        ("flickr8k-expert", "tau-b"),
        ("flickr8k-expert", "tau-c"),
        ("flickr8k-cf", "tau-b"),
        ("flickr8k-cf", "tau-c"),
        ("pascal-50s", "mean"),
        ("foil", "mean"),
    ),
    "video": (("vatex-eval", "tau-b"), ("vatex-eval", "spearman"), ("activitynet-foil", "accuracy")),
}
_TABLE_8: dict[str, tuple[str, tuple[float, ...]]] = {
    "clip-s:ViT-B-16@openai": ("image", (51.7, 52.1, 34.9, 18.0, 81.1, 90.6)),
    "pac-s:ViT-B-16@openai": ("image", (54.5, 54.9, 35.9, 18.5, 82.9, 91.1)),
    "em-score:ViT-B-16@openai": ("video", (24.1, 31.4, 90.0)),
    "video-pac-s:ViT-B-16@openai": ("video", (26.8, 34.7, 90.7)),
    "clip-s:ViT-L-14@openai": ("image", (52.6, 53.0, 35.2, 18.2, 81.7, 90.9)),
    "pac-s:ViT-L-14@openai": ("image", (55.1, 55.5, 36.8, 19.0, 82.2, 91.9)),
    "em-score:ViT-L-14@openai": ("video", (26.7, 34.7, 89.0)),
    "video-pac-s:ViT-L-14@openai": ("video", (28.9, 37.4, 91.2)),
    "clip-s:ViT-B-32@laion2b": ("image", (52.3, 52.6, 35.4, 18.3, 81.2, 88.9)),
    "pac-s:ViT-B-32@laion2b": ("image", (53.6, 53.9, 36.1, 18.6, 82.1, 90.1)),
    "em-score:ViT-B-32@laion2b": ("video", (24.8, 32.2, 88.2)),
    "video-pac-s:ViT-B-32@laion2b": ("video", (25.4, 33.1, 89.5)),
    "clip-s:ViT-L-14@laion2b": ("image", (54.4, 54.5, 36.6, 18.9, 82.5, 92.2)),
    "pac-s:ViT-L-14@laion2b": ("image", (55.3, 55.7, 37.0, 19.1, 82.8, 93.1)),
    "em-score:ViT-L-14@laion2b": ("video", (27.0, 35.0, 90.7)),
    "video-pac-s:ViT-L-14@laion2b": ("video", (27.8, 36.1, 91.2)),
}
"""{metric:backbone: the columns of the table that it has, and its figures in them, in percent}."""


def of_backbones(data: str, kinds: Sequence[str]) -> dict[str, tuple[float | None, ...]]:
    """Return {metric:backbone: a figure in percent per kind, None where none is printed} of a data set."""
    found = {}
    for name, (columns, values) in _TABLE_8.items():
        printed = dict(zip(_COLUMNS[columns], values, strict=True))
        figures = tuple(printed.get((data, kind)) for kind in kinds)
        if any(value is not None for value in figures):
            found[name] = figures
    return found


def published_name(label: str, backbone: str | None, known: Collection[str]) -> str | None:
    """Return under which name the published figures of a row stand; None where there are none.

    Args:
        label: of the row: a registry name, perhaps with its ``:ARGUMENT``.
        backbone: :attr:`suisei.scoring.columns.ScoreColumn.backbone`; None where nothing is known of it, as
            of scores from a file: that of a metric named without argument is then the papers' own.
        known: the names that figures are known of.
    """
    with_measure = label.partition("@")[0]  # recap:MEASURE@MODEL
    name, _, argument = label.partition(":")
    if name not in BACKBONED:
        name = with_measure if with_measure in known else name
    elif backbone not in (None, PAPERS_BACKBONE) or (backbone is None and argument):
        name = f"{name}:{backbone}"
    return name if name in known else None
