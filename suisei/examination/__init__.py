"""The whole examination of metrics: every benchmark and probe whose data is there, on one page."""
