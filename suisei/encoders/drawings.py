"""Images that a text-to-image model draws from captions, kept on disk under all that decides them.

A file's name is a hash of the model, its version and settings, the caption and the seed, so that nothing has
to be invalidated, nothing is drawn twice, and a run that was cut off goes on where it stopped. Files appear
whole or not at all; two processes that draw the same image write the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.data.item_seeds import item_seed, text_key
from suisei.encoders.locks import Lock
from suisei.errors import ConfigError, DataError, UnavailableError, one_line
from suisei.progress import progress_bar

if TYPE_CHECKING:
    from PIL.Image import Image

    from suisei.encoders.text_to_image import Illustrator, PipelineKind

FOLDER = "drawings"
"""Folder of images within a folder of caches."""
DECLINED = "declined by the model's safety checker, or black throughout"
_LAYOUT = 1
_PART = 8  # pixels that a pipeline's latent image has one value for, on each side
_KEY = "suisei-drawing"
_OWN = re.compile(r"[0-9a-f]{40}\.(png|declined\.json)|\.[0-9a-f]{40}\.[0-9a-f.]+\.(png|json)")
"""Names of the files that are kept, and of what a process that was killed has left of writing them."""
_DRAWING_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)

Drawn = list[Path] | str
"""The files of a caption's images, or why it has none."""


class Drawings:
    """Several images per caption, each drawn once.

    Args:
        model: a text-to-image model of diffusers: its name on the hub, or a folder.
        revision: of the hub's model.
        images: how many are drawn from each caption.
        seed: of the run. An image's own seed follows from it, the caption and the image's number alone.
        steps: denoising steps.
        guidance: strength of the classifier-free guidance.
        draw_size: width and height in pixels, a multiple of 8; None for the model's own.
        device: a torch device, or "auto".
        cache: where images are kept: a folder of caches; "off" for this object's life only; None for what
            SUISEI_CACHE says, and without it the user's folder of caches.

    Raises:
        ConfigError: a setting out of its range.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        images: int = 3,
        seed: int = 0,
        steps: int = 50,
        guidance: float = 7.5,
        draw_size: int | None = None,
        device: str = "auto",
        cache: str | Path | None = None,
    ) -> None:
        for name, value, least in (
            ("images", images, 1),
            ("seed", seed, 0),
            ("steps", steps, 1),
            ("draw_size", draw_size, 8),
        ):
            if value is None and name == "draw_size":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
        check_draw_size("draw_size", draw_size)
        if isinstance(guidance, bool) or not isinstance(guidance, int | float) or not 0 <= guidance < 1e4:
            raise ConfigError(f"guidance must be a number of at least 0, got {guidance!r}")
        self.model, self.revision, self.images, self.seed = model, revision, images, seed
        self.steps, self.guidance, self.draw_size, self.device = steps, float(guidance), draw_size, device
        self.folder = drawings_folder(cache)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._kind: PipelineKind | None = None
        self._illustrator: Illustrator | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_illustrator": None, "_temporary": None}

    @property
    def kind(self) -> PipelineKind:
        """What the model is; none of its weights are loaded for that."""
        from suisei.encoders.text_to_image import read_pipeline

        with self._lock:
            if self._kind is None:
                self._kind = read_pipeline(self.model, self.revision)
            return self._kind

    def settings(self) -> dict[str, str]:
        """Return what decides the images, for a metric's signature."""
        own = {
            "draws": f"{self.kind.name}@{self.kind.revision}",
            "images": str(self.images),
            "seed": str(self.seed),
            "pipeline": self.kind.pipeline,
            "scheduler": self.kind.scheduler,
            "steps": str(self.steps),
            "guidance": f"{self.guidance:g}",
        }
        if self.draw_size is not None:
            own["drawn"] = f"{self.draw_size}px"
        return {**own, "drawn-in": self._dtype()}

    def of(
        self, captions: Sequence[str], *, batch_size: int | None = None, progress: bool = False
    ) -> dict[str, Drawn]:
        """Return the images of captions, drawing those that are not there.

        Args:
            captions: any number, each of them drawn once however often it occurs.
            batch_size: images that are drawn at once, at most; halved where memory is short.
            progress: whether to show a progress bar on standard error while something is drawn.

        Returns:
            {caption: its files, or why an image of it could not be drawn}.

        Raises:
            UnavailableError: the model cannot be had, memory is short for a single image, or the folder
                cannot be written to.
            ModelError: no text-to-image model.
        """
        with self._lock:
            wanted = {
                (caption, number): self._path(caption, number)
                for caption in dict.fromkeys(captions)
                for number in range(self.images)
            }
            problems: dict[tuple[str, int], str] = {}
            todo = []
            for job, path in wanted.items():
                reason = _declined(path)
                if reason is not None:
                    problems[job] = reason
                elif not _is_whole(path):
                    todo.append(job)
            problems |= self._draw_all(todo, batch_size, progress)
        found: dict[str, Drawn] = {}
        for caption in dict.fromkeys(captions):
            jobs = [(caption, number) for number in range(self.images)]
            wrong = next((job for job in jobs if job in problems), None)
            found[caption] = (
                [wanted[job] for job in jobs]
                if wrong is None
                else f"{problems[wrong]}; image {wrong[1] + 1} of {self.images}"
            )
        return found

    def _draw_all(
        self, todo: Sequence[tuple[str, int]], batch_size: int | None, progress: bool
    ) -> dict[tuple[str, int], str]:
        """Draw and keep images; returns why some could not be drawn."""
        if not todo:
            return {}
        from suisei.encoders.batch_sizes import DRAWINGS, DRAWINGS_CUDA, in_batches

        illustrator = self._loaded()
        at_once = DRAWINGS_CUDA if illustrator.device.type == "cuda" else DRAWINGS
        problems: dict[tuple[str, int], str] = {}
        with progress_bar("drawing", len(todo), shown=progress) as advance:
            for batch, made in in_batches(todo, min(batch_size or at_once, at_once), self._draw):
                for job, image in zip(batch, made, strict=True):
                    if isinstance(image, str):
                        problems[job] = image
                        continue
                    if image is None:
                        problems[job] = DECLINED
                    self._keep(job, image)
                advance(len(batch))
        return problems

    def _draw(self, jobs: Sequence[tuple[str, int]]) -> list[Image | str | None]:
        """Return an image per job, None where it is declined, or what went wrong."""
        from suisei.encoders.batch_sizes import is_out_of_memory

        captions, seeds = [caption for caption, _ in jobs], [self._seed(*job) for job in jobs]
        try:
            return list(self._loaded().generate(captions, seeds))
        except _DRAWING_ERRORS as error:
            if is_out_of_memory(error):
                raise
            if len(jobs) > 1:  # one of them is to blame
                return [image for job in jobs for image in self._draw([job])]
            return [f"the model failed with {type(error).__name__}, {one_line(error)}"]

    def _loaded(self) -> Illustrator:
        if self._illustrator is None:
            from suisei.encoders.text_to_image import Illustrator

            self._illustrator = Illustrator(
                self.model,
                revision=self.revision,
                device=self.device,
                steps=self.steps,
                guidance=self.guidance,
                size=self.draw_size,
            )
        return self._illustrator

    def _seed(self, caption: str, number: int) -> int:
        return item_seed(self.seed, f"{text_key(caption)}#{number}")

    def _dtype(self) -> str:
        from suisei.encoders.text_to_image import generator_device

        return str(generator_device(self.device)[1]).removeprefix("torch.")

    def _path(self, caption: str, number: int) -> Path:
        kind = self.kind
        version = kind.revision if kind.revision.startswith("sha256-") else f"{kind.name}@{kind.revision}"
        decides = [
            _LAYOUT, version, kind.pipeline, kind.scheduler, self.steps, self.guidance, self.draw_size,
            self._dtype(), caption, self._seed(caption, number),
        ]  # fmt: skip
        key = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:40]
        return self._root() / key[:2] / f"{key}.png"

    def _root(self) -> Path:
        if self.folder is not None:
            return self.folder
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="suisei-drawings-")
        return Path(self._temporary.name)

    def _keep(self, job: tuple[str, int], image: Image | None) -> None:
        """Write an image with what it was drawn from, or that it was declined."""
        from suisei.data.writers import replacing

        path = self._path(*job)
        about = {"caption": job[0], "seed": str(self._seed(*job)), "model": self.kind.name}
        target = path if image is not None else _declined_path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:
                if image is None:
                    temporary.write_text(json.dumps({**about, "problem": DECLINED}), encoding="utf-8")
                else:
                    _save(image, temporary, {_KEY: path.stem, **about})
        except (OSError, DataError) as error:
            raise UnavailableError(
                f"generated images cannot be kept in {self._root()} ({error}); make room there, or choose "
                "another folder: --cache DIR"
            ) from None


def check_draw_size(name: str, size: int | None) -> None:
    """Refuse a side in pixels that pipelines cannot draw: they work on parts of 8 by 8.

    Args:
        name: the setting's, for messages.
        size: the side; None for the model's own.

    Raises:
        ConfigError: it is no multiple of 8.
    """
    if size is not None and size % _PART:
        less = size - size % _PART
        raise ConfigError(f"{name} must be a multiple of {_PART}, got {size}; give {less} or {less + _PART}")


def _save(image: Image, path: Path, about: Mapping[str, str]) -> None:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    for name, text in about.items():
        info.add_itxt(name, text)
    image.convert("RGB").save(path, format="PNG", pnginfo=info)


def _is_whole(path: Path) -> bool:
    """Whether the file is there, undamaged, and the one that its name says; what is not is drawn again."""
    from PIL import Image

    with suppress(OSError, SyntaxError, ValueError), Image.open(path, formats=("PNG",)) as image:
        named = image.info.get(_KEY) == path.stem
        image.verify()
        return named
    return False


def _declined_path(path: Path) -> Path:
    return path.with_suffix(".declined.json")


def _declined(path: Path) -> str | None:
    try:
        return str(json.loads(_declined_path(path).read_text(encoding="utf-8"))["problem"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drawings_folder(cache: str | Path | None = None) -> Path | None:
    """Return where images are kept by default or by choice, None for nowhere; see :class:`Drawings`."""
    from suisei.encoders.cache_place import VARIABLE, default_folder

    chosen = cache if cache is not None else os.environ.get(VARIABLE) or None
    if chosen is not None and str(chosen) == "off":
        return None
    return (Path(chosen).expanduser() if chosen is not None else default_folder()) / FOLDER


def kept_drawings(folder: Path) -> list[Path]:
    """Return the files that :class:`Drawings` has written to a folder; whatever else lies there is a user's.

    Args:
        folder: as :func:`drawings_folder` gives it; it need not be there.

    Raises:
        OSError: the folder cannot be read.
    """
    return [
        path
        for path in folder.glob("[0-9a-f][0-9a-f]/*")
        if _OWN.fullmatch(path.name)
        and path.name.lstrip(".").startswith(path.parent.name)
        and not path.is_dir()
    ]


def remove_drawings(folder: Path) -> None:
    """Remove :func:`kept_drawings`, and the folders that are empty then.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in kept_drawings(folder):
        path.unlink(missing_ok=True)
    for empty in (*folder.glob("[0-9a-f][0-9a-f]"), folder):
        with suppress(OSError):  # not empty, or no folder
            empty.rmdir()
