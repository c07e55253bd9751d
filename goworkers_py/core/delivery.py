"""A fetched job on its way through this process."""

from __future__ import annotations


class Delivery:
    """The exact bytes that were fetched, and the owner in whose in-progress list they lie."""

    # Of the class as long as nothing has been said: one is made for every job.
    begun_at = 0.0  # 0 until a worker begins to run it, then epoch seconds by the server's clock; set by that worker
    ended = False  # set when what became of it is on its way to the settler
    kept = False  # set once it has run and was not acknowledged
    shown: str | None = None  # its payload as `running` shows it; set by whichever thread looks first
    claimed = False  # set by the settler, for the first of the ends that it is told of

    def __init__(self, raw: bytes, queue: str, owner: str) -> None:
        self.raw = raw
        self.queue = queue
        self.owner = owner
