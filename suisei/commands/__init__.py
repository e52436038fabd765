"""All that parses a command line: one file per command."""
