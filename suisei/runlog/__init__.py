"""What a command tells of its run while it runs: how much, and to whom."""
