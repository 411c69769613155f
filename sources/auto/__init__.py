"""Chooses the format of each topic from its first records."""
