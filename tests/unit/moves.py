"""Notes on which device a run computes what the trainer does not."""

import torch


def recorded(monkeypatch, module, *parts):
    """Return what is noted of each call of some of a module's functions: its name, and where a model is."""
    seen, at = [], []

    class Recorded:
        """Stands for the moving."""

        def __init__(self, model, device):
            self.device = torch.device(device)

        def __enter__(self):
            at.append(self.device.type)

        def __exit__(self, *_):
            at.pop()

    def noting(part, original):
        def call(*arguments, **options):
            seen.append((part, *at))
            return original(*arguments, **options)

        return call

    monkeypatch.setattr(module, "moved", Recorded)
    for part in parts:
        monkeypatch.setattr(module, part, noting(part, getattr(module, part)))
    return seen
