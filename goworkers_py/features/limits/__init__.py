"""Limits: how many jobs of the whole fleet run at once, and how many begin in a time."""
