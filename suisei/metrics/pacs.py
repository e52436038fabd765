"""PAC-S, RefPAC-S (Sarto et al., 2023) and their PAC-S++ variants (Sarto et al., 2024).

The formulas are CLIPScore's; what differs is the dual encoder, trained with generated images and
captions as additional positives, and the scale w.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.base import given_as
from suisei.metrics.clipscore import ContrastiveScore
from suisei.metrics.dual_metric import MODEL, folder_as_model, like, split_tag, weights_given
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from suisei.encoders.dual import DualEncoder

CODE_W = 2.0
"""The scale in every program of the authors, whatever the variant and the backbone."""

PAPER_W: dict[str, dict[str, float]] = {
    "pac-s": {"": 2.0},
    "pac-s++": {"ViT-B-32": 2.5, "ViT-L-14": 3.0},
}
"""The scale in the papers, by variant and backbone; "" stands for every backbone."""


class PacScore(ContrastiveScore):
    """PAC-S in [0, w], or RefPAC-S: equations 1, 5 and 6 of the first paper, 4 and 5 of the second.

    RefPAC-S is in [0, 2w / (w + 1)] with ``clip_reference``; without it, as in the authors' programs, it has
    no limits where a caption's best reference cosine is negative, see
    :class:`suisei.metrics.clipscore.ContrastiveScore`.

    Args:
        checkpoint: the trained weights: a file as the authors publish it, or a model folder with
            ``open_clip_config.json``.
        variant: "pac-s" or "pac-s++".
        references: whether the reference term enters (RefPAC-S).
        model: the open_clip model that a checkpoint file belongs to, with ``@TAG`` where it was not
            trained from OpenAI's weights.
        w: the scale; None takes the paper's for the variant and the backbone, by which a folder's
            architecture counts and not its name.
        code_w: take 2.0 instead, as the authors' programs do for every variant and backbone. It
            changes the ranks of RefPAC-S, though not those of PAC-S.
        untrained: score with the weights that ``model`` names as they are.
        options: those of :class:`suisei.metrics.clipscore.ContrastiveScore`.

    Raises:
        ConfigError: an unknown variant, or a backbone for which the paper gives no w.
        UnavailableError: no trained weights.
    """

    trained = True

    def __init__(
        self,
        checkpoint: str | Path | None = None,
        *,
        variant: str = "pac-s",
        references: bool = False,
        model: str | Path = MODEL,
        w: float | None = None,
        code_w: bool = False,
        untrained: bool = False,
        **options: Any,
    ) -> None:
        check("variant", variant, Word(tuple(PAPER_W)))
        if not weights_given(checkpoint, untrained, options) and not Path(model).is_dir():
            raise UnavailableError(
                f"{variant} needs its trained weights: {variant}:CHECKPOINT with the authors' file or with "
                "a model folder trained here; or untrained=true for the CLIP weights as they are"
            )
        if w is not None and code_w:
            raise ConfigError("give either w or code_w")
        model, checkpoint = folder_as_model(model, checkpoint)
        self.name = f"ref-{variant}" if references else variant
        if w is None:
            w = CODE_W if code_w else _paper_w(self.name, variant, model, options.get("encoder"))
        super().__init__(w=w, references=references, model=model, checkpoint=checkpoint, **options)


def _paper_w(name: str, variant: str, model: str | Path, encoder: DualEncoder | None) -> float:
    table = PAPER_W[variant]
    if "" in table:
        return table[""]
    if encoder is not None:
        backbone, shown = like(encoder.architecture, table), encoder.name
    elif Path(model).is_dir():  # whatever it is called
        from suisei.encoders.descriptions import read_description

        backbone, shown = like(read_description(Path(model))[0], table), str(model)
    else:
        shown = split_tag(model)[0]
        backbone = shown.replace("/", "-").removesuffix("-quickgelu")
    if backbone in table:
        return table[backbone]
    known = ", ".join(f"{known} {value:g}" for known, value in table.items())
    raise ConfigError(
        f"{name}: the paper gives no w for the architecture of {shown!r} (only {known}); give w, as by "
        f"{given_as(f'{name}.w=2.5')}, or code_w"
    )
