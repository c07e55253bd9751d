"""Chains: the end of a link pushes the next one in its step, once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from harness import DEAD, RETRIES, SCHEDULED, Process, job, part_of, waiting

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import CANCELLED, DISCARD, EXPIRED, Dead, Discard, Done, Outcome, Retry
from goworkers_py.features.batches.batch import Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.chains.chain import ChainLink, ChainStatus, JobAtWork, LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.chains.payload import chain_field
from goworkers_py.policy.consequences import consequences, moved
from goworkers_py.wire import payload as wire

LATER = 4_000_000_000.0  # in 2096
CID = "c"


def link_job(number: int, part: int = 1, queue: str = "q", gives: bool = True, **more: Any) -> LinkJob:
    """Its `args` are a gap for the result of the link before."""
    field = chain_field(ChainLink(CID, number, part, ("q",), gives))
    raw = job(f"{number}.{part}", queue, pyworkers={"v": 1, "needs": ["chain"], **field, **more}, args=["GAP"])
    return LinkJob(queue, raw.replace(b'"GAP"', b"\x01"))


def new(*links: int, **options: Any) -> NewChain:
    """A chain whose links have so many parts."""
    told = [[link_job(number, part + 1) for part in range(parts)] for number, parts in enumerate(links, 1)]
    return NewChain(CID, told, **options)


@pytest.fixture
def chains(me: Process) -> Chains:
    return part_of(me.broker, Chains)


def status(chains: Chains) -> ChainStatus:
    found = chains.status(CID)
    assert found is not None
    return found


def ended(one: Delivery, result: object = None, outcome: Outcome | None = None) -> tuple[Delivery, Outcome]:
    outcome = outcome or Done(result=result)
    effects = consequences(wire.read(one.payload), outcome, time.time())
    if isinstance(outcome, Dead):
        return one, Dead(outcome.payload, effects=effects)
    return one, replace(outcome, effects=effects)


def end_next(me: Process, result: object, outcome: Outcome | None = None) -> dict[str, Any]:
    """Ends the next job. Returns its payload."""
    [one] = me.consume(1)
    assert me.settle(ended(one, result, outcome)) == [True]
    return dict(wire.read(one.payload))


def run(me: Process, chains: Chains, *links: int, **options: Any) -> None:
    """Pushes a chain whose first link has no gap."""
    made = new(*links, **options)
    first = [LinkJob(one.queue, one.payload.replace(b"\x01", b"0")) for one in made.links[0]]
    assert chains.push(NewChain(CID, [first, *made.links[1:]], made.bid, made.retain_s, made.milliseconds))


def test_a_chain_runs_to_its_end(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1, 1)
    assert chains.push(new(1, 1, 1))  # again
    assert (status(chains).links, status(chains).link, status(chains).state) == (3, 1, "running")
    assert end_next(me, {"a": 'x%1\\ "\n'})["args"] == [0]
    two = end_next(me, [1, None])
    assert two["args"] == [{"a": 'x%1\\ "\n'}]
    assert abs(two["enqueued_at"] - time.time()) < 60
    assert status(chains).link == 3
    assert end_next(me, None)["args"] == [[1, None]]
    assert (status(chains).state, status(chains).ended_at is not None) == ("ended", True)
    assert waiting(me.broker.admin) == []


def test_a_doubled_end_changes_nothing(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1, 1)
    me.publish(*waiting(me.broker.admin))
    one, copy = me.consume(2)
    me.settle(ended(one, 1), ended(copy, 2))
    [two] = me.consume(1)
    assert wire.read(two.payload)["args"] == [1]
    assert waiting(me.broker.admin) == []


def test_parts_give_their_results_in_order(me: Process, chains: Chains) -> None:
    run(me, chains, 3, 2, 1)
    one, two, three = me.consume(3)
    me.settle(ended(three, "c"), ended(one, "a"))
    assert waiting(me.broker.admin) == []
    me.settle(ended(two, "b"))
    one, two = me.consume(2)
    assert [wire.read(raw)["args"] for raw in (one.payload, two.payload)] == [[["a", "b", "c"]]] * 2
    me.settle(ended(one, 1), ended(two, 2))
    assert end_next(me, None)["args"] == [[1, 2]]
    assert status(chains).state == "ended"


def test_a_doubled_part_counts_once(me: Process, chains: Chains) -> None:
    run(me, chains, 2, 1)
    me.publish(waiting(me.broker.admin)[0])
    one, two, copy = me.consume(3)
    me.settle(ended(one, 1), ended(copy, 3))
    assert waiting(me.broker.admin) == []
    me.settle(ended(two, 2))
    assert end_next(me, None)["args"] == [[1, 2]]


@pytest.mark.parametrize(("outcome", "why"), [(DISCARD, "discarded"), (CANCELLED, "cancelled"), (EXPIRED, "expired")])
def test_another_end_stops_the_chain(me: Process, chains: Chains, outcome: Outcome, why: str) -> None:
    run(me, chains, 1, 1)
    end_next(me, None, outcome)
    told = status(chains)
    assert (told.state, told.link, told.why, told.jid, told.job_class) == ("stopped", 1, why, "1.1", "Job")
    assert waiting(me.broker.admin) == []


def test_the_job_at_work_and_the_error_that_stopped_the_chain_are_told(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 2, 1)
    assert status(chains).jobs == (JobAtWork("1.1", "Job", "q"),)
    assert abs(status(chains).since - time.time()) < 60
    end_next(me, 1)
    assert [one.jid for one in status(chains).jobs] == ["2.1", "2.2"]
    end_next(me, 1)
    assert [one.jid for one in status(chains).jobs] == ["2.2"]
    end_next(me, None, Discard("ValueError: no"))
    told = status(chains)
    assert (told.state, told.why, told.error, [one.jid for one in told.jobs]) == (
        "stopped", "discarded", "ValueError: no", ["2.2"],
    )  # fmt: skip
    assert next(chains.entries()).error == "ValueError: no"


def test_an_end_well_forgets_the_error(me: Process, chains: Chains) -> None:
    run(me, chains, 1)
    me.settle(ended(me.consume(1)[0], outcome=Discard("no")))
    run_again = link_job(1).payload.replace(b"\x01", b"0")
    me.publish(run_again)
    end_next(me, 1)
    told = status(chains)
    assert (told.state, told.error, told.jobs) == ("ended", "", ())


def test_a_job_that_is_unreadable_for_its_depth_stops_its_chain_and_ends_its_batch(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1)
    deep = b"[" * 150 + b"]" * 150
    raw = link_job(1).payload.replace(b"\x01", deep)
    stopping = moved(raw, "dead", error="unreadable payload")
    [one] = me.consume(1)
    assert me.settle((one, Dead(raw, effects=stopping))) == [True]
    assert (status(chains).state, status(chains).why, status(chains).error) == ("stopped", "dead", "unreadable payload")


def test_a_dead_link_that_is_retried_goes_on(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1)
    [one] = me.consume(1)
    me.settle(ended(one, outcome=Dead(one.payload)))
    assert (status(chains).state, status(chains).why) == ("stopped", "dead")
    list(Inspector(lambda: me.broker).retry(DEAD, Filter()))
    end_next(me, 5)
    assert (status(chains).state, status(chains).link, status(chains).why) == ("running", 2, "")
    assert end_next(me, None)["args"] == [5]


def test_a_retry_does_not_touch_the_chain(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1)
    [one] = me.consume(1)
    me.settle((one, Retry(LATER, one.payload)))
    assert moved(one.payload, "retry") == moved(one.payload, "waiting") == ()
    assert status(chains).state == "running"
    list(Inspector(lambda: me.broker).kill(RETRIES, Filter()))
    assert (status(chains).state, status(chains).why) == ("stopped", "dead")


def test_a_lost_delivery_pushes_no_link(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1)
    [one] = me.consume(1)
    me.settle((one, Done()))
    assert me.settle(ended(one, 1)) == [False]
    assert status(chains).link == 1


def test_cancel_ends_the_chain(me: Process, chains: Chains) -> None:
    run(me, chains, 2, 1)
    one, two = me.consume(2)
    me.settle(ended(one, 1))
    assert [chains.cancel(CID), chains.cancel(CID), chains.cancel("none")] == [True, False, False]
    assert me.broker.require_part(Cancels).stands(CID)
    me.settle(ended(two, 2))
    assert not me.broker.require_part(Cancels).stands(CID)
    assert (status(chains).state, waiting(me.broker.admin)) == ("cancelled", [])


def test_the_tombstone_of_a_chain_stands_until_its_last_part_has_ended(me: Process, chains: Chains) -> None:
    run(me, chains, 2, 1)
    one, two = me.consume(2)
    chains.cancel(CID)
    me.settle(ended(one, 1))
    assert me.broker.require_part(Cancels).stands(CID)
    me.settle(ended(two, 2))
    assert not me.broker.require_part(Cancels).stands(CID)


def test_links_join_their_batch_and_a_cancelled_batch_stops_the_chain(me: Process, chains: Chains) -> None:
    me.broker.require_part(Batches).open(NewBatch(Membership("b"), "", "hold"))
    run(me, chains, 1, 2, 1, bid="b")
    [one] = me.consume(1)
    me.settle((one, Done(effects=(EndLink("1.1", ChainLink(CID, 1, 1, ("q",)), b"1", bid="b"),))))
    assert me.broker.require_part(Batches).status("b").total == 3  # type: ignore[union-attr]
    me.broker.require_part(Batches).cancel("b")
    one, two = me.consume(2)
    ends = [EndLink("2", ChainLink(CID, 2, part, ("q",)), b"1", bid="b") for part in (1, 2)]
    me.settle((one, Done(effects=(ends[0],))), (two, Done(effects=(ends[1],))))
    assert (status(chains).state, status(chains).why) == ("stopped", "batch")
    assert not chains.push(NewChain("other", [[link_job(1)]], "b"))
    assert chains.status("other") is None


def test_links_join_their_batch_though_one_around_it_was_closed_by_force(me: Process, chains: Chains) -> None:
    batches = me.broker.require_part(Batches)  # type: ignore[attr-defined]
    batches.open(NewBatch(Membership("b"), "", "hold"))
    batches.open(NewBatch(Membership("b.inner"), "", "hold"))
    run(me, chains, 1, 2, bid="b.inner")
    [one] = me.consume(1)
    batches.close("b", (), force=True)
    me.settle((one, Done(effects=(EndLink("1.1", ChainLink(CID, 1, 1, ("q",)), b"1", bid="b.inner"),))))
    assert batches.status("b.inner").total == 3


def test_a_link_for_a_queue_that_the_payload_does_not_name_is_due_at_once(me: Process, chains: Chains) -> None:
    made = new(1, 1)
    chains.push(NewChain(CID, [made.links[0], [link_job(2, queue="elsewhere")]]))
    [one] = me.consume(1)
    me.settle((one, Done(effects=(EndLink("1.1", ChainLink(CID, 1, 1, ("q",)), b"1"),))))
    if not waiting(me.broker.admin, "elsewhere"):
        [due] = me.broker.admin.jobs_in(SCHEDULED).first(10)
        assert due.jid == "2.1"


def test_the_figures_of_chains_are_those_that_run_and_those_that_were_stopped(me: Process, chains: Chains) -> None:
    run(me, chains, 1, 1)
    told = Inspector(lambda: me.broker).stats()
    assert (told.chains, told.stopped_chains) == (1, 0)
    assert 0 <= told.oldest_link_s < 60
    end_next(me, None, DISCARD)
    told = Inspector(lambda: me.broker).stats()
    assert (told.chains, told.stopped_chains, told.oldest_link_s) == (0, 1, 0)


def test_chains_are_listed_the_last_changed_first_and_those_that_ended_last(me: Process, chains: Chains) -> None:
    run(me, chains, 1)
    for cid in ("a", "b", "c2"):
        chains.push(NewChain(cid, [[link_job(1)]]))
        time.sleep(0.002)  # the order is by milliseconds at the finest
    chains.cancel("a")
    end_next(me, None)
    assert [one.cid for one in chains.entries()] == ["a", "c2", "b", CID]
    assert chains.status("none") is None


def test_a_long_chain_is_pushed_at_once(me: Process, chains: Chains) -> None:
    chains.push(new(*[1] * 3_000))
    assert status(chains).links == 3_000


def test_a_payload_that_this_release_cannot_read_is_in_no_chain() -> None:
    for chain in ({"id": 1, "n": 1}, {"id": "c"}, {"id": "c", "n": True}, {"id": "c", "n": 1, "to": [1]}, "c"):
        assert moved(job(1, pyworkers={"v": 1, "needs": [], "chain": chain}), "dead") == ()
