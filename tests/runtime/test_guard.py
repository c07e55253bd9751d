"""The outermost link: what is no job, what this release may not run, what must run alone, and everything else."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from apps import Suspicious, guard_around, job, net, never

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import DiscardJob
from goworkers_py.core.outcome import DISCARD, DONE, Dead, Discard, Done, Expired, Outcome, Reschedule, Retry
from goworkers_py.features.batches.batch import Membership
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.run_stats import RESULTS, RunStats
from goworkers_py.policy import consequences
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.rungs import Rung
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message, current_message


def run(payload: bytes, chain: Run = lambda message: DONE, quarantine: Quarantine | None = None) -> Outcome:
    guard = guard_around(chain, quarantine=quarantine)
    return guard.run(Delivery(payload, "q", "me"))


@pytest.mark.parametrize("payload", [b"{no json", b"[1]", b"\xff"])
def test_what_is_no_job_is_dead_with_every_byte_and_no_code_sees_it(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(payload, never) == Dead(payload)
    assert caplog.messages[0].startswith("queue q: a payload is no job and goes to the dead set: ")


@pytest.mark.parametrize(("times", "ends_as"), [(1, Retry), (2, Dead)])
def test_a_job_fails_that_is_struck_while_it_is_read_and_one_that_cannot_be_read_is_buried(
    times: int, ends_as: type[Outcome]
) -> None:
    faults = [SystemExit("struck"), MemoryError()][:times]

    def read(delivery: Delivery) -> Message:
        if faults:
            raise faults.pop(0)
        return Message(delivery.payload, delivery.queue)

    guard = guard_around(never, read=read)
    outcome = guard.run(Delivery(job("J", retry=True), "q", "me"))
    assert isinstance(outcome, ends_as)
    if isinstance(outcome, Retry):
        assert json.loads(outcome.payload)["error_message"] == "SystemExit: struck"


@pytest.mark.parametrize("strikes", [0, 1])
def test_batch_and_chain_of_a_job_that_is_nested_too_deep_hear_of_its_death(strikes: int) -> None:
    struck = [SystemExit("struck")] * strikes

    def read(delivery: Delivery) -> Message:
        if struck:
            raise struck.pop()
        return Message(delivery.payload, delivery.queue)

    ties = {"v": 1, "needs": ["batch", "chain"], "batch": {"id": "b"}, "chain": {"id": "c", "n": 2}}
    deep = job("J", jid="j", pyworkers=ties).replace(b'"args": []', b'"args": [' + b"[" * 150 + b"]" * 151)
    guard = guard_around(never, read=read)
    outcome = guard.run(Delivery(deep, "q", "me"))
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


@pytest.mark.parametrize("shape", [None, 7, "batch lock", ["batch"], {"batch": 7}])
def test_a_job_whose_field_of_needs_has_another_shape_does_not_run(shape: object) -> None:
    outcome = run(job(jid="j", **{needs.FIELD: shape}), never)
    assert isinstance(outcome, Reschedule if isinstance(shape, dict) else Dead)


def test_any_other_job_is_the_current_message_while_it_runs() -> None:
    seen: list[Message | None] = []

    def chain(message: Message) -> Outcome:
        seen.extend([message, current_message()])
        return DONE

    assert run(job(jid="abc"), chain) is DONE
    assert seen[0] is seen[1] is not None
    assert seen[0].jid == "abc"
    assert current_message() is None


def failing(message: Message) -> Outcome:
    raise MemoryError("ours")


def test_what_the_chain_raises_is_a_counted_failure_and_no_message_stays_current() -> None:
    outcome = run(job(retry=2), failing)
    assert isinstance(outcome, Retry)
    told = json.loads(outcome.payload)
    assert (told["error_class"], told["error_message"]) == ("goworkers_py.BrokenOff", "MemoryError: ours")
    assert told["retry_count"] == 0
    assert current_message() is None
    assert isinstance(run(outcome.payload, failing), Retry)
    assert isinstance(run(job(retry=2, retry_count=1), failing), Dead)


def test_a_run_that_was_broken_off_is_in_the_run_statistics() -> None:
    stats = RunStats()
    net(stats).failed(Message(job("J", retry=1), "q"), MemoryError("ours"))
    assert stats.snapshot()["J"][RESULTS.index("retried")] == 1


@pytest.mark.parametrize("options", [{"retry": False}, {"retry": 0, "dead": False}])
def test_a_job_is_buried_whose_run_was_broken_off_and_that_is_not_to_be_retried(options: dict[str, Any]) -> None:
    """The options speak of failures of the job's code, which has not run perhaps."""
    assert isinstance(run(job(jid="j", **options), failing), Dead)


def test_the_batch_of_a_job_whose_run_was_broken_off_for_the_last_time_hears_of_it() -> None:
    ties = {"v": 1, "needs": ["batch"], "batch": {"id": "b"}}
    outcome = run(job(jid="j", retry=0, pyworkers=ties), failing)
    [end] = outcome.effects
    assert isinstance(end, EndInBatch)
    assert end.way == "failed"


def test_a_job_of_which_the_net_can_make_no_outcome_is_buried_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(*_: Any) -> Outcome:
        raise ValueError("the policy fails too")

    monkeypatch.setattr(RetryPolicy, "decide", decide)
    assert run(job(jid="j"), failing) == Dead(job(jid="j"))


def test_a_consequence_that_fails_does_not_make_a_job_run_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no lock")

    monkeypatch.setitem(consequences._followers(), "lock", fail)  # type: ignore[arg-type]
    ties = {"v": 1, "needs": ["batch", "unique"], "batch": {"id": "b"}, "lock": {"name": "l", "for": 5}}
    outcome = run(job(jid="j", pyworkers=ties))
    assert isinstance(outcome, Done)
    assert [type(effect) for effect in outcome.effects] == [EndInBatch]
    assert "job j: its tie lock cannot follow it to completed, and is left" in caplog.text


OF_OTHERS = ["group", "chain", "limits", "tracking", "ruby", "renewed", "asks", "came again"]


@pytest.mark.parametrize("field", OF_OTHERS)
def test_a_field_of_another_program_with_the_name_of_a_mark_changes_nothing(field: str) -> None:
    ran = []

    def chain(message: Message) -> Outcome:
        ran.append(message.jid)
        return DONE

    guard = guard_around(chain, stand_ins={"group": never})
    for jid, more in ("j", {}), ("k", {"expires_at": 9e9}):
        assert guard.run(Delivery(job(jid=jid, **more, **{field: "eu"}), "q", "me")) is DONE
    assert ran == ["j", "k"]


class FailingBehind(Quarantine):
    def __init__(self) -> None: ...

    def run(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        chain(message)
        raise ValueError("ours")


def test_a_rung_that_fails_behind_the_run_drops_no_consequence_of_its_end() -> None:
    outcome = run(in_batch(recovered={"count": 1, "since": 1}), quarantine=FailingBehind())
    assert outcome.effects == (EndInBatch("j", Membership("b"), "succeeded"),)


class Refusing(InProcess):
    def rungs(self) -> Mapping[str, Rung]:
        return {"group": Rung(lambda run, message: Discard("of region eu"), fields=frozenset(("region",)))}


def test_a_job_that_a_rung_discards_is_logged_counted_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    stats, told = RunStats(), []
    handlers = Handlers(death=[lambda message, error: told.append((message.jid, error))])
    refusing = dataclasses.replace(net(stats), handlers=handlers)
    guard = guard_around(never, Refusing(), of_queue=refusing)
    assert guard.run(Delivery(job(jid="j", region="eu"), "q", "me")) == Discard("of region eu")
    assert caplog.messages == ["discarded, and not run: of region eu"]
    assert [(jid, type(error), str(error)) for jid, error in told] == [("j", DiscardJob, "of region eu")]
    assert stats.snapshot()["J"][RESULTS.index("discarded")] == 1


def test_only_what_was_recovered_before_is_looked_at_by_the_quarantine() -> None:
    quarantine = Suspicious()
    assert run(job(jid="plain"), quarantine=quarantine) is DONE
    assert run(job(jid="recovered", recovered={"count": 1, "since": 1}), quarantine=quarantine) is DONE
    assert quarantine.ran == ["recovered"]


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
