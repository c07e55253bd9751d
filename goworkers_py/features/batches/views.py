"""Batches and chains: how far they have come, what has failed; cancel, close."""

from __future__ import annotations

from goworkers_py.brokers.broker import Capability
from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import YES_NO, Param
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.offered import entries

BID = Param("bid", "id of the batch", needed=True)
CID = Param("cid", "id of the chain", needed=True)
MOST = 200

BATCHES = Columns(
    "state", "total", "pending", "failed", "at", name=lambda batch: batch["name"] or batch["bid"],
    progress=lambda batch: batch["ended"] / batch["total"] if batch["total"] else None,
)  # fmt: skip
CHAINS = Columns(
    "cid", "state", "link", "job_class", "at",
    progress=lambda chain: 1.0 if chain.state == "ended" else max(0, chain.link - 1) / (chain.links or 1),
)  # fmt: skip


def batches(visit: Visit) -> Data:
    """The batches, the last changed first; those that have ended without failed jobs come last."""
    found = entries(visit, "batches", Capability.BATCHES, visit.inspector.batches.all, MOST)
    return {
        "batches": BATCHES.sorted([_fields(batch) for batch in found], visit.args["sort"]),
        "most": MOST,
        "offered": visit.inspector.has(Capability.BATCHES),
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


def chains(visit: Visit) -> Data:
    """The chains, the last changed first; those that have ended come last."""
    found = entries(visit, "chains", Capability.CHAINS, visit.inspector.chains.all, MOST)
    return {
        "chains": CHAINS.sorted(found, visit.args["sort"]),
        "most": MOST,
        "offered": visit.inspector.has(Capability.CHAINS),
    }


def chain(visit: Visit) -> Data:
    """One chain: which of its links is at work, and why it has stopped if it has."""
    cid = visit.args["cid"]
    found = visit.inspector.chains.status(cid)
    if found is None:
        raise Refused(404, f"there is no chain {cid}, or not any more")
    return {"chain": found}


def _cancel_chain(visit: Visit) -> ActionDone:
    """Cancels a chain: its link that waits does not run, one that runs is interrupted, no other is pushed."""
    cid = visit.args["cid"]
    done = visit.inspector.chains.cancel(cid)
    return ActionDone(f"chain {cid} " + ("is cancelled" if done else "had ended before, or is not there"), int(done))


VIEWS = [
    View("/batches", "Batches", "batches.html", batches, (BATCHES.param,), menu="Batches"),
    View("/batch", "Batch", "batch.html", batch, (BID,), "/batches"),
    View("/chains", "Chains", "chains.html", chains, (CHAINS.param,), menu="Chains"),
    View("/chain", "Chain", "chain.html", chain, (CID,), "/chains"),
]
ACTIONS = [
    Action("/batch/cancel", _cancel_batch, (BID,), lambda visit: f"Cancel batch {visit.args['bid']} with its jobs?"),
    Action(
        "/batch/close",
        _close_batch,
        (BID, Param("force", "end it now, also with jobs that have not ended", YES_NO, default=False)),
        _ask_close,
    ),
    Action("/chain/cancel", _cancel_chain, (CID,), lambda visit: f"Cancel chain {visit.args['cid']}?"),
]
