"""Training: what a run needs beside the model that it trains."""
