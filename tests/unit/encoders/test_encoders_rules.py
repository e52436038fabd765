"""What goes wrong while a model is built names the folder, once."""

from pathlib import Path

import pytest

from suisei.encoders.rules import built_from
from suisei.errors import ConfigError, ModelError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("head.layers is 0"), "some/model: head.layers is 0"),
        (ModelError("some/model: idf.json is missing"), "some/model: idf.json is missing"),
        (RuntimeError("sizes\ndiffer"), "some/model: its parts do not go together: sizes differ"),
        (KeyError(), "some/model: its parts do not go together: KeyError"),
    ],
)
def test_errors_of_building_name_the_folder(error, said):
    with pytest.raises(ModelError) as caught, built_from(Path("some/model")):
        raise error
    assert str(caught.value) == said
    assert caught.value.__suppress_context__


def test_a_defect_and_an_interruption_pass():
    for error in (KeyboardInterrupt, NameError):
        with pytest.raises(error), built_from(Path("some/model")):
            raise error
