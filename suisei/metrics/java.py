"""The Java programs inside pycocoevalcap: how they are run, and Stanford's tokenizer.

pycocoevalcap's own wrappers discard Java's error output and wait for ever when it stops answering.
Here a program that dies, hangs or answers nonsense raises an error with what Java said.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from suisei.errors import UnavailableError

LINE_ENDS = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
"""What Java ends a line at."""
_SHOWN_LINES = 12


def java_command() -> str | None:
    """Return the path of the ``java`` program: from JAVA_HOME if that is set, else from the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (found := shutil.which(str(Path(home) / "bin" / "java"))):
        return found
    return shutil.which("java")


def pycocoevalcap_reason() -> str | None:
    """Return why the Java programs cannot run here, or None if they can."""
    if find_spec("pycocoevalcap") is None:
        return "needs pycocoevalcap: pip install 'suisei[java]'"
    if java_command() is None:
        return "needs a Java runtime (8 or newer): install one so that `java -version` works"
    return None


def package_folder() -> Path:
    """Return the folder of pycocoevalcap.

    Raises:
        UnavailableError: it is not installed.
    """
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError("pycocoevalcap is not installed: pip install 'suisei[java]'")
    return Path(next(iter(spec.submodule_search_locations)))


def require(reason: str | None, what: str) -> None:
    """Refuse to go on where there is a reason why something cannot run.

    Raises:
        UnavailableError: there is one.
    """
    if reason:
        raise UnavailableError(f"{what} {reason}")


def java_ptb(texts: Sequence[str], *, timeout: float = 600.0) -> list[list[str]]:
    """Return the lower-cased tokens of each text, punctuation kept, by Stanford CoreNLP 3.4.1.

    Raises:
        UnavailableError: Java failed, took longer than ``timeout`` seconds, or lost lines.
    """
    if not texts:
        return []
    require(pycocoevalcap_reason(), "Stanford's tokenizer")
    jar = package_folder() / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    program = ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"]
    lines = "".join(LINE_ENDS.sub(" ", text) + "\n" for text in texts)
    output = run_java(["-cp", str(jar), *program], "Stanford's tokenizer", timeout, lines)
    answers = output.split("\n")[:-1]
    if len(answers) != len(texts):
        raise UnavailableError(
            f"Stanford's tokenizer returned {len(answers)} lines for {len(texts)} captions; "
            "use tokenizer 'ptb', which needs no Java"
        )
    return [answer.split() for answer in answers]


def run_java(
    arguments: list[str], what: str, timeout: float, text: str = "", folder: Path | None = None
) -> str:
    """Run Java to its end and return its standard output.

    Args:
        arguments: of ``java``.
        what: the program, for messages.
        timeout: seconds that it may take.
        text: its standard input.
        folder: where it runs; None for the current one.

    Raises:
        UnavailableError: it failed, or took longer.
    """
    command = [cast(str, java_command()), "-Dfile.encoding=UTF-8", *arguments]
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{what} took longer than {timeout:g} s and was stopped") from error
    if done.returncode:
        raise UnavailableError(
            f"{what} failed with status {done.returncode}; Java said:\n{first_lines(done.stderr)}"
        )
    return done.stdout


def first_lines(text: str) -> str:
    """Return the beginning of what a program said."""
    lines = text.strip().splitlines()
    return "\n".join(lines[:_SHOWN_LINES]) or "(nothing)"
