"""PAC-S: training of the dual encoder, its data, and generated positives."""
