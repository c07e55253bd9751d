"""The contract of schedules of periodic jobs."""

from __future__ import annotations

import threading
import time

import pytest
from harness import DEAD, SCHEDULED, Process, Processes, job, part_of, waiting

from goworkers_py.core.effect import Push
from goworkers_py.core.outcome import Dead, Done
from goworkers_py.features.periodic.contract import MOST_FIRINGS, Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Fired, Firing, Release, Rule, Schedule, ScheduleState
from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.lock import LockClaim

APP = Release("app")
HOURLY = Rule(every=3600)


@pytest.fixture
def periodic(me: Process) -> Periodic:
    return part_of(me.broker, Periodic)


def named(name: str = "nightly", rule: Rule = HOURLY, **told: object) -> Schedule:
    return schedule(name, rule, {"class": "Job", **told})


def state_of(periodic: Periodic, one: Schedule, release: Release = APP) -> ScheduleState:
    registered = periodic.register(release, [one])
    assert registered.newer is None
    [state] = registered.states
    time.sleep(0.002)  # a slot that is a millisecond after the last one is due now
    return state


def firing(state: ScheduleState, jid: str = "1", **more: object) -> Firing:
    """Of the slot right after the last one."""
    fields = {"slot": state.since + 0.001, "word": "fired", "push": Push("q", job(jid)), **more}
    return Firing("nightly", state.number, jid=jid, **fields)  # type: ignore[arg-type]


def test_a_new_schedule_begins_when_it_is_registered(periodic: Periodic) -> None:
    registered = periodic.register(APP, [named("one"), named("two")])
    assert abs(registered.now - time.time()) < 60
    assert [state.since for state in registered.states] == pytest.approx([registered.now] * 2, abs=1)
    assert all(state.in_force for state in registered.states)
    assert periodic.register(APP, [named("one")]).states[0] == registered.states[0]


def test_a_firing_pushes_its_job_and_moves_the_schedule_on(me: Process, periodic: Periodic) -> None:
    before = state_of(periodic, named())
    assert periodic.fire(APP, firing(before)).fired is Fired.DONE
    after = state_of(periodic, named())
    assert (after.number, after.since) == (before.number + 1, pytest.approx(before.since + 0.001, abs=1e-4))
    assert waiting(me.broker.admin) == [job("1")]
    [entry] = periodic.history("app", "nightly")
    assert (entry.word, entry.jid, entry.missed_from) == ("fired", "1", None)
    [record] = periodic.records()
    assert (record.source, record.name, record.fired, record.skipped, record.gone) == ("app", "nightly", 1, 0, False)
    assert record.last == entry
    assert record.since == after.since


def test_of_two_processes_only_one_fires_a_slot_asynq_653_1013_554_371(
    me: Process, other: Process, periodic: Periodic
) -> None:
    mine, of_other = state_of(periodic, named()), state_of(other.broker.require_part(Periodic), named())
    assert other.broker.require_part(Periodic).fire(APP, firing(of_other, "2")).fired is Fired.DONE
    assert periodic.fire(APP, firing(mine, "1")).fired is Fired.CHANGED
    assert waiting(me.broker.admin) == [job("2")]


def test_many_threads_fire_each_slot_once(start: Processes, me: Process, periodic: Periodic) -> None:
    processes = [start() for _ in range(4)]
    begin, done = threading.Barrier(len(processes)), []
    state_of(periodic, named())

    def run(process: Process) -> None:
        begin.wait()
        for number in range(25):
            state = state_of(process.broker.require_part(Periodic), named())
            result = process.broker.require_part(Periodic).fire(APP, firing(state, f"{process.identity}-{number}"))
            if result.fired is Fired.DONE:
                done.append(state.number)

    threads = [threading.Thread(target=run, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == len(set(done)) == len(waiting(me.broker.admin))


def test_a_slot_that_is_not_due_by_the_clock_of_the_broker_does_not_fire(me: Process, periodic: Periodic) -> None:
    state = state_of(periodic, named())
    assert periodic.fire(APP, firing(state, slot=state.since + 60)).fired is Fired.EARLY
    assert state_of(periodic, named()) == state
    assert waiting(me.broker.admin) == []


def test_a_firing_without_a_job_settles_its_slots(me: Process, periodic: Periodic) -> None:
    state = state_of(periodic, named())
    missed = firing(state, "", word="missed", push=None, missed_from=state.since)
    assert periodic.fire(APP, missed).word == "missed"
    assert state_of(periodic, named()).since > state.since
    [entry] = periodic.history("app", "nightly")
    assert (entry.word, entry.missed_from) == ("missed", pytest.approx(state.since, abs=1e-4))
    assert waiting(me.broker.admin) == []
    assert periodic.records()[0].fired == 0


def test_the_history_is_bounded(periodic: Periodic) -> None:
    for number in range(MOST_FIRINGS + 5):
        periodic.fire(APP, firing(state_of(periodic, named()), str(number)))
    jids = [entry.jid for entry in periodic.history("app", "nightly")]
    assert jids == [str(number) for number in range(MOST_FIRINGS + 4, 4, -1)]


# --- people


def test_a_paused_schedule_does_not_fire_also_for_a_process_that_has_not_noticed(
    me: Process, periodic: Periodic
) -> None:
    state = state_of(periodic, named())
    assert periodic.pause("app", "nightly")
    assert not periodic.pause("app", "nightly")
    assert periodic.fire(APP, firing(state)).fired is Fired.CHANGED
    paused = state_of(periodic, named())
    assert paused.paused
    assert periodic.fire(APP, firing(paused)).fired is Fired.CHANGED
    assert periodic.resume("app", "nightly")
    assert not periodic.resume("app", "nightly")
    assert waiting(me.broker.admin) == []


def test_slots_of_the_time_of_a_pause_are_not_missed_ones(periodic: Periodic) -> None:
    state = state_of(periodic, named())
    periodic.pause("app", "nightly")
    time.sleep(0.01)
    periodic.resume("app", "nightly")
    resumed = state_of(periodic, named())
    assert (resumed.paused, resumed.since) == (False, pytest.approx(resumed.since))
    assert resumed.since > state.since
    assert periodic.fire(APP, firing(state)).fired is Fired.CHANGED
    assert periodic.fire(APP, firing(resumed)).fired is Fired.DONE


def test_people_ask_for_a_firing_also_of_a_paused_schedule(me: Process, periodic: Periodic) -> None:
    state_of(periodic, named())
    periodic.pause("app", "nightly")
    assert periodic.ask("app", "nightly")
    asked = state_of(periodic, named())
    assert asked.asked == 1
    demand = firing(asked, word="asked", asked=True, slot=asked.since)
    assert periodic.fire(APP, demand).word == "asked"
    assert periodic.fire(APP, demand).fired is Fired.CHANGED
    after = state_of(periodic, named())
    assert (after.asked, after.since, after.paused) == (0, asked.since, True)
    assert waiting(me.broker.admin) == [job("1")]


def test_people_override_a_schedule_until_they_take_it_back(periodic: Periodic) -> None:
    state = state_of(periodic, named())
    assert periodic.override("app", "nightly", b'{"every":60}')
    changed = state_of(periodic, named())
    assert changed.override == periodic.records()[0].override == b'{"every":60}'
    assert changed.since >= state.since
    assert periodic.fire(APP, firing(state)).fired is Fired.CHANGED
    assert periodic.override("app", "nightly", b"")
    assert state_of(periodic, named()).override == b""


def test_a_schedule_that_is_not_there_cannot_be_changed(periodic: Periodic) -> None:
    assert not periodic.pause("app", "nobody")
    assert not periodic.resume("app", "nobody")
    assert not periodic.ask("app", "nobody")
    assert not periodic.override("app", "nobody", b"{}")
    assert not periodic.forget("app", "nobody")
    assert periodic.history("app", "nobody") == []
    assert periodic.records() == []


def test_a_forgotten_schedule_is_a_new_one_when_it_is_registered_again(periodic: Periodic) -> None:
    state = state_of(periodic, named())
    periodic.fire(APP, firing(state))
    assert periodic.forget("app", "nightly")
    assert periodic.records() == []
    assert periodic.history("app", "nightly") == []
    assert periodic.fire(APP, firing(state)).fired is Fired.CHANGED
    assert state_of(periodic, named()).number == 1


# --- releases


def test_an_older_generation_neither_registers_nor_fires(me: Process, periodic: Periodic) -> None:
    nine, ten = Release("app", "9"), Release("app", "10")
    old = state_of(periodic, named(rule=Rule("0 3 * * *")), nine)
    new = state_of(periodic, named(rule=Rule("0 4 * * *")), ten)
    assert periodic.fire(nine, firing(old)).fired is Fired.CHANGED
    assert periodic.register(nine, [named(rule=Rule("0 3 * * *"))]).newer == "10"
    assert periodic.fire(nine, firing(new)).fired is Fired.CHANGED
    assert periodic.fire(ten, firing(new)).fired is Fired.DONE
    assert waiting(me.broker.admin) == [job("1")]


def test_what_the_newest_generation_has_not_is_gone_and_other_sources_stay(periodic: Periodic) -> None:
    periodic.register(Release("app", "1"), [named("stays"), named("goes")])
    periodic.register(Release("other", "1"), [named("goes")])
    state = state_of(periodic, named("stays"), Release("app", "2"))
    assert state.number == 1  # not changed
    assert {(one.source, one.name): one.gone for one in periodic.records()} == {
        ("app", "goes"): True,
        ("app", "stays"): False,
        ("other", "goes"): False,
    }


def test_a_schedule_that_another_process_of_the_new_generation_brings_goes_on_where_it_was(periodic: Periodic) -> None:
    one, two = Release("app", "1"), Release("app", "2")
    periodic.fire(one, firing(state_of(periodic, named(), one)))
    periodic.pause("app", "nightly")
    before = state_of(periodic, named(), one)
    periodic.register(two, [named("another")])
    assert {one.name: one.gone for one in periodic.records()} == {"nightly": True, "another": False}
    assert state_of(periodic, named(), two) == before
    assert {one.name: one.gone for one in periodic.records()} == {"nightly": False, "another": False}


def test_of_two_texts_without_generations_the_one_that_came_last_fires_and_they_do_not_change_places(
    periodic: Periodic,
) -> None:
    old, new = named(queue="old"), named(queue="new")
    assert state_of(periodic, old).in_force
    number = state_of(periodic, new).number
    for _ in range(3):
        assert not state_of(periodic, old).in_force
        assert state_of(periodic, new).in_force
    assert state_of(periodic, new).number == number
    assert periodic.records()[0].text == new.text


def test_another_rule_begins_now_and_other_arguments_change_no_slot(periodic: Periodic) -> None:
    first = state_of(periodic, named())
    time.sleep(0.01)
    same_rule = state_of(periodic, named(args=[1]))
    assert same_rule.since == first.since
    assert same_rule.number > first.number
    assert state_of(periodic, named(rule=Rule("0 3 * * *"))).since > first.since


# --- overlaps


def claim(jid: str, on_conflict: str = "skip", instead_of: str = "") -> LockClaim:
    return LockClaim("Job:periodic", jid, 60, on_conflict, instead_of=instead_of)  # type: ignore[arg-type]


def locked(jid: str, *more: str) -> Push:
    return Push("q", job(jid), ties=(claim(jid, *more),))


def test_a_firing_whose_lock_is_held_tells_the_holder_and_changes_nothing(me: Process, periodic: Periodic) -> None:
    state = state_of(periodic, named())
    assert periodic.fire(APP, firing(state, "1", push=locked("1"))).fired is Fired.DONE
    state = state_of(periodic, named())
    result = periodic.fire(APP, firing(state, "2", push=locked("2")))
    assert (result.fired, result.holder and result.holder.jid) == (Fired.CHANGED, "1")
    assert state_of(periodic, named()) == state
    skipped = periodic.fire(APP, firing(state, "2", push=locked("2"), skips=True))
    assert (skipped.fired, skipped.word) == (Fired.DONE, "skipped")
    assert state_of(periodic, named()).since > state.since
    assert periodic.history("app", "nightly")[0][:1] == ("skipped",)
    assert periodic.history("app", "nightly")[0].jid == "1"
    assert (periodic.records()[0].fired, periodic.records()[0].skipped) == (1, 1)
    assert waiting(me.broker.admin) == [job("1")]


def test_a_holder_that_is_gone_does_not_count(me: Process, periodic: Periodic) -> None:
    periodic.fire(APP, firing(state_of(periodic, named()), "1", push=locked("1")))
    instead = locked("2", "skip", "1")
    assert periodic.fire(APP, firing(state_of(periodic, named()), "2", push=instead, skips=True)).word == "fired"


@pytest.mark.parametrize("ending", [Dead(job("1")), Done()])
def test_a_former_job_that_has_ended_does_not_keep_the_next_one_back_asynq_842_492(
    me: Process, periodic: Periodic, ending: Done | Dead
) -> None:
    periodic.fire(APP, firing(state_of(periodic, named()), "1", push=locked("1")))
    [delivery] = me.consume(1)
    me.settle((delivery, type(ending)(*([ending.payload] if isinstance(ending, Dead) else []), effects=(_free,))))  # type: ignore[call-arg]
    assert periodic.fire(APP, firing(state_of(periodic, named()), "2", push=locked("2"))).word == "fired"
    assert me.broker.admin.jobs_in(DEAD).count() == isinstance(ending, Dead)


_free = FreeLock("1", "Job:periodic")


def test_with_queue_the_job_waits_for_the_former_one(me: Process, periodic: Periodic) -> None:
    periodic.fire(APP, firing(state_of(periodic, named()), "1", push=locked("1")))
    later = firing(state_of(periodic, named()), "2", push=locked("2", "reschedule"))
    assert periodic.fire(APP, later).word == "fired"
    assert me.broker.admin.jobs_in(SCHEDULED).count() == 1
    assert waiting(me.broker.admin) == [job("1")]
