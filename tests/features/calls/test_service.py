"""Commands to processes: what each does and answers. With cut-offs and kills: test_daemons.py."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from apps import own_app, started
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core import machine
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.features.calls.call import BUILT_IN, Call, Target
from goworkers_py.features.calls.contract import Calls
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.runtime.fetching.pauses import Pauses
from goworkers_py.runtime.launcher import Launcher

# A process that has not read a command by then does not obey it.
ANSWERED_S = 20.0


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig("q", concurrency=2), tag="web", timeout=20) as app:
        yield app


class Gates:
    """Jobs that wait until they are let go."""

    def __init__(self, app: App) -> None:
        self.open = threading.Event()
        self.running: list[str] = []
        app.process("q", self, 2)

    def __call__(self, message: Any) -> None:
        self.running.append(message.jid)
        self.open.wait(30)


@pytest.fixture
def gates(app: App) -> Iterator[Gates]:
    gates = Gates(app)
    yield gates
    gates.open.set()


def answer(app: App, name: str, *arguments: Any, timeout_s: float = ANSWERED_S) -> Any:
    """The value of the only process."""
    done = app.inspector.call(name, *arguments, timeout_s=timeout_s)
    [one] = done.answers
    assert done.silent == []
    assert one.ok, one.error
    return one.value


def error(app: App, name: str, *arguments: Any) -> str:
    [one] = app.inspector.call(name, *arguments, timeout_s=ANSWERED_S).answers
    return one.error


def workers() -> int:
    return sum(thread.name.startswith("worker:q:") for thread in threading.enumerate())


Asked = list[tuple[Command, str]]


@pytest.fixture
def asked() -> Asked:
    return []


@pytest.fixture
def launcher(app: App, asked: Asked) -> Iterator[Launcher]:
    with started(app, lambda command, who: asked.append((command, who))) as launcher:
        assert eventually(app.inspector.processes)
        yield launcher


# --- commands of the program


def test_a_command_of_the_program_is_called_with_json_in_a_thread_of_its_own(app: App) -> None:
    @app.command("flush-cache")
    def flush(name: str, deep: bool = False) -> dict[str, Any]:
        return {"name": name, "deep": deep, "thread": threading.current_thread().name}

    with started(app) as launcher:
        assert eventually(app.inspector.processes)
        told = {"name": "prices", "deep": True, "thread": "command:flush-cache"}
        assert answer(app, "flush-cache", "prices", True) == told
        [process] = app.inspector.processes()
        assert [*process.commands] == [*BUILT_IN, "flush-cache"]
        assert "missing a required argument: 'name'" in error(app, "flush-cache")
        assert launcher.stop()


def test_the_error_of_a_command_is_its_answer_and_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.command("boom")
    def boom() -> None:
        raise SystemExit("enough")

    @app.command("odd")
    def odd() -> object:
        return object()

    with started(app):
        assert eventually(app.inspector.processes)
        assert error(app, "boom") == "SystemExit: enough"
        assert error(app, "odd").startswith("the value of odd must be JSON")
        assert error(app, "eval") == "this process has no command eval"
        assert "command boom failed" in caplog.text


def test_who_gave_a_command_is_logged_in_one_line(
    app: App, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "goworkers_py"):
        app.inspector.call("quiet", by="before the\ndeploy", timeout_s=ANSWERED_S)
        [line] = [one.getMessage() for one in caplog.records if one.getMessage().startswith("command from")]
    assert ": before the\\ndeploy: quiet []" in line
    assert "pid" in line


def test_a_slow_command_holds_up_no_other_and_a_fifth_one_is_refused(app: App) -> None:
    go = threading.Event()
    app.command("slow")(lambda: go.wait(30))
    with started(app):
        assert eventually(app.inspector.processes)
        done = app.inspector.call("slow", timeout_s=0.2)
        assert (done.ok, len(done.silent)) == (False, 1)

        def four_run() -> bool:
            app.inspector.call("slow", timeout_s=0.1)  # does not begin if it is read too late
            return [thread.name for thread in threading.enumerate()].count("command:slow") == 4

        assert eventually(four_run)
        assert "MainThread" in answer(app, "dump")
        assert "4 commands of this program run already" in error(app, "slow")
        go.set()
        assert eventually(lambda: not any(thread.name == "command:slow" for thread in threading.enumerate()))
        assert answer(app, "slow") is True


def test_a_command_that_ends_during_the_stop_is_answered(app: App, broker_address: str) -> None:
    begun, go, answers = threading.Event(), threading.Event(), list[Any]()

    @app.command("slow")
    def slow() -> str:
        begun.set()
        go.wait(30)
        return "done"

    # By another program: the stop closes the connections of this App, as soon as the answer is given.
    with own_app(broker_address) as asker, started(app) as launcher:
        launcher.after_jobs_s = 20.0  # the stop waits for so long for the command
        assert eventually(app.inspector.processes)
        call = threading.Thread(target=lambda: answers.append(answer(asker, "slow")))
        call.start()
        assert begun.wait(20)
        stop = threading.Thread(target=launcher.stop)
        stop.start()
        commands = next(service for service in launcher._services.of_features if service.name == "commands")
        assert eventually(lambda: commands.stopping.is_set() and not commands.alive)
        go.set()
        for thread in (call, stop):
            thread.join(20)
    assert answers == ["done"]


def test_a_command_has_a_name_that_no_other_has(app: App) -> None:
    for wrong in ("Flush Cache", "", "a/b", "quiet"):
        with pytest.raises(ConfigError):
            app.command(wrong)


# --- the commands of every process


def test_a_quiet_process_fetches_again_after_resume(app: App, gates: Gates, launcher: Launcher) -> None:
    gates.open.set()
    assert answer(app, "quiet") == "quiet"
    jid = app.enqueue("q", "J", [])
    time.sleep(0.3)
    assert gates.running == []
    assert answer(app, "resume") == "working"
    assert eventually(lambda: gates.running == [jid])
    assert eventually(lambda: [one.quiet for one in app.inspector.processes()] == [False])
    assert answer(app, "quiet") == "quiet", "and again"
    assert launcher.state.word == "quiet"


def test_a_resumed_process_leaves_paused_queues_alone(
    app: App, gates: Gates, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    gates.open.set()
    assert answer(app, "pause-queue", "q") is True
    assert eventually(lambda: "queue q: paused" in caplog.text)
    answer(app, "quiet")
    answer(app, "resume")
    app.enqueue("q", "J", [])
    time.sleep(0.7)
    assert gates.running == []
    assert answer(app, "resume-queue", "q") is True
    assert eventually(lambda: gates.running)
    assert answer(app, "resume-queue", "q") is False
    assert "does not fetch from queue 'other', but from q" in error(app, "pause-queue", "other")


def test_a_process_that_stops_is_not_resumed(app: App, gates: Gates, launcher: Launcher) -> None:
    app.enqueue("q", "J", [])
    assert eventually(lambda: gates.running)
    stopper = threading.Thread(target=launcher.stop)
    stopper.start()
    assert eventually(lambda: launcher.state.deadline is not None)
    assert error(app, "resume") == "this process is stopping", "commands are answered during a drain"
    gates.open.set()
    stopper.join(20)
    assert not launcher.managers[0].fetcher.alive


def test_stop_is_handed_to_the_main_thread(app: App, launcher: Launcher, asked: Asked) -> None:
    assert answer(app, "stop") == "stopping"
    assert asked == [(Command.STOP, "a command")]


def test_a_dump_is_answered_with_the_stacks_those_with_a_job_first(app: App, gates: Gates, launcher: Launcher) -> None:
    jid = app.enqueue("q", "J", [])
    assert eventually(lambda: gates.running)
    assert eventually(lambda: "self.open.wait(30)" in answer(app, "dump"))  # the line behind that which told of the job
    first, *rest = answer(app, "dump").splitlines()
    assert first.startswith("thread worker:q:")
    assert first.endswith(f"runs class=J jid={jid} queue=q")
    assert any("self.open.wait(30)" in line for line in rest)


def test_the_log_level_is_changed_and_set_back(app: App, launcher: Launcher) -> None:
    ours = logging.getLogger("goworkers_py")
    job_levels.configure([])  # an earlier test of this process may have set up the logs of a daemon
    before = ours.level
    try:
        assert answer(app, "log-level", "debug") == "debug"
        assert ours.level == logging.DEBUG
        assert answer(app, "log-level", "error") == "error"
        assert ours.level == logging.ERROR
        assert answer(app, "log-level", "configured") == "configured"
        assert ours.level == before
        assert error(app, "log-level", "loud").startswith("a log level is one of debug")
    finally:
        job_levels.change(None)


def test_a_part_of_another_program_is_not_stopped_or_quieted_but_answers(app: App) -> None:
    app.command("hello")(lambda: "hello")
    with started(app):
        assert eventually(app.inspector.processes)
        for name in ("stop", "quiet", "resume"):
            assert error(app, name) == f"this process is part of another program; only that program can {name} it"
        assert answer(app, "hello") == "hello"


# --- concurrency


def test_a_pool_grows_at_once_and_shrinks_after_its_jobs(app: App, gates: Gates, launcher: Launcher) -> None:
    for _ in range(6):
        app.enqueue("q", "J", [])
    assert eventually(lambda: len(gates.running) == 2)
    assert answer(app, "concurrency", 5) == {"q": [2, 5]}
    assert eventually(lambda: len(gates.running) == 5), "also while the first two run"
    assert answer(app, "concurrency", 1, "q") == {"q": [5, 1]}
    time.sleep(0.2)
    assert len(gates.running) == 5
    assert launcher.workers_alive == 5, "no running job is broken off"
    gates.open.set()
    assert eventually(lambda: workers() == 1)
    assert eventually(lambda: len(gates.running) == 6)
    assert eventually(lambda: [one.concurrency for one in app.inspector.processes()] == [1])


def test_a_pool_that_shrinks_and_grows_again_has_the_last_number(app: App, gates: Gates, launcher: Launcher) -> None:
    for _ in range(8):
        app.enqueue("q", "J", [])
    for threads in (5, 1, 4, 2, 3):
        answer(app, "concurrency", threads)
        time.sleep(0.05)
    # The watchdog's thread may still start the workers of an earlier number, one after the other.
    assert eventually(lambda: launcher.managers[0]._size == 3)
    gates.open.set()
    assert eventually(lambda: len(gates.running) == 8)
    assert eventually(lambda: workers() == 3)
    gates.open.clear()
    for _ in range(5):
        app.enqueue("q", "J", [])
    assert eventually(lambda: len(launcher.health.running) == 3)
    time.sleep(0.2)
    assert len(launcher.health.running) == 3


def test_a_shrunk_pool_gives_its_reserve_to_others_and_stops_cleanly(
    app: App, gates: Gates, launcher: Launcher
) -> None:
    for _ in range(4):
        app.enqueue("q", "J", [])
    assert eventually(lambda: len(gates.running) == 2)
    answer(app, "concurrency", 1)
    gates.open.set()
    assert launcher.stop()
    assert launcher.workers_alive == 0


def test_wrong_numbers_of_threads_and_unknown_pools_are_refused(app: App, launcher: Launcher) -> None:
    for wrong in (0, -1, True, "3", 2.5, 100_000):
        assert error(app, "concurrency", wrong).startswith("a number of threads is from 1")
    assert error(app, "concurrency", 3, "other") == "not here: this process has no pool 'other', but q"


def test_one_pool_of_several_changes(broker_address: str) -> None:
    queues = QueueConfig("a", concurrency=1), QueueConfig("b", concurrency=1)
    with own_app(broker_address, *queues) as app, started(app) as launcher:
        assert eventually(app.inspector.processes)
        assert answer(app, "concurrency", 3, "b") == {"b": [1, 3]}
        assert eventually(lambda: [manager.workers_alive for manager in launcher.managers] == [1, 3])


def test_a_serial_queue_refuses_another_number_of_threads(broker_address: str) -> None:
    with own_app(broker_address, QueueConfig("q", concurrency=1, mode="serial")) as app, started(app):
        assert eventually(app.inspector.processes)
        for pool in ("", "q"):
            [one] = app.inspector.call("concurrency", 3, pool, timeout_s=ANSWERED_S).answers
            assert (one.error, one.here) == ("q has mode = serial, which is one thread", True)


# --- targets


def test_a_process_compares_the_partition_of_a_command_itself(app: App, launcher: Launcher) -> None:
    """Whatever the caller has seen in the list of processes: the calls are given without it."""
    calls = app.broker.require_part(Calls)
    for number, partition in enumerate(("billing", "main", "")):
        calls.give(Call(str(number), "pause-queue", ["q"], Target([launcher.identity], "", "", partition), "test", 60))
    assert eventually(lambda: calls.answers("1") and calls.answers("2"))
    assert calls.answers("0") == []


def test_processes_that_lack_the_pool_are_told_apart_from_those_that_fail(broker_address: str) -> None:
    with (
        own_app(broker_address, QueueConfig("a", concurrency=1)) as app,
        own_app(broker_address, QueueConfig("b", concurrency=1)) as other,
        started(app) as one,
        started(other),
    ):
        assert eventually(lambda: len(app.inspector.processes()) == 2)
        done = app.inspector.call("concurrency", 3, "a", timeout_s=ANSWERED_S)
        assert {answer.here: answer.ok for answer in done.answers} == {True: True, False: False}
        assert [answer.identity for answer in done.answers if answer.here] == [one.identity]
        assert done.ok
        for name, *arguments in (("concurrency", 3, "c"), ("pause-queue", "c")):
            done = app.inspector.call(name, *arguments, timeout_s=ANSWERED_S)
            assert ([answer.here for answer in done.answers], done.ok) == ([False, False], False)
        wrong = app.inspector.call("concurrency", 0, "a", timeout_s=ANSWERED_S)
        assert [answer.ok for answer in wrong.answers] == [False, False]
        assert not wrong.ok, "a wrong number is an error wherever the pool is"


def test_a_command_reaches_the_processes_of_its_target_only(app: App, launcher: Launcher) -> None:
    me = launcher.identity
    for target, count in (
        (Target([me]), 1), (Target(["nobody:1:a"]), 0), (Target(tag="web"), 1), (Target(tag="mail"), 0),
        (Target(queue="q"), 1), (Target(queue="other"), 0), (Target([me], "web", "q"), 1), (Target([me], "mail"), 0),
        (Target(partition="main"), 1), (Target(partition="billing"), 0), (Target([me], partition="billing"), 0),
    ):  # fmt: skip
        done = app.inspector.call("quiet", target=target, timeout_s=ANSWERED_S)
        assert len(done.answers) == count, target
        assert done.silent == []


def test_a_command_that_expires_after_it_was_read_is_not_obeyed(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a process that stands still between the two."""
    ran, begun, go_on = list[str](), threading.Semaphore(0), threading.Semaphore(0)
    stood_still_s = 0.0
    monkeypatch.setattr(machine, "awake_and_asleep", lambda: awake_and_asleep() + stood_still_s)
    app.command("note")(ran.append)

    def obey(command: Command, who: str) -> None:  # in the thread that reads the commands
        begun.release()
        assert go_on.acquire(timeout=30)

    def give(number: int, name: str, *arguments: Any, life_s: float = 60.0) -> None:
        app.broker.require_part(Calls).give(Call(f"id-{number}", name, arguments, Target(), "test", life_s))

    with started(app, obey):
        assert eventually(app.inspector.processes)
        give(1, "stop")
        assert begun.acquire(timeout=20)
        give(2, "stop")
        give(3, "note", "late", life_s=25.0)
        give(4, "note", "in time")
        go_on.release()
        assert begun.acquire(timeout=20), "the three were read"
        stood_still_s = 26.0
        go_on.release()
        assert eventually(lambda: app.broker.require_part(Calls).answers("id-4"))
        assert ran == ["in time"]
        assert app.broker.require_part(Calls).answers("id-3") == []
        assert "expired, not obeyed: note" in caplog.text


def test_a_command_waits_for_a_minute_at_most(app: App, launcher: Launcher) -> None:
    for wrong in (0, -1, 61):
        with pytest.raises(ArgumentError):
            app.inspector.call("quiet", timeout_s=wrong)


def test_a_command_that_comes_as_soon_as_a_process_is_seen_is_obeyed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, look = threading.Event(), Pauses.look
    early = iter([Call("early", "run", [], Target(), "test", 60.0)])

    def give_and_look(pauses: Pauses) -> None:  # the first step after the beat that shows the process
        for call in early:
            app.broker.require_part(Calls).give(call)
        look(pauses)

    monkeypatch.setattr(Pauses, "look", give_and_look)
    app.command("run")(ran.set)
    app.process("q", print, 1)
    with started(app):
        assert ran.wait(20)
