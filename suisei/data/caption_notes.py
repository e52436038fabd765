"""What is to be said of captions whose scores do not compare with those of others."""

from __future__ import annotations

from collections.abc import Sequence

from suisei.data.plain_writing import count_quoted, quoted_note
from suisei.data.sample import CaptionSample
from suisei.data.spoken import across_note, count_across, count_other_scripts, other_scripts_note


def caption_notes(samples: Sequence[CaptionSample]) -> list[str]:
    """Return what is to be said of samples' captions; "of the samples " or the like goes before."""
    counts = {
        across_note: count_across(samples),
        other_scripts_note: count_other_scripts(samples),
        quoted_note: count_quoted(samples),
    }
    return [note(count) for note, count in counts.items() if count]
