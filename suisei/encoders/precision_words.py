"""The number formats that may be asked for, by name; options list them, and need no torch for it."""

from suisei.ranges import Word

CAPTION_PRECISIONS = ("auto", "fp32", "tf32", "bf16", "fp16")
"""What captions are written in."""
PRECISIONS = (*CAPTION_PRECISIONS, "int8")
"""What metrics compute in; int8 is for text encoders."""
PRECISION = Word(PRECISIONS)
