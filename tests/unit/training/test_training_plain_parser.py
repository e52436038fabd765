"""The parser of a training's settings: numbers of batches and shares of them."""

import pytest
from lightning.pytorch import Trainer

from suisei.training.plain_parser import PlainParser

COUNTED = ("limit_train_batches", "limit_val_batches", "val_check_interval")
SHARE_FIRST = float | int | str | None
"""With text among them, for typing may have one made of numbers alone already, in the other order."""


def parsed(*arguments):
    parser = PlainParser()
    parser.add_lightning_class_args(Trainer, "trainer")
    return parser.parse_args(list(arguments)).trainer


@pytest.mark.parametrize("name", COUNTED)
def test_a_number_of_batches_is_no_share_in_whichever_order_its_types_stand(monkeypatch, name):
    monkeypatch.setitem(Trainer.__init__.__annotations__, name, SHARE_FIRST)
    monkeypatch.setitem(Trainer.__init__.__wrapped__.__annotations__, name, SHARE_FIRST)
    for text, value in (("1", 1), ("3", 3), ("1.0", 1.0), ("0.5", 0.5), ("null", None)):
        read = parsed(f"--trainer.{name}={text}")[name]
        assert (read, type(read)) == (value, type(value))
