"""The outermost link: what is no job, what this release may not run, what must run alone, and everything else."""

from __future__ import annotations

import pytest
from apps import expiry, fresh_lease, job, open_quarantine, special_runs

from goworkers_py.core.batch import Membership
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import EndInBatch, EndLink
from goworkers_py.core.outcome import DISCARD, DONE, EXPIRED, Dead, Expired, Outcome, Reschedule
from goworkers_py.links.chain import Run
from goworkers_py.links.expiry import Expiry
from goworkers_py.links.retry import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.guard import Guard
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message, current_message


class Suspicious(Quarantine):
    """Notes what it is given to run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        self.ran.append(message.jid)
        return chain(message)


def never(message: Message) -> Outcome:
    pytest.fail(f"{message} was run")


def run(payload: bytes, chain: Run = lambda message: DONE, quarantine: Quarantine | None = None) -> Outcome:
    guard = Guard(chain, Needs(), quarantine or open_quarantine(fresh_lease()), expiry(), special_runs())
    return guard.run(Delivery(payload, "q", "me"))


@pytest.mark.parametrize("payload", [b"{no json", b"[1]", b"\xff"])
def test_what_is_no_job_is_dead_with_every_byte_and_no_code_sees_it(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(payload, never) == Dead(payload)
    assert caplog.messages[0].startswith("queue q: a payload is no job and goes to the dead set: ")


def test_batch_and_chain_of_a_job_that_is_nested_too_deep_hear_of_its_death() -> None:
    ties = {"v": 1, "needs": ["batch", "chain"], "batch": {"id": "b"}, "chain": {"id": "c", "n": 2}}
    deep = job("J", jid="j", pyworkers=ties).replace(b'"args": []', b'"args": [' + b"[" * 150 + b"]" * 151)
    outcome = run(deep, never)
    assert isinstance(outcome, Dead)
    link, end = outcome.effects
    assert isinstance(link, EndLink)
    assert isinstance(end, EndInBatch)
    assert (link.why, end.way, end.member.bid) == ("dead", "failed", "b")
    assert link.error.startswith("unreadable payload: nested deeper than 100 levels")
    again = run(outcome.payload, never)
    assert [type(effect) for effect in again.effects] == [EndLink]  # its batch has counted its death


@pytest.mark.parametrize("wrong", [b"NaN", b"[" * 20_000 + b"]" * 20_000, b"\xff"])
def test_a_job_of_a_batch_that_is_no_json_is_dead_as_it_is(wrong: bytes) -> None:
    raw = job("J", jid="j", pyworkers={"v": 1, "batch": {"id": "b"}}).replace(
        b'"args": []', b'"args": [' + wrong + b"]"
    )
    assert run(raw, never) == Dead(raw)


def test_a_job_that_needs_a_newer_release_goes_back_and_no_code_sees_it() -> None:
    outcome = run(job(jid="j", **{needs.FIELD: needs.field_of(["telepathy"])}), never)
    assert isinstance(outcome, Reschedule)
    assert b"telepathy" in outcome.payload


def test_any_other_job_is_the_current_message_while_it_runs() -> None:
    seen: list[Message | None] = []

    def chain(message: Message) -> Outcome:
        seen.extend([message, current_message()])
        return DONE

    assert run(job(jid="abc"), chain) is DONE
    assert seen[0] is seen[1] is not None
    assert seen[0].jid == "abc"
    assert current_message() is None


def test_what_the_chain_raises_comes_out_and_no_message_stays_current() -> None:
    def fail(message: Message) -> Outcome:
        raise MemoryError

    with pytest.raises(MemoryError):
        run(job(), fail)
    assert current_message() is None


def test_only_what_was_recovered_before_is_looked_at_by_the_quarantine() -> None:
    quarantine = Suspicious()
    assert run(job(jid="plain"), quarantine=quarantine) is DONE
    assert run(job(jid="recovered", recovered={"count": 1, "since": 1}), quarantine=quarantine) is DONE
    assert quarantine.ran == ["recovered"]


RECOVERED = {"count": 1, "since": 1}
PAST, FUTURE = 1.0, 4e9


@pytest.mark.parametrize("field", ["expires_at", "expiry"])
def test_a_job_whose_time_has_passed_is_dropped_and_no_code_sees_it(field: str) -> None:
    assert run(job(**{field: PAST}), never) is EXPIRED
    assert run(job(**{field: FUTURE})) is DONE


def test_a_suspect_whose_time_has_passed_does_not_wake_the_quarantine() -> None:
    quarantine = Suspicious()
    assert run(job(recovered=RECOVERED, expires_at=PAST), never, quarantine) is EXPIRED
    assert quarantine.ran == []


def test_a_suspect_whose_time_passes_while_it_waits_to_run_alone_is_dropped() -> None:
    now = PAST

    class Waits(Suspicious):
        def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
            nonlocal now
            now = FUTURE
            return super().run(message, delivery, chain)

    quarantine = Waits()
    guard = Guard(never, Needs(), quarantine, Expiry(Handlers(), RunStats(), Counters(), lambda: now), special_runs())
    payload = job(jid="late", recovered=RECOVERED, expires_at=2.0)
    assert guard.run(Delivery(payload, "q", "me")) is EXPIRED
    assert quarantine.ran == ["late"]


def in_batch(**fields: object) -> bytes:
    field = {"v": 1, "needs": ["batch"], "batch": {"id": "b", "to": []}}
    return job(jid="j", **{needs.FIELD: field, **fields})


def test_a_job_of_a_batch_that_is_done_is_counted_there() -> None:
    assert run(in_batch()).effects == (EndInBatch("j", Membership("b"), "succeeded"),)


def test_a_job_of_a_batch_that_has_expired_is_not_run() -> None:
    outcome = run(in_batch(expires_at=1.0), never)
    assert isinstance(outcome, Expired)
    assert outcome.effects == (EndInBatch("j", Membership("b"), "expired"),)


def test_a_job_of_a_batch_that_is_discarded_is_counted_as_failed() -> None:
    [end] = run(in_batch(), lambda message: DISCARD).effects
    assert isinstance(end, EndInBatch)
    assert end.way == "failed"
