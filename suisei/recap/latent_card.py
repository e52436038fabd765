"""The model card of a latent reconstruction, written from the facts of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from suisei.cli import counted
from suisei.version import __version__


def latent_card(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the card's Markdown.

    Args:
        facts: what ``report.json`` says.
        settings: of the model.
    """
    counts = ", ".join(counted(count, f"{part} image") for part, count in facts["images"].items())
    skipped = f" Left out: {counted(facts['skipped_rows'], 'bad row')}." if facts["skipped_rows"] else ""
    figures = "\n".join(f"| {name} | {value:.4f} |" for name, value in facts["validation"].items())
    return f"""# RECAP, latent

How far a caption's guess at its image is from the image, in a language model's space (Chang et al., 2023).
Lower is better. Trained with suisei {__version__}.

```python
import suisei

metric = suisei.get_metric("recap-latent:PATH OF THIS FOLDER")
metric.score(["a caption"], images=["image.jpg"])
```

## Data

{", ".join(facts["sources"].values())}: {counts}.{skipped} Captions have no ratings; none was read.

## Validation

| figure | value |
|:---|---:|
{figures}

## Training

- steps {facts["steps"]:,}, minutes {facts["minutes"]:.1f}, seed {facts["seed"]}
- {facts["trainable_parameters"]:,} trainable parameters

```json
{json.dumps(settings, indent=2, ensure_ascii=False, default=str)}
```

## Limits

- The paper found this score to agree weakly with people (Kendall -0.11) and to miss captions of other images.
  Measure it before you use it: `suisei evaluate`, `suisei probe`.
- Distances of different images, and those of two folders, are not on one scale.
"""
