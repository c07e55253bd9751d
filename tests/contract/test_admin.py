"""People read and change jobs, queues and processes while processes work."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from harness import (
    DEAD,
    OUTBOX,
    PARKED,
    RETRIES,
    SCHEDULED,
    Process,
    Processes,
    account,
    as_it_was,
    job,
    jobs,
    payloads,
    stored,
    waiting,
)  # fmt: skip

from goworkers_py.brokers.contracts.admin import (
    MOST_OF_ONE_TIME,
    PAGE,
    Admin,
    Advice,
    Change,
    Changed,
    Glance,
    Place,
)
from goworkers_py.brokers.contracts.fleet import QueueStats
from goworkers_py.brokers.contracts.recoverable import Recoverable
from goworkers_py.brokers.contracts.span import Reached, Span
from goworkers_py.core.effect import PostJobs, Push
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import DONE, Dead, Done, Outcome, Park, Retry
from goworkers_py.wire.stored_job import StoredJob

Q = Place(JobState.WAITING, "q")
STATES = {"scheduled": SCHEDULED, "parked": PARKED, "retries": RETRIES, "dead": DEAD}
PLACES = {"queue": Q, "outbox": OUTBOX, **STATES}
BY_ARRIVAL = (Q, PARKED, OUTBOX)  # always shown newest first
EVERY_PLACE = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
EVERY_STATE = pytest.mark.parametrize("place", STATES.values(), ids=STATES)


def put(process: Process, place: Place, published: Sequence[bytes], since: float = 3e9) -> None:
    """The first of them is consumed, or due (at `since`), or has died before the others."""
    if place is Q:
        process.publish(*published)
    elif place is SCHEDULED:
        process.broker.transport.publish([process.push(one, at=since + number) for number, one in enumerate(published)])
    else:
        process.publish(*published, queue="put")
        taken = enumerate(process.consume(len(published), "put"))
        process.settle(*((one, end(place, one.payload, since + number)) for number, one in taken))


def end(place: Place, payload: bytes, at: float) -> Outcome:
    if place is RETRIES:
        return Retry(at, payload)
    if place is OUTBOX:
        return Done(effects=(PostJobs("parent", "line", (Push("put", payload, id=payload.hex()),)),))
    return Dead(payload) if place is DEAD else Park("line", payload)


def sizes(admin: Admin) -> dict[str, int]:
    return {queue.name: queue.size for queue in admin.queues()}


def seen(admin: Admin, place: Place, newest_first: bool = False) -> list[bytes]:
    return [one.payload for page in admin.jobs_in(place).pages(newest_first) for one in page]


@pytest.mark.parametrize("place", [Q, *STATES.values()], ids=["queue", *STATES])
def test_something_small_stands_in_for_a_large_payload(me: Process, admin: Admin, place: Place) -> None:
    large, named = job(args=[3_000 * "x"], jid="large"), job(args=[2_000 * "x"], jid="named")
    published = [job(jid="first"), large, named, job(jid="last")]
    put(me, place, published)
    glance = admin.jobs_in(place, Glance(longest=1_000, jid="named", longest_of_jid=2_500))
    read = [one for page in glance.pages() for one in page]
    assert sorted(one.jid for one in read) == ["first", "large", "last", "named"]
    assert {one.jid: one.whole for one in read if one.whole} == {"large": len(large)}
    assert [one.payload for one in read if one.jid == "named"] == [named]
    first = [one.jid for one in glance.first(4)]
    assert first == ["first", "large", "named", "last"] or (place is DEAD and sorted(first) == sorted(set(first)))
    assert [one.jid for one in glance.first(2, 1)] == first[1:3]


def delete(*chosen: bytes) -> Callable[[Sequence[StoredJob]], list[Change]]:
    return lambda page: [Change(one) for one in page if one.payload in chosen]


def change(
    admin: Admin, place: Place, decide: Callable[[Sequence[StoredJob]], Sequence[Change]]
) -> tuple[int, Changed]:
    """Returns how many jobs were looked at, and the result of all changes."""
    looked_at, changed = 0, Changed()
    for count, part in admin.jobs_in(place).change(decide):
        looked_at += count
        changed.add(part)
    return looked_at, changed


# --- queues


def test_a_queue_is_known_from_its_first_job_on_and_when_it_is_empty_again(me: Process, admin: Admin) -> None:
    assert admin.queues() == []
    assert admin.queue("q") is None
    me.publish(job(1), job(2), queue="q")
    me.publish(job(3), queue="a")
    assert sizes(admin) == {"a": 1, "q": 2}
    assert [queue.name for queue in admin.queues()] == ["a", "q"]
    me.settle(*((delivery, DONE) for delivery in me.consume(2)))
    assert admin.queue("q") == QueueStats("q", 0, 0.0)


def test_a_queue_tells_how_long_its_next_job_has_waited(me: Process, admin: Admin) -> None:
    now = admin.now()
    me.publish(job(1, created_at=now - 500, enqueued_at=now - 200), job(2, enqueued_at=now - 100))
    assert admin.queue("q").latency_s == pytest.approx(200, abs=20)
    me.consume(1)
    assert admin.queue("q").latency_s == pytest.approx(100, abs=20)


def test_a_queue_whose_next_job_nobody_can_read_has_no_latency(me: Process, admin: Admin) -> None:
    me.publish(b"no job")
    assert admin.queue("q") == QueueStats("q", 1, 0.0)


def test_a_queue_is_paused_once_and_resumed_once(me: Process, admin: Admin) -> None:
    assert [admin.pause("q"), admin.pause("q")] == [True, False]
    assert admin.queues() == [admin.queue("q")] == [QueueStats("q", 0, 0.0, paused=True)]
    assert [admin.resume("q"), admin.resume("q")] == [True, False]
    assert admin.queue("q") is None


# --- jobs of a place


def test_jobs_in_progress_are_no_place(admin: Admin) -> None:
    with pytest.raises(ArgumentError):
        admin.jobs_in(Place(JobState.IN_PROGRESS, "q"))


@EVERY_PLACE
def test_jobs_are_counted_and_the_first_of_them_shown(me: Process, admin: Admin, place: Place) -> None:
    assert (admin.jobs_in(place).count(), admin.jobs_in(place).first(5)) == (0, [])
    put(me, place, jobs(7))
    assert admin.jobs_in(place).count() == 7
    assert [one.payload for one in admin.jobs_in(place).first(3)] == jobs(3)
    assert admin.jobs_in(place).first(0) == []


@EVERY_PLACE
def test_a_job_is_shown_with_its_queue_or_its_time(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, [job(1)])
    for one in (*admin.jobs_in(place).first(1), *[one for page in admin.jobs_in(place).pages() for one in page]):
        named = ("put", "line") if place in (PARKED, OUTBOX) else (place.queue, "")
        assert (one.jid, one.queue, one.line) == ("1", *named)
        assert (one.at is None) == (place is Q)
    if place in (SCHEDULED, RETRIES):
        assert admin.jobs_in(place).first(1)[0].at == 3e9


@EVERY_PLACE
def test_jobs_are_shown_from_any_of_them_on(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(7))
    assert payloads(admin.jobs_in(place).first(3, start=2)) == jobs(7)[2:5]
    assert payloads(admin.jobs_in(place).first(9, start=6)) == jobs(7)[6:]
    assert admin.jobs_in(place).first(3, start=7) == []
    for newest_first in (False, True):
        everything = seen(admin, place, newest_first)
        for start in (0, 3, 7, 8):
            shown = itertools.chain.from_iterable(admin.jobs_in(place).pages(newest_first, start))
            assert payloads([*shown]) == everything[start:]


@pytest.mark.parametrize("place", [SCHEDULED, RETRIES], ids=["scheduled", "retries"])
def test_jobs_are_counted_before_and_after_a_time(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(5))  # due at 3e9, 3e9 + 1, ...
    found = admin.jobs_in(place)
    assert [found.before(3e9 + at) for at in (-1, 0, 0.5, 1, 4, 5, float("inf"))] == [0, 0, 1, 1, 4, 5, 5]
    assert [found.before(3e9 + at, newest_first=True) for at in (-1, 0, 0.5, 1, 4)] == [5, 4, 4, 3, 0]


def test_jobs_of_exactly_one_time_are_found_and_of_a_great_many_only_some(me: Process, admin: Admin) -> None:
    put(me, SCHEDULED, jobs(3))
    scheduled = admin.jobs_in(SCHEDULED)
    assert [(one.jid, one.at) for one in scheduled.at(3e9 + 1)] == [("000001", 3e9 + 1)]
    assert scheduled.at(3e9 + 0.5) == []
    me.broker.transport.publish([me.push(one, at=4e9) for one in jobs(MOST_OF_ONE_TIME + 10)])
    found = scheduled.at(4e9)
    assert (len(found), {one.at for one in found}) == (MOST_OF_ONE_TIME, {4e9})
    assert {*payloads(found)} < {*jobs(MOST_OF_ONE_TIME + 10)}


@pytest.mark.parametrize("place", [Q, PARKED, OUTBOX], ids=["queue", "parked", "outbox"])
def test_jobs_that_wait_for_no_time_are_not_counted_by_time(me: Process, admin: Admin, place: Place) -> None:
    with pytest.raises(ArgumentError, match="wait for no time"):
        admin.jobs_in(place).before(1.0)


@EVERY_PLACE
@pytest.mark.parametrize("newest_first", [False, True])
def test_all_jobs_are_seen_page_by_page_in_order(me: Process, admin: Admin, place: Place, newest_first: bool) -> None:
    put(me, place, jobs(PAGE + 3))
    expected = jobs(PAGE + 3)
    if newest_first or place in BY_ARRIVAL:
        expected.reverse()
    assert [len(page) for page in admin.jobs_in(place).pages(newest_first)] == [PAGE, 3]
    assert seen(admin, place, newest_first) == expected


@EVERY_PLACE
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(("going", "coming"), [(6, 0), (0, 7), (6, 7)], ids=["go", "come", "come and go"])
def test_jobs_that_come_and_go_hide_no_other_job_and_no_job_is_shown_twice(
    me: Process, other: Process, admin: Admin, place: Place, newest_first: bool, going: int, coming: int
) -> None:
    there = jobs(2 * PAGE + 50)
    put(me, place, there)
    gone: set[bytes] = set()
    found: Counter[bytes] = Counter()
    for number, page in enumerate(admin.jobs_in(place).pages(newest_first)):
        found.update(one.payload for one in page)
        if number > 3:
            continue
        if place is Q:
            gone |= {*payloads(other.consume(going))}
        elif place is OUTBOX:
            posted = other.broker.store.posted("line", going)
            other.broker.store.sent("line", posted)
            gone |= {one.push.payload for one in posted}
        elif place is PARKED:
            other.broker.store.release("line", going)
            gone |= {*payloads(other.consume(going, "put"))}
        else:  # at both ends of all, and of those that were seen just now
            at_ends = [there[number], there[~number], *payloads([*page[:2], *page[-2:]])]
            change(other.broker.admin, place, delete(*at_ends[:going]))
            gone |= {*at_ends[:going]}
        put(other, place, [job(f"new {number}:{count}") for count in range(coming)], since=3e9 + (number + 1) / 10)
    assert set(there) - gone <= set(found)
    assert max(found.values()) == 1


@EVERY_PLACE
def test_chosen_jobs_are_deleted_and_no_others(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(PAGE + 50))
    chosen = jobs(PAGE + 50)[::3]
    assert change(admin, place, delete(*chosen)) == (PAGE + 50, Changed(len(chosen)))
    assert sorted(stored(admin, place)) == sorted(set(jobs(PAGE + 50)) - set(chosen))


@EVERY_PLACE
def test_nothing_is_changed_where_nothing_is_chosen(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(5))
    assert change(admin, place, lambda page: []) == (5, Changed())
    assert stored(admin, place) == jobs(5)


def test_of_equal_jobs_as_many_are_deleted_as_were_chosen(me: Process, admin: Admin) -> None:
    me.publish(job(1), job(2), job(1), job(1))
    changed = change(admin, Q, lambda page: [Change(one) for one in page if one.payload == job(1)][:2])
    assert changed == (4, Changed(2))
    assert sorted(waiting(admin)) == [job(1), job(2)]


@EVERY_PLACE
def test_a_job_that_left_its_place_before_its_change_is_no_error(
    me: Process, other: Process, admin: Admin, place: Place
) -> None:
    def decide(page: Sequence[StoredJob]) -> list[Change]:
        change(other.broker.admin, place, delete(job("000001")))
        return [Change(one) for one in page]

    put(me, place, jobs(3))
    looked_at, changed = change(admin, place, decide)
    assert (looked_at, changed.done, changed.problems) == (3, 2, [])
    assert stored(admin, place) == []


def test_a_job_that_was_consumed_meanwhile_is_not_deleted(me: Process, admin: Admin) -> None:
    def decide(page: Sequence[StoredJob]) -> list[Change]:
        me.consume(1)
        return [Change(one) for one in page]

    me.publish(*jobs(3))
    assert change(admin, Q, decide) == (3, Changed(2))
    assert [one.job.payload for one in admin.in_progress()] == [jobs(3)[0]]


@EVERY_STATE
def test_chosen_jobs_are_moved_with_their_new_payload(me: Process, admin: Admin, place: Place) -> None:
    def decide(page: Sequence[StoredJob]) -> list[Change]:
        return [
            Change(one, Place(JobState.WAITING, f"q{one.jid[-1]}"), one.payload.replace(b"Job", b"New"))
            for one in page
            if one.jid != "000000"
        ]

    put(me, place, jobs(4))
    assert change(admin, place, decide) == (4, Changed(3))
    assert stored(admin, place) == jobs(1)
    for number in (1, 2, 3):
        assert waiting(admin, f"q{number}") == [jobs(4)[number].replace(b"Job", b"New")]


@EVERY_STATE
def test_a_moved_job_goes_to_the_back_of_its_queue(me: Process, admin: Admin, place: Place) -> None:
    me.publish(job("waits"))
    put(me, place, [job(1)])
    change(admin, place, lambda page: [Change(one, Q, one.payload) for one in page])
    assert waiting(admin) == [job("waits"), job(1)]


@pytest.mark.parametrize("place", [SCHEDULED, PARKED, RETRIES], ids=["scheduled", "parked", "retries"])
def test_chosen_jobs_are_buried_now_and_the_oldest_dead_jobs_are_deleted_beyond_the_limit(
    start: Processes, admin: Admin, place: Place
) -> None:
    process = start(dead_max_jobs=2)
    put(process, place, jobs(3))
    before = admin.now()
    for jid in ("000001", "000000", "000002"):
        change(
            process.broker.admin,
            place,
            lambda page, jid=jid: [Change(one, DEAD, one.payload) for one in page if one.jid == jid],
        )
    assert stored(admin, place) == []
    assert stored(admin, DEAD) == [job("000000"), job("000002")]
    assert all(before <= one.at <= admin.now() for one in admin.jobs_in(DEAD).first(5))


@EVERY_PLACE
def test_a_change_tells_which_jobs_it_has_changed(me: Process, admin: Admin, place: Place) -> None:
    def decide(page: Sequence[StoredJob]) -> list[Change]:
        change(admin, place, delete(jobs(4)[1]))
        return [Change(one) for one in page if one.payload != jobs(4)[2]]

    put(me, place, jobs(4))
    [(_, changed)] = admin.jobs_in(place).change(decide)
    assert sorted(payloads(changed.jobs)) == [jobs(4)[0], jobs(4)[3]]


@pytest.mark.parametrize("place", [SCHEDULED, RETRIES], ids=["scheduled", "retries"])
def test_only_pages_with_jobs_of_the_span_are_looked_at(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(3 * PAGE))  # due at 3e9, 3e9 + 1, ...

    def decide(page: Sequence[StoredJob]) -> list[Change]:
        return [Change(one) for one in page if span.first <= one.at <= span.last]

    span = Span(first=3e9 + 10, last=3e9 + 12)
    [(looked_at, changed)] = admin.jobs_in(place).change(decide, span)
    assert (looked_at, changed) == (PAGE, Changed(3))
    assert stored(admin, place) == [*jobs(10), *jobs(3 * PAGE)[13:]]
    reached = Reached(3e9 + 13, skip=1)
    span = Span(first=3e9 + 11, last=3e9 + 14, reached=reached)
    assert [*admin.jobs_in(place).change(decide, span)] == [(PAGE, Changed(1))]
    assert stored(admin, place) == [*jobs(10), jobs(14)[13], *jobs(3 * PAGE)[15:]]
    none = Span(first=4e9)
    assert [*admin.jobs_in(place).change(decide, none)] == []


@EVERY_PLACE
def test_a_change_goes_on_behind_the_jobs_of_a_former_one(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(PAGE + 30))
    looked_at: list[bytes] = []

    def decide(page: Sequence[StoredJob]) -> list[Change]:
        looked_at.extend(payloads(page))
        return []

    [(_, changed), *_] = admin.jobs_in(place).change(decide)
    everything, looked_at = looked_at, []
    behind = Span(reached=changed.reached._replace(skip=PAGE - 5))
    assert sum(count for count, _ in admin.jobs_in(place).change(decide, behind)) == 35
    assert looked_at == everything[PAGE - 5 :]


@pytest.mark.parametrize("place", [Q, PARKED, OUTBOX], ids=["queue", "parked", "outbox"])
def test_jobs_that_wait_for_no_time_are_not_changed_by_time(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(1))
    with pytest.raises(ArgumentError, match="wait for no time"):
        list(admin.jobs_in(place).change(lambda page: [], Span(first=1.0)))


LATER_PLACES = pytest.mark.parametrize("place", [SCHEDULED, RETRIES], ids=["scheduled", "retries"])


@LATER_PLACES
def test_a_job_waits_for_another_time(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(3))
    due = {"000000": 4e9, "000002": 2.5e9}
    _, changed = change(
        admin, place, lambda page: [Change(one, at=due[one.jid]) for one in page if one.at != due.get(one.jid, one.at)]
    )
    assert changed == Changed(2)
    assert [(one.jid, one.at) for one in admin.jobs_in(place).first(9)] == [
        ("000002", 2.5e9), ("000001", 3e9 + 1), ("000000", 4e9),
    ]  # fmt: skip


@LATER_PLACES
@pytest.mark.parametrize("at", [1.5e9, 5e9])
def test_every_job_of_several_pages_waits_for_another_time_once(
    me: Process, admin: Admin, place: Place, at: float
) -> None:
    put(me, place, jobs(2 * PAGE + 50))
    _, changed = change(admin, place, lambda page: [Change(one, at=at) for one in page if one.at != at])
    assert changed == Changed(2 * PAGE + 50)
    assert {one.at for one in admin.jobs_in(place).first(2 * PAGE + 51)} == {at}


@LATER_PLACES
def test_a_job_that_is_gone_does_not_come_back_at_another_time(me: Process, admin: Admin, place: Place) -> None:
    def decide(page: Sequence[StoredJob]) -> list[Change]:
        change(admin, place, delete(jobs(2)[0]))
        return [Change(one, at=4e9) for one in page if one.at != 4e9]

    put(me, place, jobs(2))
    assert change(admin, place, decide)[1] == Changed(1)
    assert stored(admin, place) == [jobs(2)[1]]


@pytest.mark.parametrize("place", [Q, PARKED, OUTBOX, DEAD], ids=["queue", "parked", "outbox", "dead"])
def test_other_jobs_wait_for_no_time_that_could_change(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(1))
    with pytest.raises(ArgumentError):
        change(admin, place, lambda page: [Change(one, at=4e9) for one in page])
    assert stored(admin, place) == jobs(1)


@pytest.mark.parametrize(
    ("place", "goal"), [(Q, Q), (Q, DEAD), (Q, SCHEDULED), (DEAD, DEAD), (PARKED, RETRIES), (OUTBOX, Q)]
)
def test_a_change_that_cannot_be_is_refused(me: Process, admin: Admin, place: Place, goal: Place) -> None:
    put(me, place, jobs(3))
    with pytest.raises(ArgumentError):
        change(admin, place, lambda page: [Change(page[0], goal, page[0].payload)])
    assert stored(admin, place) == jobs(3)


def test_jobs_are_moved_to_the_back_of_another_queue_in_their_order(me: Process, admin: Admin) -> None:
    put(me, Q, jobs(5))
    me.publish(job("other"), queue="o")
    goal = Place(JobState.WAITING, "o")

    def decide(page: Sequence[StoredJob]) -> list[Change]:
        return [Change(one, goal, one.payload + b" ") for one in page if one.payload not in jobs(5)[1:3]]

    [(looked_at, changed)] = admin.jobs_in(Q).change(decide, Span(next_first=True))
    assert (looked_at, sorted(payloads(changed.jobs))) == (5, [jobs(5)[0], *jobs(5)[3:]])
    assert waiting(admin, "q") == jobs(5)[1:3]
    assert waiting(admin, "o") == [job("other"), *(one + b" " for one in (jobs(5)[0], *jobs(5)[3:]))]


def test_a_queue_that_gets_only_moved_jobs_is_listed(me: Process, admin: Admin) -> None:
    put(me, Q, jobs(1))
    list(admin.jobs_in(Q).change(lambda page: [Change(one, Place(JobState.WAITING, "o"), one.payload) for one in page]))
    assert "o" in [queue.name for queue in admin.queues()]


def test_a_queue_is_looked_through_from_its_next_job_on(me: Process, admin: Admin) -> None:
    put(me, Q, jobs(2 * PAGE + 10))
    looked_at: list[bytes] = []

    def decide(page: Sequence[StoredJob]) -> list[Change]:
        looked_at.extend(payloads(page))
        return [Change(page[0], Place(JobState.WAITING, "o"), page[0].payload)]

    [(_, first), *_] = admin.jobs_in(Q).change(lambda page: [], Span(next_first=True))
    reached = first.reached._replace(skip=3)
    steps = [count for count, _ in admin.jobs_in(Q).change(decide, Span(next_first=True, reached=reached))]
    assert (sum(steps), looked_at) == (2 * PAGE + 7, jobs(2 * PAGE + 10)[3:])
    firsts = [3 + sum(steps[:step]) for step in range(len(steps))]
    assert waiting(admin, "o") == [jobs(2 * PAGE + 10)[first] for first in firsts]


def test_a_queue_is_looked_through_from_behind_a_job_that_has_come_nearer(me: Process, admin: Admin) -> None:
    put(me, Q, jobs(20))
    [(_, first)] = admin.jobs_in(Q).change(lambda page: [], Span(next_first=True))
    reached = first.reached._replace(skip=12, behind=StoredJob(jobs(20)[11]).jid)
    me.consume(4)
    looked_at: list[bytes] = []

    def decide(page: Sequence[StoredJob]) -> list[Change]:
        looked_at.extend(payloads(page))
        return []

    list(admin.jobs_in(Q).change(decide, Span(next_first=True, reached=reached)))
    assert looked_at == jobs(20)[12:]


@EVERY_PLACE
def test_a_place_is_cleared(me: Process, admin: Admin, place: Place) -> None:
    put(me, place, jobs(5))
    me.publish(job("other"), queue="other")
    assert [admin.jobs_in(place).clear(), admin.jobs_in(place).clear()] == [5, 0]
    assert admin.jobs_in(place).count() == 0
    assert admin.queue("q") is None
    assert waiting(admin, "other") == [job("other")]


def test_a_cleared_queue_begins_anew(me: Process, admin: Admin) -> None:
    me.publish(job(1))
    admin.jobs_in(Q).clear()
    me.publish(job(2))
    assert payloads(me.consume(1)) == [job(2)]
    assert sizes(admin) == {"q": 0}


@EVERY_STATE
def test_two_callers_that_change_the_same_jobs_move_each_once(start: Processes, admin: Admin, place: Place) -> None:
    processes = [start(), start(), start()]
    put(processes[0], place, jobs(300))
    moved = [0, 0, 0]

    def move(number: int) -> None:
        goal = Place(JobState.WAITING, f"to {number}")
        decided = change(
            processes[number].broker.admin, place, lambda page: [Change(one, goal, one.payload) for one in page]
        )
        moved[number] = decided[1].done

    threads = [threading.Thread(target=move, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(moved) == 300
    places = account(admin)
    assert (len(places), set(map(len, places.values()))) == (300, {1})


# --- the fleet


def test_the_numbers_of_everything_at_once(
    start: Processes, me: Process, other: Process, admin: Admin, recoverable: Recoverable
) -> None:
    start.expire(start())
    for place in (SCHEDULED, RETRIES, DEAD, Q):
        put(me, place, jobs(3))
    admin.pause("mail")
    me.consume(1)
    stats = admin.stats()
    assert (stats.processed, stats.failed) == (6, 6)
    assert (stats.scheduled, stats.retries, stats.dead, stats.in_progress, stats.processes) == (3, 3, 3, 1, 2)
    assert {queue.name: (queue.size, queue.paused) for queue in stats.queues} == {
        "mail": (0, True), "put": (0, False), "q": (2, False),
    }  # fmt: skip


def test_owners_have_their_queues_and_whether_they_live(
    start: Processes, me: Process, other: Process, admin: Admin, recoverable: Recoverable
) -> None:
    other.beat(queues=["b", "a"], trouble="is closed")
    owners = {owner.identity: owner for owner in admin.owners()}
    mine, others = owners[me.identity], owners[other.identity]
    assert (mine.queues, mine.here, mine.trouble, mine.alive, mine.dead_for_sure) == (["q"], True, "", True, False)
    assert (others.queues, others.trouble) == (["a", "b"], "is closed")
    start.expire(other)
    others = next(owner for owner in admin.owners() if owner.identity == other.identity)
    assert (others.trouble, others.alive, others.dead_for_sure) == ("", False, False)


def test_jobs_of_a_dead_owner_are_shown_until_they_are_recovered(
    start: Processes, me: Process, other: Process, admin: Admin, recoverable: Recoverable
) -> None:
    me.publish(*jobs(3))
    other.consume(2)
    start.expire(other)
    held = [(one.owner.identity, one.owner.alive, one.job.payload) for one in admin.in_progress()]
    assert held == [(other.identity, False, payload) for payload in jobs(2)]
    recovering = iter(recoverable.recover(me.identity, as_it_was, proof=""))
    next(recovering)
    left = [one.owner for one in admin.in_progress()]
    assert [(owner.alive, owner.dead_for_sure) for owner in left] == [(False, True)] * len(left)
    list(recovering)
    assert [*admin.in_progress()] == []


def test_jobs_in_progress_are_counted_by_owner_and_queue(
    me: Process, other: Process, admin: Admin, recoverable: Recoverable
) -> None:
    me.beat(queues=["q", "mail"])
    me.publish(*jobs(5))
    me.publish(job("mail", "mail"), queue="mail")
    me.consume(2), me.consume(1, "mail"), other.consume(3)
    owners = admin.owners()
    mine = [owner for owner in owners if owner.identity == me.identity]
    assert [admin.held(owners), admin.held(owners, "q"), admin.held(owners, "mail")] == [6, 5, 1]
    assert [admin.held(mine), admin.held(mine, "q"), admin.held(mine, "none"), admin.held([])] == [3, 2, 0, 0]


# --- the broker itself


def test_the_clock_of_the_broker_is_in_epoch_seconds_and_never_goes_back(admin: Admin) -> None:
    assert 1.7e9 < admin.now() <= admin.now() < 1e10


def test_a_broker_that_only_its_fleet_wrote_to_has_no_damage(me: Process, admin: Admin) -> None:
    me.publish(job(1))
    assert list(admin.damage()) == []
    assert list(admin.damaged_queues()) == []


def test_each_server_that_is_there_tells_its_version_and_its_memory(admin: Admin) -> None:
    for facts in admin.servers():
        assert facts.address
        assert facts.product
        assert facts.version[:1].isdigit()
        assert facts.memory_bytes
        assert facts.clients


def test_every_advice_of_a_check_says_what_is_found_and_what_to_do(me: Process, admin: Admin) -> None:
    for name, check in admin.checks(["q"]).items():
        assert name
        for advice in check():
            assert isinstance(advice, Advice)
            assert advice.what
            assert advice.todo
