"""Expiry: a job whose time has passed does not begin.

`run`: drops a job that was not begun by its `expires_at`. It is no run: no link, no retry and no error handler sees
it.
"""
