"""The feed-forward network that turns fused features into a score."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from suisei.errors import ConfigError

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


class FeedForward(nn.Module):
    """Linear layers with an activation and dropout between them: [B, n] to logits [B].

    Args:
        in_features: width of the fused features, n.
        hidden: widths of the hidden layers.
        activation: "tanh" (the paper's), "relu" or "gelu".
        dropout: probability of dropping a hidden unit in training.
        input_dropout: probability of dropping an input feature in training.
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int] = (2304, 1152),
        activation: str = "tanh",
        dropout: float = 0.1,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"no activation {activation!r}; there are: {', '.join(ACTIVATIONS)}")
        if any(width < 1 for width in hidden):
            raise ConfigError(f"hidden layer widths must be positive, got {list(hidden)}")
        layers: list[nn.Module] = []
        if input_dropout:
            layers.append(nn.Dropout(input_dropout))
        width = in_features
        for next_width in hidden:
            layers += [nn.Linear(width, next_width), ACTIVATIONS[activation](), nn.Dropout(dropout)]
            width = next_width
        layers.append(nn.Linear(width, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Return what the sigmoid turns into a score, float32 of shape [B]."""
        logits: Tensor = self.layers(features).float().squeeze(-1)
        return logits
