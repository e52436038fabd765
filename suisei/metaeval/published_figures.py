"""Published figures of known data sets.

Figures are those that papers and their authors' repositories print, with all the digits they give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from suisei.data.benchmarks.consensus50s import KINDS
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.published_backbones import of_backbones


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """The figures that papers report for one data set.

    Attributes:
        source: where the figures are printed.
        raters: how the paper treats a sample's ratings: "rows" or "mean".
        kinds: which figures, in their order: correlations, or columns of a protocol's own table.
        figures: {metric: one value per kind, None where none is known}; the key is the registry name where
            there is one.
        scale: what the printed values are multiplied by: 100 for percentages.
        differences: why ours are not the same, one line each.
        backbones: likewise {metric:backbone: figures}, of other backbones than the papers' own; shown beside
            rows of such a backbone alone.
    """

    source: str
    raters: str
    kinds: tuple[str, ...]
    figures: Mapping[str, tuple[float | None, ...]]
    scale: float = 1.0
    differences: tuple[str, ...] = ()
    backbones: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)


ONE_REFERENCE = "one-reference"
"""Column of FOIL's table: the accuracy with one reference."""

_PAIRS = (*KINDS, "mean")
_FIFTY = (
    "the papers draw five of 48 references five times, and break ties of people and of metrics by chance; "
    "pascal_50s.json holds one draw, which moves a figure of references by up to 2 points",
)

_COMET = (
    "the paper does not say which COMET; here it is wmt22-comet-da unless another is named, which was shown "
    "no captions"
)

_BERTSCORE = (
    "BERTScore's figures are those that Sarto et al. print, who do not say which encoder they are of; here "
    "it is the multilingual BERT unless another is named"
)

_FLICKR8K_SOURCE = (
    "Hessel et al. (EMNLP 2021), table {}; Sarto et al. (CVPR 2023), table 1, with the further digits of "
    "their repository; Wada et al. (CVPR 2024) for Polos"
)

PUBLISHED: dict[str, PublishedFigures] = {
    "flickr8k-expert": PublishedFigures(
        source=_FLICKR8K_SOURCE.format(1),
        raters="rows",
        kinds=("tau-b", "tau-c"),
        scale=100,
        backbones=of_backbones("flickr8k-expert", ("tau-b", "tau-c")),
        figures={
            "bleu-1": (32.175, 32.324),
            "bleu-4": (30.599, 30.776),
            "rouge-l": (32.139, 32.314),
            "meteor": (41.538, 41.822),
            "cider": (43.602, 43.891),
            "spice": (51.7, 44.9),
            "clip-s": (51.1, 51.2),
            "ref-clip-s": (52.6, 53.0),
            "pac-s": (53.919, 54.292),
            "ref-pac-s": (55.5, 55.9),
            "Polos": (56.1, 56.4),
            "bertscore": (None, 39.2),
            "LEIC": (46.6, None),
            "BERT-S++": (None, 46.7),
            "UMIC": (None, 46.8),
            "TIGEr": (None, 49.3),
            "ViLBERTScore": (None, 50.1),
            "MID": (None, 54.9),
        },
        differences=(
            "each of the three ratings is a row beside the pair's score, and pairs whose caption is one of "
            "the image's own are left out, as published; tokenizing by rules instead of by Java moves no "
            "figure by more than 0.0006",
            _BERTSCORE,
        ),
    ),
    "flickr8k-cf": PublishedFigures(
        source=_FLICKR8K_SOURCE.format(2),
        raters="mean",
        kinds=("tau-b", "tau-c"),
        scale=100,
        backbones=of_backbones("flickr8k-cf", ("tau-b", "tau-c")),
        figures={
            "bleu-1": (17.946, 9.256),
            "bleu-4": (16.863, 8.710),
            "rouge-l": (19.903, 10.274),
            "meteor": (22.269, 11.510),
            "cider": (24.619, 12.724),
            "spice": (24.4, 12.0),
            "clip-s": (34.4, 17.7),
            "ref-clip-s": (36.4, 18.8),
            "pac-s": (36.037, 18.628),
            "ref-pac-s": (37.6, 19.5),
            "Polos": (37.8, 19.5),
            "bertscore": (22.8, None),
            "LEIC": (29.5, None),
            "MID": (37.3, None),
        },
        differences=(
            "which captions were the references is not stated fully: none of the rules tried gives all the "
            "published figures, and the nearest, the four captions other than number 2, is used here; they "
            "rest on about 47,830 pairs, and a copy that lacks some moves the figures too",
            _BERTSCORE,
        ),
    ),
    "composite": PublishedFigures(
        source="Hessel et al. (EMNLP 2021), table 3; Sarto et al. (CVPR 2023), table 2; Wada et al. "
        "(CVPR 2024) for Polos; Lee et al. (ACL 2024) for FLEUR",
        raters="rows",
        kinds=("tau-b", "tau-c"),
        scale=100,
        figures={
            "bleu-1": (29.0, 31.3),
            "bleu-4": (28.3, 30.6),
            "rouge-l": (30.0, 32.4),
            "meteor": (36.0, 38.9),
            "cider": (34.9, 37.7),
            "spice": (38.8, 40.3),
            "clip-s": (49.8, 53.8),
            "ref-clip-s": (51.2, 55.4),
            "pac-s": (51.5, 55.7),
            "ref-pac-s": (53.0, 57.3),
            "Polos": (53.7, 57.6),
            "FLEUR": (None, 63.5),
            "bertscore": (None, 30.1),
            "BERT-S++": (None, 44.9),
            "TIGEr": (None, 45.4),
            "ViLBERTScore": (None, 52.4),
            "FAIEr": (None, 51.4),
        },
        differences=(
            "the references of all three captions of an image leave out the human one among them, and CIDEr "
            "is fitted on all rows; so BLEU-1, BLEU-4, METEOR, ROUGE-L and CIDEr agree to within "
            "0.0009, whichever tokenizer is used",
            _BERTSCORE,
        ),
    ),
    "polaris": PublishedFigures(
        source="Wada et al. (CVPR 2024): Polos",
        raters="rows",
        kinds=("tau-c",),
        scale=100,
        figures={
            "bleu-4": (46.3,),
            "rouge-l": (46.3,),
            "meteor": (51.2,),
            "cider": (52.1,),
            "spice": (51.0,),
            "clip-s": (52.3,),
            "ref-clip-s": (52.3,),
            "pac-s": (52.5,),
            "ref-pac-s": (56.0,),
            "Polos": (57.8,),
        },
        differences=(
            "RefCLIP-S and RefPAC-S could not be reproduced by others; that of RefCLIP-S equals CLIP-S's, "
            "and the paper's program has a reference term that does not depend on the references",
        ),
    ),
    "nebula": PublishedFigures(
        source="Matsuda et al. (ACCV 2024): DENEB, with the corrected annotations (arXiv 2512.21582)",
        raters="rows",
        kinds=("tau-b", "tau-c"),
        scale=100,
        figures={
            "bleu-4": (46.5, 44.1),
            "rouge-l": (45.8, 43.4),
            "meteor": (50.2, 47.6),
            "cider": (51.5, 48.8),
            "spice": (51.5, 47.4),
            "clip-s": (50.5, 47.9),
            "ref-clip-s": (None, 46.9),
            "pac-s": (51.0, 48.3),
            "ref-pac-s": (None, 50.6),
            "Polos": (58.0, 55.0),
        },
        differences=(
            "annotation errors of the first release were corrected afterwards, and the files of the hub hold "
            "the first one; RefCLIP-S and RefPAC-S could not be reproduced by others",
        ),
    ),
    "pfn-pic-gen": PublishedFigures(
        source="the SuiSei paper, table 3",
        raters="rows",
        kinds=("pearson", "spearman", "tau-b"),
        figures={
            "bleu-4": (0.484, 0.466, 0.352),
            "rouge-l": (0.500, 0.474, 0.365),
            "meteor": (0.423, 0.457, 0.352),
            "cider": (0.416, 0.462, 0.353),
            "jaspice": (0.547, 0.573, 0.438),
            "comet": (0.439, 0.435, 0.325),
            "suisei": (0.576, 0.590, 0.443),
        },
        differences=(
            "ours have all three references; the authors' program scores the ordered pairs of them (the "
            "table by pairs), and the paper does not say whether it reports the first or the best",
            _COMET,
        ),
    ),
    "pascal-50s": PublishedFigures(
        source="Sarto et al. (CVPR 2023), table 4, which has the rows from BERTScore to MID from earlier "
        "papers; Hessel et al. (EMNLP 2021, as corrected in 2022), table 4, for SPICE; Wada et al. (CVPR "
        "2024) for Polos and Lee et al. (ACL 2024) for FLEUR",
        raters="rows",
        kinds=_PAIRS,
        scale=100,
        backbones=of_backbones("pascal-50s", _PAIRS),
        figures={
            "length": (51.7, 52.3, 63.6, 49.6, 54.3),
            "bleu-1": (64.6, 95.2, 91.2, 60.7, 77.9),
            "bleu-4": (60.3, 93.1, 85.7, 57.0, 74.0),
            "rouge-l": (63.9, 95.0, 92.3, 60.9, 78.0),
            "meteor": (66.0, 97.7, 94.0, 66.6, 81.1),
            "cider": (66.5, 97.9, 90.7, 65.2, 80.1),
            "bertscore": (65.4, 96.2, 93.3, 61.4, 79.1),
            "BERT-S++": (65.4, 98.1, 96.4, 60.3, 80.1),
            "TIGEr": (56.0, 99.8, 92.8, 74.2, 80.7),
            "ViLBERTScore": (49.9, 99.6, 93.1, 75.8, 79.6),
            "FAIEr": (59.7, 99.9, 92.7, 73.4, 81.4),
            "MID": (67.0, 99.7, 97.4, 76.8, 85.2),
            "clip-s": (55.9, 99.3, 96.5, 72.0, 80.9),
            "pac-s": (60.6, 99.3, 96.9, 72.9, 82.4),
            "ref-clip-s": (64.9, 99.5, 95.5, 73.3, 83.3),
            "ref-pac-s": (67.7, 99.6, 96.0, 75.6, 84.7),
            "spice": (63.6, 96.3, 86.7, 68.3, 78.7),
            "Polos": (None, None, None, None, 86.5),
            "FLEUR": (None, None, None, None, 83.3),
        },
        differences=(
            *_FIFTY,
            "Hessel et al. drew other references: their means are 72.6 for BLEU-4, 78.1 for ROUGE-L, 80.1 "
            "for METEOR, 79.6 for CIDEr, 80.7 for CLIP-S and 83.1 for RefCLIP-S, beside which that of SPICE "
            "belongs",
            _BERTSCORE,
        ),
    ),
    "abstract-50s": PublishedFigures(
        source="Hessel et al. (EMNLP 2021), section 5.2, for n-gram metrics; Sarto et al. (CVPR 2023)",
        raters="rows",
        kinds=("mean",),
        scale=100,
        figures={
            "bleu-4": (71,),
            "cider": (79,),
            "meteor": (79,),
            "clip-s": (68.2,),
            "ref-clip-s": (75.8,),
            "pac-s": (69.7,),
            "ref-pac-s": (76.9,),
        },
        differences=_FIFTY[:1],
    ),
    "foil": PublishedFigures(
        source="Hessel et al. (EMNLP 2021), table 5; Sarto et al. (CVPR 2023), table 6, for BLEU-1, PAC-S "
        "and MID",
        raters="rows",
        kinds=(ONE_REFERENCE, "mean"),
        scale=100,
        backbones=of_backbones("foil", (ONE_REFERENCE, "mean")),
        figures={
            "bleu-1": (65.7, 85.4),
            "bleu-4": (66.5, 82.6),
            "rouge-l": (71.7, 79.3),
            "meteor": (78.8, 85.4),
            "cider": (82.5, 90.6),
            "spice": (75.5, 86.1),
            "clip-s": (87.2, 87.2),
            "ref-clip-s": (91.0, 92.6),
            "pac-s": (89.9, 89.9),
            "ref-pac-s": (93.7, 94.9),
            "MID": (90.5, 90.5),
        },
        differences=(
            "Hessel et al. draw one pair per image; all pairs of the test part are taken here, and a tie "
            "counts half",
            "Sarto et al. take the 8,000 images that their training has not seen, and print 87.0 for BLEU-4, "
            "70.4 for ROUGE-L, 82.0 for METEOR and 94.1 for CIDEr with four references: BLEU-1's figure "
            "belongs beside those",
        ),
    ),
    "sugarcrepe": PublishedFigures(
        source="BEiTScore (arXiv 2605.21728), which reads the image",
        raters="rows",
        kinds=("mean",),
        scale=100,
        figures={"BEiTScore": (88.7,)},
        differences=("whether the figure is the mean of the seven kinds or of all pairs is not known here",),
    ),
    "shichimi": PublishedFigures(
        source="the SuiSei paper, table 2, on Shichimi's 103,170 samples and its split by image",
        raters="rows",
        kinds=("pearson", "spearman", "tau-b"),
        figures={
            "bleu-4": (0.296, 0.343, 0.260),
            "rouge-l": (0.366, 0.340, 0.258),
            "meteor": (0.345, 0.366, 0.279),
            "cider": (0.312, 0.355, 0.269),
            "jaspice": (0.499, 0.531, 0.413),
            "comet": (0.624, 0.573, 0.442),
            "suisei": (0.672, 0.644, 0.504),
            HUMAN: (0.759, 0.750, 0.669),
        },
        differences=(
            "the paper states no tokenizer, and it matters: on the 11,900 samples of the dev file, "
            "characters instead of MeCab's words (--tokenizer character) move the Pearson correlation of "
            "BLEU-4 from 0.299 to 0.421 and of ROUGE-L from 0.384 to 0.447",
            "nor does it say how many references n-gram metrics had: with one of the two instead of both, "
            "MeCab's words, Pearson falls for BLEU-4 from 0.299 to 0.212 or 0.219, for CIDEr from 0.373 to "
            "0.278 or 0.285",
            "METEOR here matches Japanese by exact characters; what the paper's METEOR matched is not stated",
            "the dev file is a part of the paper's data; the paper says BLEU without an order, which stands "
            "beside bleu-4, and Kendall without a variant, which stands beside tau-b; its SuiSei was trained "
            "on one half by image and tested on the other",
            _COMET,
        ),
    ),
}

_RECAP = PublishedFigures(
    source="Chang, Feucht and Raman: RECAP, table 1",
    raters="mean",
    kinds=("tau-b",),
    figures={
        "bleu-1": (0.3759,),
        "bleu-2": (0.3923,),
        "bleu-3": (0.3819,),
        "bleu-4": (0.3759,),
        "meteor": (0.4115,),
        "cider": (0.0055,),
        "spice": (0.5913,),
        "clip-s": (0.5947,),
        "recap:ssim": (0.0196,),
        "recap:ms-ssim": (0.0313,),
        "recap:vif": (0.0011,),
        "recap:gmsd": (0.1024,),
        "recap:fsim": (0.1106,),
        "recap:clip-rn50": (0.4722,),
        "recap:clip-vit-l-14": (0.4201,),
        "recap-latent": (0.1075,),
        "recap-noise:ssim": (0.0597,),
        "recap-noise:ms-ssim": (0.0319,),
        "recap-noise:vif": (0.0242,),
        "recap-noise:gmsd": (0.0729,),
        "recap-noise:fsim": (0.0517,),
        "recap-noise:clip-rn50": (-0.0174,),
        "recap-noise:clip-vit-l-14": (-0.0374,),
    },
    differences=(
        "the paper does not say which of Kendall's coefficients it gives",
        "it marks SSIM, MS-SSIM, VIF, GMSD, FSIM and the latent distance as losses, whose coefficients "
        "are negative where they agree with people; every sign is turned here: higher is better",
        "its images are Stable Diffusion 2.1's; figures here are worth as much as the model that draws",
        "its figures of BLEU-1 and BLEU-4 are one number, and CIDEr's is that of a metric fitted on one "
        "image at a time, where every idf weight is 0",
    ),
)

_RECAP_PAIRS = (
    "the paper has all 5,822 pairs, as --data flickr8k-expert-all has; here the 158 whose caption is one of "
    "the image's own are left out, which lowers tau-b of BLEU-1 from 0.377 to 0.339"
)

PUBLISHED_OF_MEANS: dict[str, PublishedFigures] = {
    "flickr8k-expert": replace(_RECAP, differences=(_RECAP_PAIRS, *_RECAP.differences)),
    "flickr8k-expert-all": _RECAP,
}
"""Figures of papers that average the ratings of a sample, where others take each as a row: --raters mean."""
