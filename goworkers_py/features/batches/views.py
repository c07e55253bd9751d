"""Batches: how far they have come, what has failed; cancel, close."""

from __future__ import annotations

import re
from collections.abc import Iterator

from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.payload import batch_of
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import YES_NO, Param
from goworkers_py.web.site.showing import cut
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, Hit, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.find import LONGEST_NAME
from goworkers_py.web.views.offered import entries
from goworkers_py.wire.message import Message

BID = Param("bid", "id of the batch", needed=True)
MOST = 200
_LIKE_A_BID = re.compile(r"[0-9a-f]{16}(\.[0-9a-f]{16})*").fullmatch

BATCHES = Columns(
    "state", "total", "pending", "failed", "at", name=lambda batch: batch["name"] or batch["bid"],
    progress=lambda batch: batch["ended"] / batch["total"] if batch["total"] else None,
)  # fmt: skip


def batches(visit: Visit) -> Data:
    """The batches, the last changed first; those that have ended without failed jobs come last."""
    found = entries(visit, "batches", Batches, visit.inspector.batches.all, MOST)
    return {
        "batches": BATCHES.sorted([_fields(batch) for batch in found], visit.args["sort"]),
        "most": MOST,
        "offered": visit.inspector.has(Batches),
    }


def batch(visit: Visit) -> Data:
    """One batch: how many of its jobs have ended and how, and the newest that failed for good."""
    bid = visit.args["bid"]
    found = visit.inspector.batches.status(bid)
    if found is None:
        raise Refused(404, f"there is no batch {bid}, or not any more")
    return {"batch": _fields(found), "deaths": visit.inspector.batches.deaths(bid)}


def _fields(batch: BatchStatus) -> dict[str, object]:
    return {
        "bid": batch.bid, "name": batch.name, "at": batch.at, "state": batch.state, "total": batch.total,
        "ended": batch.ended, "pending": batch.pending, "succeeded": batch.succeeded, "failed": batch.failed,
        "cancelled": batch.cancelled, "expired": batch.expired, "ended_at": batch.ended_at, "holds": batch.holds,
        "waiting_for": list(batch.waiting_for), "callback_queues": list(batch.to),
    }  # fmt: skip


def _cancel_batch(visit: Visit) -> ActionDone:
    """Cancels a batch: its jobs that wait do not run, those that run are interrupted, its callbacks are not pushed."""
    bid = visit.args["bid"]
    done = visit.inspector.batches.cancel(bid)
    return ActionDone(f"batch {bid} " + ("is cancelled" if done else "had ended before, or is not there"), int(done))


def _close_batch(visit: Visit) -> ActionDone:
    """Lets a batch end with its last job; with `force` it ends now, also when jobs of it were deleted."""
    bid = visit.args["bid"]
    done = visit.inspector.batches.close(bid, force=visit.args["force"])
    return ActionDone(f"batch {bid} " + ("is closed" if done else "had ended before, or is not there"), int(done))


def _ask_close(visit: Visit) -> str:
    return f"End batch {visit.args['bid']} now, although jobs of it may still run?" if visit.args["force"] else ""


def _finds(visit: Visit, text: str) -> Iterator[Hit]:
    if _LIKE_A_BID(text) and visit.inspector.has(Batches):
        found = visit.inspector.batches.status(text)
        if found is not None:
            yield Hit(cut(found.name or text, LONGEST_NAME), "batch", visit.link("/batch", bid=text))


def _job_facts(message: Message | None, line: str) -> Data:
    member = None if message is None else batch_of(message.fields)
    return {"batch": "" if member is None else member.bid}


PAGES = FeaturePages(
    views=[
        View("/batches", "Batches", "batches.html", batches, (BATCHES.param,), menu="Batches", tag="batch"),
        View("/batch", "Batch", "batch.html", batch, (BID,), "/batches"),
    ],
    actions=[
        Action(
            "/batch/cancel", _cancel_batch, (BID,), lambda visit: f"Cancel batch {visit.args['bid']} with its jobs?"
        ),
        Action(
            "/batch/close",
            _close_batch,
            (BID, Param("force", "end it now, also with jobs that have not ended", YES_NO, default=False)),
            _ask_close,
        ),
    ],
    job_facts=_job_facts,
    job_rows="job_batch.html",
    finds=_finds,
)
