"""A batch: exports of many accounts, of which some split their work, and a report when all have ended.

See docs/batches.md.
`pyworkers run -r exports` runs the jobs. `python exports.py` opens the batch.
"""

from __future__ import annotations

import logging

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, queue="exports")  # for the jobs below


@workers.job("export_account")
def export_account(account: int, parts: int = 1) -> None:
    if parts == 1:
        log.info("exported account %s", account)
        return
    message = workers.current_message()
    if message is not None and message.batch is not None:
        with message.batch:  # the parts are jobs of the same batch
            export_account.enqueue_bulk([[account] for _ in range(parts)])


@workers.job("report")
def report(bid: str) -> None:
    status = workers.batches.status(bid)
    if status is not None:
        log.info("%s: %s of %s jobs have succeeded", status.name, status.succeeded, status.total)


if __name__ == "__main__":
    with workers.batch("nightly exports", on_success=report) as batch:
        for account in range(5):
            export_account.enqueue(account)
        export_account.enqueue(100, parts=4)
    print(batch.bid)
