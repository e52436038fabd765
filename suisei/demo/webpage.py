"""The page itself, made of Gradio's parts. It keeps nothing and asks nobody."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.sample import LANGUAGES, CaptionSample
from suisei.demo.panels import EMPTY, STYLE, explanation_panel, score_panel
from suisei.demo.scoreboard import FORMATS, MAX_ROWS, Scoreboard, write_table
from suisei.demo.uploads import UploadsAlone
from suisei.errors import DataError, SuiseiError, UnavailableError
from suisei.resources import resource_path

SHOWN_ROWS = 200
"""Rows of a scored file that are shown; the file to be downloaded has all."""
LIFETIME = 3600
"""Seconds that a visitor's files may lie in the temporary folder."""

_INTRODUCTION = (
    "# SuiSei\nRates how well a caption describes an image, the way people would: from 0 to 1, in English or "
    "Japanese. References and image may each be left out."
)
_FILE_HINT = (
    f"A file of captions ({', '.join(FORMATS)}, up to {MAX_ROWS:,} rows) with a column `candidate` and, "
    "where there are any, `references`. Images that a file names are not read; `suisei score` reads them."
)

_OTHER_FORM = (
    "the request does not have the form that the page reads: all of its values, and of a file what its "
    "upload to this page returned (gradio_client.handle_file uploads)"
)


def load_gradio() -> Any:
    """Return Gradio.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        import gradio
    except ImportError as error:
        raise UnavailableError(f"the page needs gradio ({error}): pip install 'suisei[demo]'") from None
    return gradio


def make_page(board: Scoreboard) -> Any:
    """Return the page, as Gradio's ``Blocks``.

    Args:
        board: computes what is shown.
    """
    gr = load_gradio()
    with gr.Blocks(title="SuiSei", analytics_enabled=False, delete_cache=(60, LIFETIME)) as page:
        gr.Markdown(_INTRODUCTION)
        with gr.Tab("One caption"):
            _one_caption(gr, board)
        with gr.Tab("A file of captions"):
            _a_file(gr, board)
    page.preprocess_data = _in_form(gr, page.preprocess_data)
    return page


def launch_settings(
    gr: Any, *, host: str, port: int | None, megabytes: int, folder: Path | str
) -> dict[str, Any]:
    """Return what ``Blocks.launch`` is told: fonts of this machine alone, no tunnel, uploads and their limit.

    Args:
        gr: Gradio.
        host: address to answer on.
        port: None for the first free one.
        megabytes: of an upload.
        folder: where uploads lie.
    """
    from starlette.middleware import Middleware

    size = megabytes * 2**20
    fonts = ["ui-sans-serif", "system-ui", "Hiragino Sans", "Noto Sans CJK JP", "Meiryo", "sans-serif"]
    return {
        "server_name": host,
        "server_port": port,
        "share": False,
        "max_file_size": size,
        "app_kwargs": {"middleware": [Middleware(UploadsAlone, folder=folder, limit=size)]},
        "theme": gr.themes.Default(primary_hue="blue", font=fonts, font_mono=["ui-monospace", "monospace"]),
        "css": STYLE,
        "footer_links": [],
        "run_history": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "mcp_server": False,
        "quiet": True,
    }


def _one_caption(gr: Any, board: Scoreboard) -> None:
    with gr.Row():
        with gr.Column():
            image = gr.Image(type="filepath", label="Image", sources=["upload", "clipboard"], height=260)
            caption = gr.Textbox(label="Caption", placeholder="a dog runs across the grass")
            references = gr.Textbox(
                label="References, one a line", lines=3, placeholder="what people wrote of it"
            )
            with gr.Row():
                gr.ClearButton([image, caption, references], value="Clear")
                button = gr.Button("Score", variant="primary")
            gr.Examples(examples(), [caption, references, image], label="Drawn scenes, good captions and bad")
        with gr.Column():
            scores, why = gr.HTML(EMPTY), gr.HTML()

    def sample_of(caption: Any, references: Any, image: Any) -> CaptionSample:
        return board.one(str(caption or ""), str(references or ""), _uploaded(image, "image"))

    @_told(gr)
    def score(*given: Any) -> str:
        return score_panel(board.scores(sample_of(*given)))

    def explain(*given: Any) -> Iterator[Any]:
        """In steps: Gradio asks for no more of what was cancelled, or whose visitor has left."""
        with _in_one_line(gr, given):
            sample = sample_of(*given)
            if not board.explains(sample):
                yield ""
                return
            for explanation in board.explanation(sample):
                yield gr.skip() if explanation is None else explanation_panel(explanation)

    given = [caption, references, image]
    # in the browser alone; Clear and the examples change what is given, too
    empty = {
        "fn": None,
        "outputs": [scores, why],
        "js": f"() => {json.dumps([EMPTY, ''])}",
        "api_visibility": "private",
    }
    asked = [button.click, caption.submit]
    # first, and at no failure: Gradio takes what is cancelled for failed, when newer scores may be there
    gr.on(asked, **empty)
    # preprocess: Gradio would open the image, in any format, and make its colours RGB in a way of its own
    scored = gr.on(asked, score, given, scores, api_name="score", preprocess=False)
    # an event of its own: it may take a while, in which others are scored
    explained = scored.success(explain, given, why, api_name="explain", preprocess=False)
    gr.on([each.change for each in given], **empty, cancels=[scored, explained])


def _uploaded(file: Any, what: str) -> str | None:
    """Return the path of a file as a request names it, which the middleware has looked at.

    Args:
        file: as the request gives it, None for none.
        what: it is, for the message.

    Raises:
        DataError: it is named in another way.
    """
    if file is None:
        return None
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        raise DataError(f"the {what} must be uploaded to this page")
    path: str = file["path"]
    return path


def _a_file(gr: Any, board: Scoreboard) -> None:
    gr.Markdown(_FILE_HINT)
    upload = gr.File(label="Captions", file_types=list(FORMATS), type="filepath", height=140)
    button = gr.Button("Score the file", variant="primary")
    said = gr.Markdown()
    table = gr.Dataframe(interactive=False, wrap=True, visible=False)
    download = gr.DownloadButton("Download all rows (CSV)", visible=False)

    @_told(gr)
    def score(file: Any) -> tuple[Any, Any, Any]:
        path = _uploaded(file, "file")
        if not path:
            raise DataError("Choose a file first.")
        headings, rows = board.table(Path(path))
        result = Path(path).with_name(f"{Path(path).stem}-scores.csv")  # goes with the upload it was made of
        write_table(result, headings, rows)
        shown = f", the first {SHOWN_ROWS} below" if len(rows) > SHOWN_ROWS else ""
        return (
            f"{counted(len(rows), 'row')}{shown}",
            gr.Dataframe(value={"headers": headings, "data": rows[:SHOWN_ROWS]}, visible=True),
            gr.DownloadButton(value=str(result), visible=True),
        )

    # preprocess: Gradio would refuse another kind of file with a traceback where the page runs
    button.click(score, upload, [said, table, download], api_name="score_file", preprocess=False)


def _in_form(gr: Any, read: Callable[..., Any]) -> Callable[..., Any]:
    """Let what reads a request refuse another form in one line: Gradio would print it in a traceback."""

    @wraps(read)
    async def read_or_refuse(*given: Any, **named: Any) -> Any:
        try:
            return await read(*given, **named)
        except Exception:  # noqa: BLE001 - whatever Gradio raises; no code of the page runs in it
            raise gr.Error(_OTHER_FORM, duration=10, print_exception=False) from None

    return read_or_refuse


def _told(gr: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a visitor see what is wrong with what they gave, as one line."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any) -> Any:
            with _in_one_line(gr, given):
                return function(*given)

        return call

    return decorate


@contextmanager
def _in_one_line(gr: Any, given: tuple[Any, ...]) -> Iterator[None]:
    try:
        yield
    except SuiseiError as error:
        message = escape(_public(str(error), given), quote=False)  # Gradio shows it as HTML
        raise gr.Error(message, duration=10, print_exception=False) from None


def _public(message: str, given: tuple[Any, ...]) -> str:
    """Return a message without the folders that a visitor's files lie in for the moment."""
    for each in given:
        value = each.get("path") if isinstance(each, dict) else each
        if isinstance(value, str) and value.startswith(tempfile.gettempdir()):
            message = message.replace(value, Path(value).name)
    return message


def examples() -> list[list[str]]:
    """Return [caption, references, image] of bundled scenes: of each language a good one and a bad one."""
    folder = resource_path("data/scenes")
    rows = [json.loads(line) for line in (folder / "captions.jsonl").read_text("utf-8").splitlines()]
    chosen = []
    for language in reversed(LANGUAGES):
        own = [row for row in rows if row["language"] == language]
        best = next(row for row in own if row["system"] == "faithful" and min(row["rating"]) == 5)
        worse = next(row for row in own if row["system"] == "wrong-count")
        chosen += [best, worse]
    return [[row["candidate"], "\n".join(row["references"]), str(folder / row["image"])] for row in chosen]
