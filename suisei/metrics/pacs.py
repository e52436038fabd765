"""PAC-S, RefPAC-S (Sarto et al., 2023) and their PAC-S++ variants (Sarto et al., 2024).

The formulas are CLIPScore's; what differs is the dual encoder, trained with generated images and
captions as additional positives, and the scale w.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.clipscore import ContrastiveScore
from suisei.metrics.dual_metric import MODEL, folder_as_model, split_tag, weights_given

CODE_W = 2.0
"""The scale in every program of the authors, whatever the variant and the backbone."""

PAPER_W: dict[str, dict[str, float]] = {
    "pac-s": {"": 2.0},
    "pac-s++": {"ViT-B-32": 2.5, "ViT-L-14": 3.0},
}
"""The scale in the papers, by variant and backbone; "" stands for every backbone."""


class PacScore(ContrastiveScore):
    """PAC-S in [0, w], or RefPAC-S: equations 1, 5 and 6 of the first paper, 4 and 5 of the second.

    Args:
        checkpoint: the trained weights: a file as the authors publish it, or a model folder with
            ``open_clip_config.json``.
        variant: "pac-s" or "pac-s++".
        references: whether the reference term enters (RefPAC-S).
        model: the open_clip model that a checkpoint file belongs to, with ``@TAG`` where it was not
            trained from OpenAI's weights.
        w: the scale; None takes the paper's for the variant and the backbone.
        code_w: take 2.0 instead, as the authors' programs do for every variant and backbone. It
            changes the ranks of RefPAC-S, though not those of PAC-S.
        untrained: score with the weights that ``model`` names as they are.
        options: those of :class:`suisei.metrics.clipscore.ContrastiveScore`.

    Raises:
        ConfigError: an unknown variant, or a backbone for which the paper gives no w.
        UnavailableError: no trained weights.
    """

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
        if variant not in PAPER_W:
            raise ConfigError(f"variant is {variant!r}; expected one of {', '.join(PAPER_W)}")
        if not weights_given(checkpoint, untrained, options) and not Path(model).is_dir():
            raise UnavailableError(
                f"{variant} needs its trained weights: {variant}:CHECKPOINT with the authors' file or with "
                "a model folder trained here; or untrained=true for the CLIP weights as they are"
            )
        if w is not None and code_w:
            raise ConfigError("give either w or code_w")
        model, checkpoint = folder_as_model(model, checkpoint)
        scale = CODE_W if code_w else w if w is not None else _paper_w(variant, model)
        self.name = f"ref-{variant}" if references else variant
        super().__init__(w=scale, references=references, model=model, checkpoint=checkpoint, **options)


def _paper_w(variant: str, model: str | Path) -> float:
    table = PAPER_W[variant]
    backbone = Path(split_tag(model)[0]).name if Path(model).is_dir() else split_tag(model)[0]
    backbone = backbone.replace("/", "-").removesuffix("-quickgelu")
    scale = table.get(backbone, table.get(""))
    if scale is None:
        known = ", ".join(f"{name} {value:g}" for name, value in table.items())
        raise ConfigError(f"the {variant} paper gives no w for {backbone!r} (only {known}); give w or code_w")
    return scale
