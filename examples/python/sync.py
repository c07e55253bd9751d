"""Unique jobs: one sync of each account at a time, and one run for many changes of a page (a debounce).

See docs/unique-jobs.md.
`pyworkers run -r sync` runs the jobs. `python sync.py` pushes some.
"""

from __future__ import annotations

import logging

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, queue="sync", unique_for=600)  # for the jobs below


@workers.job("sync_account", unique_by=lambda account, *_, **__: account, on_conflict="raise")
def sync_account(account: int, full: bool = False) -> None:
    log.info("synced account %s%s", account, " from the beginning" if full else "")


@workers.job("index_page", unique_by=lambda page, *_: page, on_conflict="replace")
def index_page(page: str, text: str) -> None:
    log.info("indexed page %s: %s", page, text)


if __name__ == "__main__":
    index_page.enqueue_in(5, "home", "first draft")
    index_page.enqueue_in(5, "home", "last draft")  # the same job runs, once, with this text
    sync_account.enqueue_in(5, 7)
    try:
        sync_account.enqueue(7, full=True)
    except workers.DuplicateJob as error:
        print(error)
