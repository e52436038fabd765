"""suisei inside other libraries: one thin file each, named after what it is for.

Nothing of another library is imported before its own file is; scores are those of ``suisei score``.
"""

from pathlib import Path

EVALUATE = str(Path(__file__).resolve().parent / "hf_evaluate.py")
"""What ``evaluate.load`` takes: ``evaluate.load(suisei.adapters.EVALUATE)``."""
