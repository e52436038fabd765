"""What it takes to train a model on human ratings."""
