"""Jobs that Ruby, Go and Python programs enqueue: see examples/README.md.

A job may run twice, for instance after a crash. So write each job such that the second run does no harm.
"""

import asyncio
import logging
from typing import Any

import goworkers_py as workers

log = logging.getLogger(__name__)


@workers.job("Billing::InvoiceJob", queue="billing", retry=5)
def invoice(order_id: int, options: dict[str, Any]) -> None:
    """The name is the Ruby class. Go programs write the same name."""
    # A real job would write to the same place for the same order, so that the second run replaces the first.
    log.info("invoice for order %d, options %s", order_id, options)


@workers.job("Documents::Summarize", queue="documents", retry=3, retry_in=60, tags=["ml"])
def summarize(document_id: int) -> None:
    message = workers.current_message()
    log.info("summary of document %d, jid %s", document_id, message and message.jid)


@workers.job(queue="web")
async def fetch(url: str) -> None:
    """An `async def` job runs in the event loop of its worker thread. Its name on the wire is `fetch`."""
    await asyncio.sleep(0.1)
    log.info("fetched %s", url)
