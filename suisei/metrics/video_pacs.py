"""PAC-S for videos, and EMScore: captions matched with frames, as a whole and token by token.

Shi et al., "EMScore: Evaluating Video Captioning via Coarse-Grained and Fine-Grained Embedding
Matching", CVPR 2022; Sarto et al., 2023, equations 7 and 8, and 2024, equations 6 to 14, with a dual
encoder of their own. Shape letters: L tokens, F frames, d width of the shared space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.given_samples import as_samples
from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample, clip_key, iter_frames
from suisei.errors import ConfigError, DataError, UnavailableError
from suisei.metrics.dual_metric import MODEL, DualMetric, folder_as_model, weights_given
from suisei.metrics.long_captions import overlong_errors
from suisei.metrics.matching import (
    MATCH_SCORES,
    Caption,
    Scores,
    TokenIdf,
    best_reference,
    load_idf,
    match_texts,
    match_video,
)
from suisei.progress import progress_bar
from suisei.ranges import Word, check

VARIANTS = ("em-score", "pac-s", "pac-s++")
PROMPTS = dict.fromkeys(VARIANTS, "")
"""What is put before a caption, by variant. EMScore's program puts nothing there, and neither PAC paper
mentions a prompt for videos."""

VATEX_FRAMES = 10
"""Frames per video in EMScore's evaluation on VATEX-EVAL; its demonstration takes all of them."""

AGGREGATIONS = ("combined", "separate")
OVERLONG = ("cut", "refuse")


class VideoScore(DualMetric):
    """The similarity of a caption and a video, with or without references.

    The score of a caption and a video is the mean of a coarse and a fine part. Coarse: the inner
    product of the caption's end-of-text feature and the normalised mean of the normalised frame
    features. Fine: the F1 of precision (each token's highest cosine with a frame, weighted by the
    token's idf) and recall (the mean over frames of the highest cosine with a token). Tokens include the
    start and the end of text. A reference takes the place of the video token by token, and recall is
    then weighted by the reference's idf. With references the result is the mean of the score of the
    video and the highest score of a reference. The range is [-1, 1], but where precision and recall have
    opposite signs: their F1 has no limits.

    Highest cosines are taken over real tokens and frames alone. EMScore's program pads batches with
    zeros, so there a negative maximum becomes 0 where the caption happens to share its batch with a
    longer one; otherwise the two are equal.

    Args:
        checkpoint: trained weights, as for :class:`suisei.metrics.pacs.PacScore`; not for "em-score".
        variant: "em-score" (CLIP as it is), "pac-s" or "pac-s++".
        references: whether references enter.
        aggregate: how the best reference is found: "combined" takes the highest score (Sarto et al.,
            2023, equation 8), "separate" the highest precision, recall, F1 and coarse score, each from
            whichever reference has it, and combines those, as EMScore's program does.
        part: what ``score`` returns: one of "full", "fine", "precision", "recall", "coarse".
        frames: how many frames, evenly spaced; None for all.
        idf: "fit" for weights that ``fit`` or ``fit_captions`` learns, "none" for weights of 1, or the
            path of a file that ``save_idf`` wrote.
        prompt: put before every caption and reference; None takes the variant's.
        overlong: what to do with captions of more tokens than the text tower reads: "cut" them with a
            warning, or "refuse" them, as EMScore's program does.
        untrained: let a PAC variant score with the weights that ``model`` names as they are.
        options: the encoder's, see :class:`suisei.metrics.dual_metric.DualMetric`.

    Raises:
        ConfigError: an unknown value of an option.
        UnavailableError: a PAC variant without trained weights.
    """

    def __init__(
        self,
        checkpoint: str | Path | None = None,
        *,
        variant: str = "pac-s",
        references: bool = False,
        aggregate: str = "combined",
        part: str = "full",
        frames: int | None = VATEX_FRAMES,
        idf: str | Path | None = "fit",
        prompt: str | None = None,
        overlong: str = "cut",
        untrained: bool = False,
        **options: Any,
    ) -> None:
        check("variant", variant, Word(VARIANTS))
        check("aggregate", aggregate, Word(AGGREGATIONS))
        check("part", part, Word(MATCH_SCORES))
        check("overlong", overlong, Word(OVERLONG))
        if frames is not None and (type(frames) is not int or frames < 1):
            raise ConfigError(f"frames must be a whole number of at least 1, or null for all, got {frames!r}")
        _check_weights(variant, checkpoint, given=weights_given(checkpoint, untrained, options))
        self.trained = variant != "em-score"
        name = f"video-{variant}" if self.trained else variant
        self.name = f"ref-{name}" if references else name
        self.needs = frozenset({"video", "references"} if references else {"video"})
        model, checkpoint = folder_as_model(options.pop("model", MODEL), checkpoint)
        super().__init__(model=model, checkpoint=checkpoint, **options)
        self.references, self.aggregate, self.part = references, aggregate, part
        self.frames, self.overlong = frames, overlong
        self.prompt = PROMPTS[variant] if prompt is None else prompt
        self._weighted = idf not in (None, "none", False)
        self._idf: TokenIdf | None = None
        if self._weighted and idf != "fit":
            self._idf = load_idf(Path(str(idf)))

    def missing(self, samples: Sequence[CaptionSample]) -> dict[int, str]:
        """Return {position: reason} of the samples without a video, or without references."""
        reasons = {}
        for position, sample in enumerate(samples):
            lacks = []
            if self.references and not sample.references:
                lacks.append("references")
            if not isinstance(sample, VideoSample) or sample.video is None:
                lacks.append("video")
            if lacks:
                reasons[position] = f"no {' and no '.join(lacks)}"
        return reasons

    @property
    def needs_fit(self) -> bool:
        """Whether idf weights are asked for and not there yet."""
        return self._weighted and self._idf is None

    def fit(self, samples: Iterable[CaptionSample] | Any) -> None:
        """Learn idf weights from the samples' references.

        Args:
            samples: as :meth:`Metric.score` takes them.

        Raises:
            DataError: no sample has references.
        """
        references = [text for sample in as_samples(samples) for text in sample.references]
        if not references:
            raise DataError(
                f"{self.name} needs captions to learn its idf weights from, and no sample has references; "
                "give idf=FILE, or idf=none for equal weights"
            )
        self.fit_captions(references, corpus="references")

    def fit_captions(self, captions: Iterable[str], *, corpus: str) -> None:
        """Learn idf weights from captions; a document is the set of a padded caption's token ids.

        Args:
            captions: the corpus, such as the training captions of VATEX.
            corpus: its name, for the signature.

        Raises:
            DataError: there is no caption.
        """
        from suisei.encoders.dual_tokens import tokenize

        texts = list(captions)
        if not texts:
            raise DataError(f"the idf corpus {corpus!r} has no captions")
        end = 0
        documents: list[list[int]] = []
        for start in range(0, len(texts), 1024):
            rows = tokenize(self.encoder, texts[start : start + 1024], prompt=self.prompt)
            end = int(rows.ids[0, rows.lengths[0] - 1])
            documents.extend(list(set(row)) for row in rows.ids.tolist())
        self._idf = TokenIdf(IdfTable.fit(documents), end, corpus)

    def state(self) -> dict[str, Any]:
        """Return the idf weights, as values that JSON can hold."""
        return {} if self._idf is None else {"idf": self._idf.as_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        if "idf" in state:
            self._idf, self._weighted = TokenIdf.from_dict(state["idf"]), True

    def save_idf(self, path: Path | str) -> None:
        """Write the idf weights as JSON.

        Raises:
            ConfigError: there are none yet.
            DataError: the file cannot be written.
        """
        if self._idf is None:
            raise ConfigError(f"{self.name} has no idf weights to save; call fit_captions first")
        self._idf.save(Path(path))

    def settings(self) -> dict[str, str]:
        """Return the encoder, prompt, frames, idf corpus, part and how references are aggregated."""
        own = {
            **self.encoder.settings(),
            "prompt": repr(self.prompt),
            "frames": "all" if self.frames is None else str(self.frames),
            "idf": self._idf.label if self._idf else "unfitted" if self._weighted else "none",
            "part": self.part,
            **({} if self.overlong == "cut" else {"overlong": self.overlong}),
        }
        return {**own, "ref": f"max-{self.aggregate}"} if self.references else own

    def parts(
        self,
        samples: Sequence[VideoSample],
        *,
        batch_size: int = 64,
        progress: bool = False,
        refused: dict[int, DataError] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return every part of the score of samples that have all that the metric needs.

        Args:
            samples: N samples.
            batch_size: how many frames are in memory at once; never changes a score.
            progress: whether to show a progress bar on standard error.
            refused: receives {position: error} of samples whose video cannot be decoded or whose
                caption is overlong under "refuse", and their scores are NaN; None to raise the error.

        Returns:
            {"full", "fine" (F1), "precision", "recall", "coarse"}: float64 [N], in input order.

        Raises:
            DataError: a video that cannot be decoded, or an overlong caption under "refuse".
            ConfigError: no idf weights yet.
        """
        if self.needs_fit:
            raise ConfigError(f"{self.name} has no idf weights yet; fit it, or give idf=FILE or idf=none")
        found: list[Scores | None] = [None] * len(samples)
        bad = self._overlong(samples, refuse=refused is None)
        clips: dict[tuple[Any, ...], list[int]] = {}
        for position, sample in enumerate(samples):
            if position not in bad:
                clips.setdefault((str(sample.video), sample.segment), []).append(position)
        with progress_bar("scoring videos", len(clips), shown=progress) as advance:
            for group in _chunks(list(clips.values()), batch_size):
                captions = self._captions([samples[i] for own in group for i in own], batch_size)
                for positions in group:
                    try:
                        frames = self._frames(samples[positions[0]], batch_size)
                    except DataError as error:
                        if refused is None:
                            raise
                        bad.update(dict.fromkeys(positions, error))
                    else:
                        for position in positions:
                            found[position] = self._scores(samples[position], frames, captions)
                    advance(1)
        if refused is not None:
            refused.update(bad)
        rows = [[np.nan if own is None else getattr(own, part) for own in found] for part in MATCH_SCORES]
        return {part: np.array(row, dtype=np.float64) for part, row in zip(MATCH_SCORES, rows, strict=True)}

    def score_each(
        self, samples: Sequence[CaptionSample], *, batch_size: int = 64, progress: bool = False
    ) -> tuple[np.ndarray, dict[int, DataError]]:
        """Score samples in one pass; those whose video cannot be decoded are left out and named."""
        missing = self.missing(samples)
        usable = [position for position in range(len(samples)) if position not in missing]
        videos = [sample for i in usable if isinstance(sample := samples[i], VideoSample)]
        scores, refused = np.full(len(samples), np.nan), dict[int, DataError]()
        if videos:
            parts = self.parts(videos, batch_size=batch_size, progress=progress, refused=refused)
            scores[usable] = parts[self.part]
        return scores, {usable[position]: error for position, error in sorted(refused.items())}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        videos = [sample for sample in samples if isinstance(sample, VideoSample)]
        return self.parts(videos, batch_size=batch_size, progress=progress)[self.part]

    def _frames(self, sample: VideoSample, batch_size: int) -> np.ndarray:
        """Return the unit features of a video's frames, float64 [F, d]."""
        memory = self.encoder.memory

        def encode() -> np.ndarray:
            return self._encode_frames(sample, batch_size)

        return _unit(encode() if memory is None else memory.clip(clip_key(sample, self.frames), encode))

    def _encode_frames(self, sample: VideoSample, batch_size: int) -> np.ndarray:
        """Return the features of a video's frames, float32 [F, d]; decodes a batch at a time."""
        assert sample.video is not None
        features, batch = [], []
        for picture in iter_frames(sample.video, count=self.frames, segment=sample.segment):
            batch.append(picture)
            if len(batch) == batch_size:
                features.append(self.encoder.encode_images(batch, batch_size=batch_size))
                batch = []
        if batch:
            features.append(self.encoder.encode_images(batch, batch_size=batch_size))
        return np.concatenate(features)

    def _captions(self, samples: Sequence[VideoSample], batch_size: int) -> dict[str, Caption]:
        from suisei.encoders.dual_tokens import encode_tokens

        texts = [sample.candidate for sample in samples]
        if self.references:
            texts += [text for sample in samples for text in sample.references]
        unique = list(dict.fromkeys(texts))
        encoded = encode_tokens(self.encoder, unique, prompt=self.prompt, batch_size=4 * batch_size)
        if self._idf is not None and self._idf.end != encoded[0].ids[-1]:
            raise ConfigError(
                f"{self.name}: the idf weights of {self._idf.label} belong to another tokenizer than that of "
                f"{self.encoder.name}; fit them with this one"
            )
        return {
            text: Caption(_unit(own.tokens), _unit(own.pooled[None])[0], self._weights(own.ids))
            for text, own in zip(unique, encoded, strict=True)
        }

    def _weights(self, ids: np.ndarray) -> np.ndarray:
        return np.ones(len(ids)) if self._idf is None else self._idf.weights(ids)

    def _overlong(self, samples: Sequence[VideoSample], *, refuse: bool) -> dict[int, DataError]:
        """Warn, once, of captions that are cut; under "refuse" raise, or return {position: error}."""
        texts = [(sample.candidate, *(sample.references if self.references else ())) for sample in samples]
        if self.overlong == "cut":
            unique = {text for own in texts for text in own}
            self._length_warning(self.encoder, unique, self.prompt, self.model_shown)
            return {}
        bad = overlong_errors(self.name, self.encoder, texts, self.prompt)
        if bad and refuse:
            raise next(iter(bad.values()))
        return bad

    def _scores(self, sample: VideoSample, frames: np.ndarray, captions: dict[str, Caption]) -> Scores:
        candidate = captions[sample.candidate]
        video = match_video(candidate, frames)
        if not self.references:
            return video
        matches = [match_texts(candidate, captions[text]) for text in sample.references]
        return video.mean_with(best_reference(matches, separate=self.aggregate == "separate"))


def _check_weights(variant: str, checkpoint: str | Path | None, *, given: bool) -> None:
    """Refuse EMScore with trained weights, and a PAC variant without any."""
    if variant == "em-score":
        if checkpoint is not None:
            raise ConfigError(
                "em-score takes no checkpoint; it is CLIP as it is. Use pac-s for trained weights"
            )
    elif not given:
        raise UnavailableError(
            f"{variant} for videos needs its trained weights: give `checkpoint`, a file of the authors "
            "or a model folder trained here; or untrained=true for the CLIP weights as they are"
        )


def _chunks(groups: Sequence[list[int]], size: int) -> Iterable[list[list[int]]]:
    """Yield runs of groups that together hold at least ``size`` members, the last fewer."""
    chunk: list[list[int]] = []
    for group in groups:
        chunk.append(group)
        if sum(map(len, chunk)) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _unit(features: np.ndarray) -> np.ndarray:
    from suisei.encoders.dual import normalised

    return normalised(features.astype(np.float64))
