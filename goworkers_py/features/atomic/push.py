"""Publishes the pushes that `atomic` has held back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.features.batches.batch import BatchTie, line_of
from goworkers_py.features.batches.payload import outside

if TYPE_CHECKING:
    from goworkers_py.api.push_part import Publish
    from goworkers_py.core.effect import Push
    from goworkers_py.features.batches.contract import Batches

log = logging.getLogger(__name__)


def publish_held(pushes: Sequence[Push], publish: Publish, batches: Callable[[], Batches]) -> None:
    """Their `enqueue` has returned already, so none of them raises: also with `on_conflict="raise"`, a job whose lock
    another job holds is not pushed. A job whose batch has ended meanwhile is pushed in no batch; if the batch was
    cancelled, the job is not pushed. Of a batch that the broker has forgotten nobody knows whether it was cancelled:
    its jobs are pushed, because a job must not be lost."""
    results = zip(pushes, publish(pushes), strict=True)
    refused = [push for push, result in results if result is Published.REFUSED]
    stopped = {bid for bid in map(_bid_of, refused) if _is_cancelled(batches(), bid)}
    for bid in stopped:
        log.info("batch %s was cancelled: jobs that were held back for it are not pushed", bid)
    late = [push for push in refused if _bid_of(push) not in stopped]
    for bid in dict.fromkeys(map(_bid_of, late)):
        log.warning("batch %s ended before jobs joined it that were held back: they are pushed in no batch", bid)
    if late:
        publish([replace(push.without_tie(BatchTie), payload=outside(push.payload)) for push in late])


def _is_cancelled(batches: Batches, bid: str) -> bool:
    """Whether the batch, or one around it, was cancelled."""
    around = [batches.status(batch_id) for batch_id in line_of(bid)]
    return any(batch is not None and batch.stopped for batch in around)


def _bid_of(push: Push) -> str:
    batch = push.tie(BatchTie)
    return "" if batch is None else batch.bid
