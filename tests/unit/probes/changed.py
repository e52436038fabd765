"""What a rule makes of a caption."""

from suisei.probes.degrade import degrade


def every(caption, name, language, references=()):
    """Return what all seeds make of a caption."""
    made = {degrade(caption, name, language=language, seed=n, references=references) for n in range(40)}
    return made - {None}
