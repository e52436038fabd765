"""A web page to try metrics on: ``suisei demo``."""
