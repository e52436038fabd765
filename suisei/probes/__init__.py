"""What people expect of a metric: degraded captions that it should score lower."""
