"""Importing the package and asking for help load nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "lightning",
    "open_clip",
    "scipy",
    "sklearn",
    "matplotlib",
    "PIL",
    "pyarrow",
)

PROGRAM = """
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()):
    {code}
print([name for name in {heavy!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    "code",
    [
        "import suisei; dir(suisei); suisei.__version__",
        "from suisei.__main__ import main; assert main(['--help']) == 0",
        "from suisei.__main__ import main; assert main([]) == 0",
        "from suisei.__main__ import main; assert main(['--version']) == 0",
        "import suisei; suisei.CaptionSample('a dog', ('a dog',)); suisei.get_metric",
    ],
)
def test_nothing_heavy_is_imported(code):
    program = PROGRAM.format(code=code, heavy=HEAVY)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_public_names_are_there_and_others_are_not():
    import suisei

    for name in suisei.__all__:
        assert getattr(suisei, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = suisei.nothing


def test_scoring_with_a_small_model_imports_no_library_of_models(model_folder):
    """Each of them takes longer to import than a thousand captions to score."""
    code = f"import suisei; suisei.load({str(model_folder)!r}).score(['a dog'], [['two dogs']])"
    slow = ("transformers", "lightning", "open_clip", "torchvision", "sklearn", "matplotlib", "scipy.stats")
    slow += ("torch._dynamo", "sympy")  # what drawing random weights without memory would import
    program = PROGRAM.format(code=code, heavy=slow)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_scoring_with_text_metrics_imports_no_torch(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"candidate": "a dog", "references": ["two dogs", "a cat"]}\n' * 2)
    arguments = ["score", "--metrics", "bleu-1", "--input", str(rows)]
    code = f"from suisei.__main__ import main; assert main({arguments!r}) == 0"
    program = PROGRAM.format(code=code, heavy=[name for name in HEAVY if name != "PIL"])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
