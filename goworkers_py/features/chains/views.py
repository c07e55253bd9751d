"""Chains: how far they have come, what has stopped them; cancel."""

from __future__ import annotations

from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.payload import chain_of
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.offered import entries
from goworkers_py.wire.message import Message

CID = Param("cid", "id of the chain", needed=True)
MOST = 200

CHAINS = Columns(
    "cid", "state", "link", "job_class", "at",
    progress=lambda chain: 1.0 if chain.state == "ended" else max(0, chain.link - 1) / (chain.links or 1),
)  # fmt: skip


def chains(visit: Visit) -> Data:
    """The chains, the last changed first; those that have ended come last."""
    found = entries(visit, "chains", Chains, visit.inspector.chains.all, MOST)
    return {
        "chains": CHAINS.sorted(found, visit.args["sort"]),
        "most": MOST,
        "offered": visit.inspector.has(Chains),
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


def _job_facts(message: Message | None, line: str) -> Data:
    link = None if message is None else chain_of(message.fields)
    return {"chain": None if link is None else {"cid": link.cid, "link": link.number}}


PAGES = FeaturePages(
    views=[
        View("/chains", "Chains", "chains.html", chains, (CHAINS.param,), menu="Chains", tag="chain"),
        View("/chain", "Chain", "chain.html", chain, (CID,), "/chains"),
    ],
    actions=[
        Action("/chain/cancel", _cancel_chain, (CID,), lambda visit: f"Cancel chain {visit.args['cid']}?"),
    ],
    job_facts=_job_facts,
    job_rows="job_chain.html",
)
