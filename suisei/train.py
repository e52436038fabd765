"""``python -m suisei.train``, the same as ``suisei train``."""

import sys

from suisei.cli import keep_memory, run_command, spare_cores
from suisei.commands.train_help import main

if __name__ == "__main__":
    spare_cores()
    keep_memory()
    sys.exit(run_command(main))
