"""`workers.testing.fake()`: pushes stay in memory, and run when the test says so. No test here has a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import goworkers_py as workers
from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.api.request import PushRequest
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, BrokerUnreachable, ConfigError
from goworkers_py.testing import Sandbox
from goworkers_py.wire import needs
from goworkers_py.wire.message import Message, current_message


def outcomes(sandbox: Sandbox, **options: Any) -> list[tuple[str, str]]:
    return [(run.job.job_class, run.outcome) for run in sandbox.run_all(**options) if run.job is not None]


def args_of(jobs: list[testing.EnqueuedJob]) -> list[Any]:
    return [job.args for job in jobs]


class Link:
    """Notes the jobs that pass it."""

    def __init__(self, note: Callable[[str], None], acknowledge: bool = True) -> None:
        self.note = note
        self.acknowledge = acknowledge

    def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
        self.note(f"{queue} {message.job_class}")
        return call_next() and self.acknowledge


# --- pushing and running


def test_a_pushed_job_stays_in_memory_until_run_all_runs_it(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []
    invoice = app.job("Billing::InvoiceJob", queue="billing")(ran.append)
    jid = invoice.enqueue(42)
    assert ran == []
    [job] = sandbox.jobs()
    assert (job.job_class, job.args, job.kwargs, job.queue, job.at, job.jid) == (
        "Billing::InvoiceJob", [42], {}, "billing", None, jid,
    )  # fmt: skip
    [run] = sandbox.run_all()
    assert (run.outcome, run.error, run.job and run.job.jid) == ("done", None, jid)
    assert ran == [42]
    assert sandbox.jobs() == sandbox.run_all() == []


def test_arguments_travel_as_json(app: App, sandbox: Sandbox) -> None:
    seen: list[Any] = []
    job = app.job("J")(seen.append)
    given = {"rows": [1, 2]}
    job.enqueue(given)
    given["rows"].append(3)
    sandbox.run_all()
    assert seen == [{"rows": [1, 2]}]
    with pytest.raises(ArgumentError):
        job.enqueue(object())
    with pytest.raises(ArgumentError, match="too many positional"):
        job.enqueue(1, 2, 3)


def test_jobs_run_in_the_order_of_their_pushes_whatever_their_queues(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []
    job = app.job("J")(ran.append)
    for number, queue in enumerate(["b", "a", "b", "c", "a"]):
        job.set(queue=queue).enqueue(number)
    sandbox.run_all()
    assert ran == [0, 1, 2, 3, 4]


def test_run_all_runs_what_jobs_and_atomic_blocks_push(app: App, sandbox: Sandbox) -> None:
    ran: list[str] = []
    app.job("Last", queue="z")(lambda: ran.append("last"))
    app.job("Next", atomic=True)(lambda: app.enqueue("z", "Last", []) and ran.append("next"))
    app.job("First")(lambda: app.enqueue("default", "Next", []) and ran.append("first"))
    with app.atomic():
        app.enqueue("default", "First", [])
        assert sandbox.jobs() == []
    assert [name for name, _ in outcomes(sandbox)] == ["First", "Next", "Last"]
    assert ran == ["first", "next", "last"]


def test_a_job_that_pushes_itself_for_ever_ends_the_test(app: App, sandbox: Sandbox) -> None:
    app.job("Again")(lambda: app.enqueue("default", "Again", []))
    app.enqueue("default", "Again", [])
    with pytest.raises(RuntimeError, match="more than 20 jobs ran"):
        sandbox.run_all(limit=20)


def test_jobs_of_programs_in_other_languages_stay_where_they_are(app: App, sandbox: Sandbox) -> None:
    app.job("Ours", queue="python")(lambda: None)
    app.enqueue("ruby", "RubyJob", [1])
    app.enqueue("python", "Ours", [])
    assert outcomes(sandbox) == [("Ours", "done")]
    assert [job.job_class for job in sandbox.jobs()] == ["RubyJob"]


def test_a_class_without_code_in_a_queue_of_ours_is_an_error(app: App, sandbox: Sandbox) -> None:
    app.job("Ours", queue="python")(lambda: None)
    app.enqueue("python", "Missspelt", [])
    with pytest.raises(workers.UnknownJob, match="Missspelt"):
        sandbox.run_all()


def test_a_handler_runs_every_job_of_its_queue(app: App, sandbox: Sandbox) -> None:
    seen: list[str] = []
    app.process("mail", lambda message: seen.append(message.job_class))
    app.enqueue("mail", "Any", [])
    sandbox.run_all()
    assert seen == ["Any"]


def test_middleware_client_links_and_the_current_message_are_those_of_production(app: App, sandbox: Sandbox) -> None:
    seen: list[str] = []

    @app.client_middleware
    def tag(job: dict[str, Any]) -> dict[str, Any] | None:
        return None if job["args"] == ["stop"] else {**job, "tags": ["t"]}

    def code(word: str) -> None:
        message = current_message()
        seen.append(f"{word} {message.tags if message else None}")

    job = app.job("J")(code)
    app.middleware.append(Link(lambda text: seen.append(f"inner {text}")))
    app.middleware.prepend(Link(lambda text: seen.append(f"outer {text}")))
    assert job.enqueue("stop") is None
    job.enqueue("go")
    sandbox.run_all()
    assert seen == ["outer default J", "inner default J", "go ['t']"]
    assert current_message() is None


def test_a_job_that_a_middleware_does_not_acknowledge_is_kept(app: App, sandbox: Sandbox) -> None:
    job = app.job("J")(lambda: None)
    app.middleware.append(Link(lambda text: None, acknowledge=False))
    job.enqueue()
    assert outcomes(sandbox) == [("J", "unacknowledged")]
    assert outcomes(sandbox) == []


def test_async_jobs_run(app: App, sandbox: Sandbox) -> None:
    seen: list[int] = []

    @app.job("J", atomic=True)
    async def code(number: int) -> None:
        await asyncio.sleep(0)
        if number:
            app.enqueue("default", "J", [number - 1])
        seen.append(number)

    code.enqueue(2)
    sandbox.run_all()
    assert seen == [2, 1, 0]


def test_async_jobs_run_in_an_async_test_while_its_loop_waits(app: App, sandbox: Sandbox) -> None:
    threads: list[threading.Thread] = []

    @app.job("J")
    async def code() -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread())

    async def test() -> None:
        code.enqueue()
        sandbox.run_all()

    asyncio.run(test())
    assert [thread.is_alive() for thread in threads] == [False]


def test_other_threads_push_into_the_block(app: App, sandbox: Sandbox) -> None:
    job = app.job("J")(lambda number: None)
    threads = [threading.Thread(target=job.enqueue, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run.job.args[0] for run in sandbox.run_all() if run.job) == list(range(8))


def test_a_payload_that_is_no_job_is_dead_and_a_job_of_a_newer_release_waits(app: App, sandbox: Sandbox) -> None:
    app.job("J")(lambda: None)
    app.broker.transport.publish([Push("default", b"no json")])
    app.client.push_all(PushRequest("default", "J", [[]], needs=frozenset({"telepathy"})))
    assert [run.outcome for run in sandbox.run_all()] == ["dead", "reschedule"]
    assert needs.FIELD in sandbox.jobs()[0].message
    assert app.inspector.stats().dead == 1


def test_a_suspect_runs(app: App, sandbox: Sandbox) -> None:
    ran: list[int] = []
    app.job("J")(lambda: ran.append(1))
    suspected = {"v": 1, "count": 2, "since": time.time()}
    for _ in range(2):
        app.client_middleware(lambda job: {**job, "recovered": suspected})
        app.enqueue("default", "J", [])
    assert outcomes(sandbox) == [("J", "done"), ("J", "done")]


# --- failures


def test_the_first_error_is_raised_and_its_job_waits_for_a_retry(app: App, sandbox: Sandbox) -> None:
    @app.job("J")
    def fails(number: int) -> None:
        raise ValueError(f"no order {number}")

    fails.enqueue(1)
    fails.enqueue(2)
    with pytest.raises(ValueError, match="no order 1") as raised:
        sandbox.run_all()
    assert [entry.name for entry in raised.traceback][-1] == "fails"
    assert all("links" not in str(entry.path) for entry in raised.traceback)
    [waiting] = sandbox.retries()
    assert (waiting.args, waiting.error) == ([1], "ValueError: no order 1")
    assert args_of(sandbox.jobs()) == [[2]]


def test_without_raise_errors_jobs_fail_as_in_production_until_they_are_dead(app: App, sandbox: Sandbox) -> None:
    told: list[tuple[str, int | None]] = []
    app.on_error(lambda message, error: told.append(("error", message.retry_count)))
    app.on_death(lambda message, error: told.append(("death", message.retry_count)))

    @app.job("J", retry=2)
    def fails() -> None:
        raise ValueError("no")

    fails.enqueue()
    assert outcomes(sandbox, raise_errors=False) == [("J", "retry")]
    assert sandbox.run_all(raise_errors=False) == []
    for outcome in ("retry", "dead"):
        sandbox.travel(3600)
        [run] = sandbox.run_all(raise_errors=False)
        assert run.outcome == outcome
        assert isinstance(run.error, ValueError)
    assert told == [("error", None), ("error", 0), ("error", 1), ("death", 1)]
    assert (len(sandbox.dead("J")), sandbox.retries(), sandbox.jobs()) == (1, [], [])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (workers.RetryJob("later", delay=60), "retry"),
        (workers.DiscardJob("not needed"), "discard"),
        (workers.KillJob("broken"), "dead"),
    ],
)
def test_what_a_job_says_about_its_end_is_no_error(
    app: App, sandbox: Sandbox, error: BaseException, outcome: str
) -> None:
    def code() -> None:
        raise error

    app.job("J")(code).enqueue()
    [run] = sandbox.run_all()
    assert (run.outcome, run.error) == (outcome, error)
    assert len(sandbox.retries()) == (outcome == "retry")
    assert len(sandbox.dead()) == (outcome == "dead")


def test_a_retry_runs_when_the_clock_has_travelled_to_it(app: App, sandbox: Sandbox) -> None:
    tries: list[float] = []

    @app.job("J", retry_in=600)
    def fails_once() -> None:
        tries.append(app.clock.wall())
        if len(tries) == 1:
            raise ConnectionError("not now")

    fails_once.enqueue()
    with pytest.raises(ConnectionError):
        sandbox.run_all()
    sandbox.travel(500)
    assert sandbox.run_all() == []
    sandbox.travel(200)
    assert outcomes(sandbox) == [("J", "done")]
    assert tries[1] - tries[0] >= 700


@pytest.mark.parametrize("raise_errors", [True, False])
def test_an_interrupt_is_never_taken_for_a_failed_job(app: App, sandbox: Sandbox, raise_errors: bool) -> None:
    def code() -> None:
        raise KeyboardInterrupt

    app.job("J")(code).enqueue()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run_all(raise_errors)


# --- time


def test_a_scheduled_job_runs_at_its_time(app: App, sandbox: Sandbox) -> None:
    seen: list[float | None] = []

    def code() -> None:
        message = current_message()
        seen.append(message.enqueued_at if message else None)

    job = app.job("J")(code)
    pushed_at = app.clock.wall()
    job.enqueue_in(3600, *[])
    assert sandbox.run_all() == []
    [waiting] = sandbox.jobs(job)
    assert waiting.at is not None
    assert waiting.at >= pushed_at + 3600
    sandbox.travel(1800)
    assert sandbox.run_all() == []
    sandbox.travel(1800)
    assert outcomes(sandbox) == [("J", "done")]
    assert seen[0] is not None
    assert seen[0] >= waiting.at


def test_the_clock_follows_that_of_the_machine_so_tools_that_freeze_time_work(
    app: App, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = app.job("J")(lambda: None)
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    sandbox.travel(100)
    job.enqueue_in(60)
    assert [waiting.at for waiting in sandbox.jobs()] == [1_160.0]
    monkeypatch.setattr(time, "time", lambda: 1_060.0)
    assert outcomes(sandbox) == [("J", "done")]


def test_the_clock_can_be_set_and_is_back_after_the_block(app: App) -> None:
    job = app.job("J")(lambda: None)
    far = 4_102_444_800.0
    with testing.fake(app) as sandbox:
        job.enqueue_at(far)
        sandbox.travel_to(far)
        assert outcomes(sandbox) == [("J", "done")]
        job.enqueue()
        assert (sandbox.jobs()[0].message.created_at or 0) >= far
        with testing.fake(app):
            assert app.clock.wall() >= far
            testing.travel(1e6)
        assert app.clock.wall() < far + 1e6
    assert abs(app.clock.wall() - time.time()) < 60


# --- blocks


def test_a_block_that_raises_leaves_the_app_as_it_was(app: App) -> None:
    def fails() -> None:
        with testing.fake(app):
            app.enqueue("default", "J", [])
            testing.travel(1e6)
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        fails()
    assert app.clock.travelled_s == 0
    with pytest.raises(BrokerUnreachable):
        app.enqueue("default", "J", [])
    with pytest.raises(RuntimeError, match="no test block is open"):
        testing.jobs()
    app.use(app.config)  # closes its connections


def test_a_nested_block_has_jobs_of_its_own(app: App, sandbox: Sandbox) -> None:
    app.job("J")(lambda number: None)
    app.enqueue("default", "J", [1])
    with testing.fake(app):
        assert testing.jobs() == []
        app.enqueue("default", "J", [2])
        assert args_of(testing.jobs()) == [[2]]
    assert args_of(testing.jobs()) == args_of(sandbox.jobs()) == [[1]]


def test_configure_inside_a_block_opens_no_other_broker_and_holds_after_it(app: App) -> None:
    with testing.fake(app):
        app.enqueue("default", "J", [1])
        app.configure(broker="redis://localhost:2", max_retries=0)
        app.job("J")(lambda number: 1 // 0)
        app.enqueue("default", "J", [2])
        assert args_of(testing.jobs()) == [[1], [2]]
        assert [run.outcome for run in testing.run_all(raise_errors=False)] == ["dead", "dead"]
    assert app.config.broker == "redis://localhost:2"


def test_the_broker_of_the_app_is_there_again_after_the_block_unless_it_was_configured_anew(app: App) -> None:
    app.configure(broker="memory://before")
    before = app.broker
    with testing.fake(app):
        assert app.broker is not before
    assert app.broker is before
    with testing.fake(app):
        app.configure(broker="memory://after")
    assert app.broker is not before


def test_the_clock_is_the_machines_also_after_a_daemon_has_followed_a_server(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.clock.synchronize(1e9, 0, 0)
    monkeypatch.setattr(time, "time", lambda: 2_000.0)
    with testing.fake(app):
        assert app.clock.wall() == 2_000.0


def test_each_call_of_a_decorated_function_has_a_block_of_its_own(app: App) -> None:
    @testing.fake(app)
    def pushed() -> int:
        app.enqueue("default", "J", [])
        return len(testing.jobs())

    assert pushed() == pushed() == 1


def test_each_app_has_its_own_sandbox(app: App) -> None:
    other = App()
    other.configure(broker="redis://localhost:3")
    other.job("There")(lambda: None)
    app.job("Here", atomic=True)(lambda: other.enqueue("default", "There", []))
    with testing.fake(app) as here, testing.fake(other) as there:
        app.enqueue("default", "Here", [])
        assert testing.jobs() == there.jobs() == []
        assert outcomes(here) == [("Here", "done")]  # its push was relayed
        assert outcomes(there) == [("There", "done")]


def test_fake_without_an_app_is_the_default_one() -> None:
    with workers.testing.fake() as sandbox:
        workers.enqueue("default", "NobodyRunsThis", [1])
        assert args_of(workers.testing.jobs("NobodyRunsThis")) == [[1]]
        assert sandbox.app is workers.app


def test_clear_forgets_jobs_and_pushes(app: App, sandbox: Sandbox) -> None:
    app.job("J")(lambda: 1 // 0)
    app.enqueue("default", "J", [])
    sandbox.run_all(raise_errors=False)
    app.enqueue("default", "J", [])
    sandbox.clear()
    assert (sandbox.jobs(), sandbox.retries()) == ([], [])
    sandbox.assert_not_enqueued()
    app.enqueue("default", "J", [])
    assert outcomes(sandbox, raise_errors=False) == [("J", "retry")]


def test_no_daemon_starts_inside_a_block_and_no_block_beside_a_daemon(app: App) -> None:
    app.allow_no_jobs = True
    with testing.fake(app), pytest.raises(ConfigError, match="test block"):
        app.start()
    app.configure(broker="memory://beside-a-daemon")
    app.start()
    try:
        with pytest.raises(ConfigError, match="call quit"), testing.fake(app):
            pass
    finally:
        app.quit()


def test_the_inspector_shows_the_jobs_of_the_block(app: App, sandbox: Sandbox) -> None:
    app.enqueue("mail", "J", [])
    assert [queue.name for queue in app.inspector.queues()] == ["mail"]


def test_jobs_are_filtered_by_job_class_and_queue(app: App, sandbox: Sandbox) -> None:
    one, two = app.job("One", queue="a")(lambda: None), app.job("Two")(lambda: None)
    for job in (one, two, two.set(queue="a")):
        job.enqueue()
    assert [job.job_class for job in sandbox.jobs(queue="a")] == ["One", "Two"]
    assert [job.queue for job in sandbox.jobs(two)] == [job.queue for job in sandbox.jobs("Two")] == ["default", "a"]
    assert [job.queue for job in sandbox.jobs(two, queue="a")] == ["a"]


def test_a_thousand_jobs_are_pushed_and_run_in_milliseconds(app: App, sandbox: Sandbox) -> None:
    job = app.job("J")(lambda number: None)
    began = time.perf_counter()
    for number in range(1_000):
        job.enqueue(number)
    assert len(sandbox.run_all()) == 1_000
    print(f"pushed and ran 1,000 jobs in {time.perf_counter() - began:.3f} s")
