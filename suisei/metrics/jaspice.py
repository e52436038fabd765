"""JaSPICE (Wada et al., 2023) through its HTTP server.

The metric needs JUMAN++, KNP and the Japanese WordNet, which its authors ship as a container that
answers on port 2115 (https://github.com/keio-smilab23/JaSPICE). This is a client of that server.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.base import Metric
from suisei.progress import progress_bar

DEFAULT_ADDRESS = "http://localhost:2115"
START = "docker run -d -p 2115:2115 jaspice"
"""Starts the server, once its authors' repository was built as the image "jaspice"."""
_SHOWN = 200
"""How many characters of an unexpected answer a message shows."""


class JaSpice(Metric):
    """F1 over the tuples of scene graphs parsed from Japanese captions, in [0, 1].

    Args:
        address: where the server answers, ``http://HOST:PORT``.
        timeout: seconds that one request may take; parsing is slow.
        retries: how often a request is repeated after the server did not answer or failed.
        pause: seconds before the first repetition; doubled each time.
    """

    name = "jaspice"
    language = "ja"
    needs = frozenset({"references"})

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        timeout: float = 600.0,
        retries: int = 2,
        pause: float = 1.0,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(f"address is {address!r}; expected http://HOST:PORT or https://HOST:PORT")
        if timeout <= 0 or retries < 0 or pause < 0:
            raise ConfigError("timeout must be positive, and retries and pause at least 0")
        self.address = address
        self.timeout = timeout
        self.retries = retries
        self.pause = pause

    def settings(self) -> dict[str, str]:
        """Say that an external server computed the score, and that references are unioned there."""
        return {"via": "http", "ref": "union"}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        scores: list[float] = []
        with progress_bar("JaSPICE", len(samples), shown=progress) as advance:
            for start in range(0, len(samples), batch_size):
                batch = samples[start : start + batch_size]
                scores += self._request(batch)
                advance(len(batch))
        return np.asarray(scores, dtype=np.float64)

    def _request(self, batch: Sequence[CaptionSample]) -> list[float]:
        body = json.dumps(
            {
                "references": [list(sample.references) for sample in batch],
                "candidates": [sample.candidate for sample in batch],
            },
            ensure_ascii=False,
        ).encode()
        answer = self._send(body)
        try:
            scores = json.loads(answer)
        except ValueError:
            raise self._unusable("text that is not JSON", answer) from None
        if not isinstance(scores, list) or not all(_is_score(value) for value in scores):
            raise self._unusable("something other than a list of finite numbers", answer)
        if len(scores) != len(batch):
            raise self._unusable(f"{len(scores)} scores for {len(batch)} captions", answer)
        return [float(value) for value in scores]

    def _send(self, body: bytes) -> bytes:
        """POST a body, again after a failure that may pass; return the answer's bytes."""
        request = Request(
            self.address, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        for attempt in range(self.retries + 1):
            try:
                with urlopen(request, timeout=self.timeout) as response:
                    return bytes(response.read())
            except HTTPError as error:
                detail = error.read(_SHOWN).decode(errors="replace").strip()
                reason = f"answered with status {error.code} {error.reason}: {detail}"
                if error.code < 500:  # the request itself is wrong; repeating it changes nothing
                    break
            except (URLError, HTTPException, OSError) as error:
                reason = (
                    f"does not answer ({getattr(error, 'reason', None) or error or type(error).__name__})"
                )
            if attempt < self.retries:
                time.sleep(self.pause * 2**attempt)
        raise UnavailableError(
            f"the JaSPICE server at {self.address} {reason}; start it (docs/install.md: build "
            f"https://github.com/keio-smilab23/JaSPICE with Docker, then `{START}`), or give the address of "
            "one that runs: jaspice:http://HOST:PORT"
        )

    def _unusable(self, what: str, answer: bytes) -> UnavailableError:
        begins = answer[:_SHOWN].decode(errors="replace")
        return UnavailableError(
            f"the server at {self.address} sent {what}; is it JaSPICE? Its answer begins: {begins!r}"
        )


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
