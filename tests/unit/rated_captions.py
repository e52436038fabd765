"""Rated captions in both languages, two of an image each."""

from suisei.data.sample import CaptionSample, Rating


def captions(count=20):
    rows = []
    for n in range(count):
        quality = (n % 5) / 4
        fields = {"rating": Rating((quality,)), "group": f"g{n // 2}"}
        refs = tuple(f"reference {n} {k} of a dog" for k in range(3))
        rows.append(CaptionSample(f"a brown dog runs on the grass {n}", refs, language="en", **fields))
        rows.append(CaptionSample(f"茶色い犬が草の上を走る{n}", ("犬が走る", "草の上の犬"), **fields))
    return rows
