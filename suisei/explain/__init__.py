"""Why a score is what it is, asked of a metric through scores alone."""
