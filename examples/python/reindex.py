"""A job that goes on where it stopped. See docs/iteration.md.

`pyworkers run -r reindex` runs the jobs; stop it in the middle, and start it again. `python reindex.py` pushes some.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import goworkers_py as workers

log = logging.getLogger(__name__)

PAGES = [f"page {number}" for number in range(1, 21)]


@workers.job(queue="search", time_slice=1, checkpoint=0.5)
def reindex(site: str, *, cursor: int = 0) -> Iterator[int]:
    if cursor:
        log.info("going on with %s after page %d", site, cursor)
    for number in range(cursor + 1, len(PAGES) + 1):
        time.sleep(0.1)  # a real program would put the page into its search engine, which may be done twice
        yield number
    log.info("all pages of %s are indexed", site)


if __name__ == "__main__":
    print(reindex.enqueue("example.org"))  # each prints a jid
    print(reindex.enqueue("example.net"))  # has its turn after a second
