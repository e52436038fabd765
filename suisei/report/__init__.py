"""One page out of any result: tables, figures, best and worst predictions, where they come from."""
