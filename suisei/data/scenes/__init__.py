"""The generator of the bundled sample: rendered scenes, captions in two languages, simulated ratings."""
