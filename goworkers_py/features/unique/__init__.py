"""Unique jobs: a lock keeps a second job with the same arguments out."""
