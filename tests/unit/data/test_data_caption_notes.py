"""What is said of captions whose scores do not compare with those of others."""

from suisei.data.caption_notes import caption_notes
from suisei.data.sample import CaptionSample


def test_what_is_said_of_captions():
    across, other = CaptionSample("a dog", ("犬",)), CaptionSample("개가 달린다", ("a dog",))
    quoted = [CaptionSample(text, ("the dog", "犬")) for text in ('"A dog."', "「犬」", "1. A dog")]
    plain = [CaptionSample('a "dog"', ('"a dog"',)), CaptionSample("the dogs'", ("a dog",))]
    assert caption_notes(plain) == []
    notes = caption_notes([across, other, other, *quoted, *plain])
    assert [note.split(" ", 2)[:2] for note in notes] == [["1", "has"], ["2", "have"], ["3", "have"]]
    assert "neither Japanese nor English" in notes[1]
    assert "stands in quotation marks" in notes[2]
