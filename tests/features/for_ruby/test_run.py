from __future__ import annotations

from typing import Any, ClassVar

import pytest
from apps import guard_around, job

from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PushJobs
from goworkers_py.core.outcome import DONE, Done, Outcome, Reschedule
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.lock import RubyLock
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.wire.message import Message

LOCKED = {"jid": "j", "lock": "until_executed", "lock_digest": "uniquejobs:d"}


class HeldByAnother(RubyLocks):
    def begin(self, lock: RubyLock) -> bool:
        return False


class Held(MemoryBroker):
    own_parts: ClassVar = {RubyLocks: lambda broker: HeldByAnother()}


def never(message: Message) -> Outcome:
    raise AssertionError("the job has begun")


@pytest.mark.parametrize(("fields", "pauses"), [({}, []), ({"tags": "eu"}, [1.0])])
def test_a_job_that_cannot_wait_in_the_schedule_does_not_come_again_at_once(
    fields: dict[str, Any], pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("goworkers_py.core.machine.sleep", slept.append)
    config = Config(sections=(EchoConfig(locks="native"),))
    guard = guard_around(never, config=config, broker=Held(State(), DeadLimits()))
    assert isinstance(guard.run(Delivery(job(**LOCKED, **fields), "q", "me")), Reschedule)
    assert slept == pauses


@pytest.mark.parametrize("fields", [{}, {"expires_at": 1.0}])
def test_each_end_of_a_job_of_a_batch_has_an_echo_also_of_one_that_was_not_run(fields: dict[str, Any]) -> None:
    guard = guard_around(lambda message: DONE, config=Config(sections=(EchoConfig("echoes"),)))
    [echo] = guard.run(Delivery(job(jid="j", bid="b", **fields), "q", "me")).effects
    assert isinstance(echo, PushJobs)
    assert (echo.kind, echo.pushes[0].queue) == ("echo", "echoes")


def test_an_end_that_raises_behind_the_run_has_an_echo_too() -> None:
    def chain(message: Message) -> Outcome:
        raise SystemExit

    guard = guard_around(chain, config=Config(sections=(EchoConfig("echoes"),)))
    [echo] = guard.run(Delivery(job(jid="j", bid="b", retry=False), "q", "me")).effects
    assert echo.kind == "echo"


def test_a_job_without_a_mark_of_ruby_has_no_rung() -> None:
    guard = guard_around(lambda message: DONE, config=Config(sections=(EchoConfig("echoes", locks="native"),)))
    outcome = guard.run(Delivery(job(jid="j"), "q", "me"))
    assert outcome is DONE
    assert isinstance(outcome, Done)
