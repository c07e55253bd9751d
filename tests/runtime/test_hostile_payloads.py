"""Every field that we read with every kind of hostile value, from the fetch to the settled job: each such job ends in
one counted, bounded outcome, and its neighbours run."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from apps import own_app, started
from hostile_payloads import MARK, Case, cases
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import JobState
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.tracking.run import TrackedRuns
from goworkers_py.observe.running_jobs import MOST_SHOWN
from goworkers_py.runtime.alive.health import Health
from goworkers_py.wire.message import Message, current_message

# So many hostile jobs in one run of a daemon.
AT_ONCE = 3_000
EVERY = 100  # hostile jobs between two neighbours
CASES = cases()
WAITING = Place(JobState.WAITING, "q")
PLACES = (JobState.RETRY, JobState.DEAD, JobState.SCHEDULED, JobState.PARKED)


class Runs:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.of = Counter[Any]()

    def note(self) -> None:
        message = current_message()
        assert message is not None
        # All that user code may ask.
        told = message.tags, message.properties, message.batch, message.expires_at, message.created_at, repr(message)
        assert told
        with self._lock:
            self.of[message.get("case")] += 1


def declared(app: App, runs: Runs) -> None:
    limit = app.limit("shared", concurrent=1_000_000)

    @app.job("Succeeds", queue="q", limits=[limit], retry_in=36_000)
    def succeeds(*args: Any, **kwargs: Any) -> str:
        runs.note()
        return "result"

    @app.job("Fails", queue="q", limits=[limit], retry_in=36_000)
    def fails(*args: Any, **kwargs: Any) -> None:
        runs.note()
        raise ValueError("as ever")

    @app.job("Iterates", queue="q", retry_in=36_000)
    def iterates(*args: Any, cursor: Any = None, **kwargs: Any) -> Iterator[int]:
        runs.note()
        if cursor is None:
            yield 1

    @app.job("Neighbour", queue="q")
    def neighbour(number: int) -> None:
        runs.of[number] += 1

    for job in (succeeds, fails):

        @job.aggregate
        def together(members: list[list[Any]]) -> None:
            runs.note()


def kept(app: App) -> Counter[bytes]:
    """How often each case is in a place of the broker."""
    admin = app.broker.admin
    raws = [
        job.original or job.payload for state in PLACES for page in admin.jobs_in(Place(state)).pages() for job in page
    ]
    groups = app.broker.require_part(Groups)
    raws += [raw for entry in groups.entries() for raw in groups.members(entry.group, 0, 1_000)]
    return _marks(raws)


def _marks(raws: Iterable[bytes]) -> Counter[bytes]:
    return Counter(found[1] for raw in raws if (found := MARK.search(raw)))


@pytest.mark.parametrize("first", range(0, len(CASES), AT_ONCE))
def test_a_hostile_field_ends_its_job_alone_and_its_neighbours_run(
    first: int, broker_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    chosen, runs = CASES[first : first + AT_ONCE], Runs()
    caplog.set_level(logging.CRITICAL)
    mode = "serial" if first == 2 * AT_ONCE else "threads"
    with own_app(broker_address, QueueConfig("q", concurrency=4, mode=mode), timeout=5) as app:
        app.use(dataclasses.replace(app.config, sections=(EchoConfig("echoes", locks="native"),)))
        declared(app, runs)
        pushes = []
        for at, case in enumerate(chosen):
            if at % EVERY == 0:
                pushes.append(Push("q", b'{"class":"Neighbour","args":[%d],"jid":"n%d"}' % (at, at)))
            pushes.append(Push("q", case.raw))
        app.broker.transport.publish(pushes)
        neighbours = range(0, len(chosen), EVERY)
        while queued(app):  # a job that was fetched at the end of a look goes back at the stop
            with started(app) as launcher:
                launcher.after_jobs_s = 20.0  # the settler tries the refused ones again, in ever smaller batches
                # A look at the queue reads all of it.
                assert eventually(lambda: not launcher.managers[0].waiting("q") and not queued(app), 60, every_s=0.1)
                assert launcher.stop()
        assert [runs.of[number] for number in neighbours] == [1] * len(neighbours)
        places = kept(app)
    faults = [fault for case in chosen if (fault := fault_of(case, runs.of[case.mark.decode()], places[case.mark]))]
    assert not faults, f"{len(faults)} of {len(chosen)}: {faults[:20]}"
    assert not caplog.messages


def queued(app: App) -> bool:
    """Whether a hostile job or a neighbour is in the queue. Groups push jobs of their own."""
    pages = app.broker.admin.jobs_in(WAITING).pages()
    return any(MARK.search(job.payload) or b"Neighbour" in job.payload for page in pages for job in page)


# Expired; a set without members, which has nothing to run; a job without code that is not to be retried.
_DROPPED = "expir", "aggregates a set", "retry: false"


def fault_of(case: Case, runs: int, places: int) -> str:
    most = 2 if "time_slice" in case.about else 1  # a run may end at each yield
    if runs > most or places > 1:
        return f"{case.about}: ran {runs} times, is {places} times in a place"
    if not runs and not places and not any(told in case.about for told in _DROPPED):
        return f"{case.about}: lost"
    return ""


def test_the_threads_that_look_at_running_jobs_bear_every_field(
    broker_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_app(broker_address, QueueConfig("q")) as app:
        declared(app, Runs())
        launcher = app.runner.launcher()
        launcher._heartbeat.beat()
        running = {
            str(at): one for at, case in enumerate(CASES[::3]) if (one := begun(case, launcher.identity)) is not None
        }
        monkeypatch.setattr(Health, "running", running)
        services = launcher._services
        tracked, *_ = launcher._parts
        assert isinstance(tracked, TrackedRuns)
        for one in running.values():
            tracked.begin(one.message, one)
        app.broker.require_part(Cancels).ask("none", False)
        for service in (*services.of_features, services.heartbeat):
            service.run_once()
        assert len(launcher.health.report()["running"]["q"]) == MOST_SHOWN
        app.broker.close()


def begun(case: Case, identity: str) -> Delivery | None:
    """As a worker runs it; None for what is no job."""
    delivery = Delivery(case.raw, "q", identity)
    delivery.begun_at = 1.0
    try:
        delivery.message = Message(case.raw, "q")
    except UnreadablePayload:
        return None
    return delivery
