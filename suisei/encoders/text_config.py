"""The settings of a text encoder."""

from __future__ import annotations

from dataclasses import dataclass, field

from suisei.encoders.tiny import TinyTextConfig
from suisei.ranges import NAME, SWITCH, Either, Rule, Word, at_least, check_settings

LAYERS = ("mix", "last")
RULES: dict[str, Rule] = {
    "name": NAME,
    "layers": Either(Word(LAYERS), at_least(1, 1000)),
    "frozen": SWITCH,
    "trained_layers": at_least(1, 1000, null=True),
    "checkpointing": SWITCH,
}


@dataclass
class TextEncoderConfig:
    """Which text encoder, and how it is used.

    Attributes:
        name: a Hugging Face encoder name or a local folder, also of a trained model, for its text encoder;
            "tiny" is a small one built from ``tiny``.
        layers: "mix" for a learned mixture of all layers, "last" for the last layer alone; a number for the
            state after so many layers, counted from the first, where those above are left out. Lower layers
            keep to words, and err on other captions than the last.
        frozen: whether the encoder keeps its weights; its features are then computed once.
        trained_layers: how many layers are trained, counted from the last; embeddings and the layers below
            keep their weights, and in training nothing of theirs is dropped. As many as there are layers
            leaves the embeddings alone, two thirds of XLM-R base's weights, as in COMET. Null trains all. Of
            BERT's kind with ``layers: last``, what lies below is computed once for a whole run.
        checkpointing: whether training keeps the input of each layer alone and computes the rest once
            more on the way back: much less memory, a third more time, the same numbers.
        tiny: size of the encoder when the name is "tiny".
    """

    name: str = "FacebookAI/xlm-roberta-base"
    layers: int | str = "mix"
    frozen: bool = False
    trained_layers: int | None = None
    checkpointing: bool = False
    tiny: TinyTextConfig = field(default_factory=TinyTextConfig)

    def __post_init__(self) -> None:
        check_settings("model.text", self, RULES)

    @property
    def depth(self) -> int | None:
        """How many layers are there; None for all."""
        return self.layers if isinstance(self.layers, int) else None

    @property
    def states(self) -> str:
        """Which states are read of the layers that are there, of LAYERS."""
        return self.layers if isinstance(self.layers, str) else "last"
