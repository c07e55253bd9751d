"""Runs tests against mutants, within one session of pytest.

The session has imported everything and collected all tests. Each mutant is run in a fork of it, which changes its own
code and runs the tests that execute the changed place, quick ones first. The first failure is the end of the fork, and
so is a test that takes too long. A test which fails like this without the mutant too does not count.

Which test executes which place is found beforehand by runs of each file of tests, with coverage and with scripts that
write into the log of the server. A folder keeps what was found for as long as neither the tests nor the code change.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import random
import re
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import coverage.collector  # conftest.py looks for it
import pytest
from mutation.mutants import PACKAGE, Mutant, change_scripts, files, living, mutants, note_writes
from servers import RedisServer

ROOT = PACKAGE.parent
# Servers that take seconds to start, in each fork.
LEFT_OUT = {"cluster", "rabbit_server", "disque_servers", "go_binaries", "has_sidekiq", "filler"}
BROKERS = ("memory", "redis")  # of the contract
# A test that takes longer hangs.
LONGEST_S, TIMES = 12.0, 10
SURVIVED, CAUGHT, UNREACHED = "survived", "caught", "not run by any test"
_SET_CHILD_SUBREAPER = 36  # of prctl
_WRITE = re.compile(r"@write (\d+)")


class Task(NamedTuple):
    """What a fork does."""

    tests: Sequence[str]
    change: Callable[[], None]
    limits: Sequence[float] = ()  # for each test, in seconds; without: all have MAPPING_S
    maps: bool = False


MAPPING_S = 70.0  # pytest ends a test after a minute


class Told(NamedTuple):
    """What a fork has said until its end."""

    failed: str = ""  # the test
    why: str = ""
    ran: int = 0
    map: Any = None


Steps = Generator[Task, Told, None]


class Mutation:
    """The plugin of pytest: it runs mutants instead of the tests."""

    def __init__(
        self, chosen: Sequence[Mutant], note: Callable[[dict[str, Any]], None], jobs: int, kept: Path, most_s: float
    ) -> None:
        self._kept = kept
        self._most_s = most_s  # of tests for a mutant
        self._chosen = chosen
        self._note = note
        self._jobs = jobs
        self._items: dict[str, pytest.Item] = {}
        self._seconds: dict[str, float] = {}
        self._writes: dict[str, set[str]] = defaultdict(set)  # tests, by "file number"
        self._lines: dict[str, set[str]] = defaultdict(set)  # tests, by "file line"
        self._sizes: Counter[str] = Counter()  # how many places each test executes: the fewer, the nearer it is to them
        self._kills: dict[str, Counter[str]] = defaultdict(Counter)
        self._killed: dict[str, list[Mutant]] = defaultdict(list)  # by test
        self._distrusted: set[str] = set()  # tests that fail without a mutant too

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._items = {item.nodeid: item for item in session.items if _is_of_use(item)}
        say(f"{len(self._items)} tests")
        living()
        run_all([self._mapped(file, tests) for file, tests in self._by_file().items()], self._jobs, self._fork)
        say(f"{len(self._seconds)} tests pass within forks")
        chosen = self._chosen
        while chosen:
            self._killed.clear()
            run_all([self._judged(mutant) for mutant in chosen], self._jobs, self._fork)
            run_all([self._checked(sorted(self._killed))], 1, self._fork)
            chosen = [mutant for test in sorted(self._distrusted) for mutant in self._killed.get(test, [])]
        return True

    def _by_file(self) -> Mapping[Path, list[str]]:
        found = defaultdict(list)
        for test, item in self._items.items():
            found[item.path].append(test)
        return found

    # --- which test executes what

    def _mapped(self, path: Path, tests: Sequence[str]) -> Steps:
        stored = self._kept / f"{_digest([path, *map(PACKAGE.joinpath, files())], tests)}.json"
        if not stored.exists():
            told = yield Task(tests, lambda: None, maps=True)
            if told.map is None:
                say(f"{path.relative_to(ROOT)}: not mapped: {told.failed or '?'} {told.why}")
                return
            say(f"{path.relative_to(ROOT)}: {len(told.map['seconds'])} of {len(tests)} tests pass")
            self._kept.mkdir(parents=True, exist_ok=True)
            stored.write_text(json.dumps(told.map))
        read = json.loads(stored.read_text())
        self._seconds.update(read["seconds"])
        for kept, found in (self._writes, read["writes"]), (self._lines, read["lines"]):
            for place, ran in found.items():
                tests = set(ran) & read["seconds"].keys()
                kept[place].update(tests)
                self._sizes.update(tests)

    # --- a mutant

    def _judged(self, mutant: Mutant) -> Steps:
        started = time.monotonic()
        tests = self._tests_of(mutant)
        told = yield Task(tests, mutant.apply, self._limits(tests))
        verdict = CAUGHT if told.failed else SURVIVED if tests else UNREACHED
        if told.failed:
            self._kills[mutant.file][told.failed] += 1
            self._killed[told.failed].append(mutant)
        seconds = round(time.monotonic() - started, 1)
        self._note(
            {"file": mutant.file, "label": mutant.label, "line": mutant.line, "verdict": verdict, "test": told.failed,
             "why": told.why, "ran": told.ran, "seconds": seconds}
        )  # fmt: skip

    def _checked(self, tests: Sequence[str]) -> Steps:
        """Runs these tests, which have caught mutants, without one. What a test has caught that fails here is judged
        again without it."""
        while tests:
            told = yield Task(tests, lambda: change_scripts({}), self._limits(tests))
            if not told.failed:
                return
            say(f"{told.failed} fails without a mutant too: {told.why}")
            self._distrusted.add(told.failed)
            tests = tests[tests.index(told.failed) + 1 :]

    def _limits(self, tests: Sequence[str]) -> list[float]:
        return [LONGEST_S + TIMES * self._seconds[test] for test in tests]

    def _tests_of(self, mutant: Mutant) -> list[str]:
        if mutant.file.endswith(".lua"):
            found = self._writes[f"{mutant.file} {mutant.number}"]
        else:
            places = [f"{mutant.file} {line}" for line in range(mutant.line, mutant.last + 1)]
            found = set().union(*(self._lines[place] for place in places))
        kills, sizes = self._kills[mutant.file], self._sizes

        def rank(test: str) -> tuple[float, str]:
            return self._seconds[test] * sizes[test] / (1 + 5 * kills[test]), test

        tests = sorted(found - self._distrusted, key=rank)
        sums = itertools.accumulate(self._seconds[test] for test in tests)
        return [
            test
            for number, (test, took) in enumerate(zip(tests, sums, strict=True))
            if not number or took <= self._most_s
        ]

    # --- in the fork

    def _fork(self, task: Task, folder: Path) -> tuple[int, int]:
        """The number of the process, and the file that it writes to."""
        read, write = os.pipe()
        if pid := os.fork():
            os.close(write)
            return pid, read
        os.close(read)
        try:
            self._run(task, folder, os.fdopen(write, "w", buffering=1))
        finally:
            os._exit(1)

    def _run(self, task: Task, folder: Path, pipe: Any) -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        random.seed()
        items = [self._items[test] for test in task.tests]
        session = items[0].session
        teller = _Teller(pipe, task.maps)
        session.config.pluginmanager.register(teller)
        try:
            task.change()
        except BaseException as error:
            teller.tell(failed="", why=f"not applied: {error!r}")
            return
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
        teller.end()


class _Teller:
    """In the fork, a plugin that tells the process before it how each test goes."""

    def __init__(self, pipe: Any, maps: bool) -> None:
        self._pipe = pipe
        self._map = _Map() if maps else None

    def tell(self, **message: Any) -> None:
        self._pipe.write(json.dumps(message) + "\n")

    def end(self) -> None:
        self.tell(end=True, map=self._map and self._map.found())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell(begins=nodeid)
        if self._map:
            self._map.begin(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._map:
            self._map.meet(report)
        elif report.failed:
            self.tell(failed=report.nodeid, why=_last_line(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._map:
            self._map.end(nodeid)


class _Map:
    """Notes in the fork what each test executes."""

    def __init__(self) -> None:
        self._places = note_writes()
        self._seconds: dict[str, float] = defaultdict(float)
        self._unfit: set[str] = set()
        self._writes: dict[str, set[str]] = defaultdict(set)
        self._read: dict[RedisServer, int] = {}  # how much of the log of each server was read
        self._test = ""
        self._watch_servers()
        include = [f"{PACKAGE}/policy/*", f"{PACKAGE}/brokers/redis/*"]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=include, check_preimported=False)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])  # pytest makes them errors
        self._coverage.set_option("run:core", "ctrace")  # the default of Python 3.14 and later knows no contexts
        self._coverage.start()

    def _watch_servers(self) -> None:
        launch, kill = RedisServer._launch, RedisServer.kill

        def launched(server: RedisServer, port: int) -> Any:
            self._read_log(server)
            self._read[server] = 0
            return launch(server, port)

        def killed(server: RedisServer) -> None:
            self._read_log(server)
            kill(server)

        RedisServer._launch, RedisServer.kill = launched, killed  # type: ignore[method-assign]

    def _read_log(self, server: RedisServer) -> None:
        log = server._directory / "redis.log"
        if server not in self._read or not log.exists():
            return
        with log.open(errors="replace") as file:
            file.seek(self._read[server])
            for number in {int(number) for number in _WRITE.findall(file.read())}:
                self._writes[" ".join(map(str, self._places[number]))].add(self._test)
            self._read[server] = file.tell()

    def begin(self, test: str) -> None:
        self._test = test
        self._coverage.switch_context(test)

    def meet(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            self._unfit.add(report.nodeid)

    def end(self, test: str) -> None:
        for server in [*self._read]:
            self._read_log(server)

    def found(self) -> dict[str, Any]:
        self._coverage.stop()
        data, lines = self._coverage.get_data(), defaultdict(set)
        wanted = {
            f"{file} {line}"
            for file in files()
            if not file.endswith(".lua")
            for mutant in mutants(file)
            for line in range(mutant.line, mutant.last + 1)
        }
        for path in data.measured_files():
            for line, tests in data.contexts_by_lineno(path).items():
                place = f"{Path(path).relative_to(PACKAGE)} {line}"
                if place in wanted:
                    lines[place].update(filter(None, tests))
        seconds = {test: round(took, 3) for test, took in self._seconds.items() if test not in self._unfit}
        return {"seconds": seconds, "writes": _lists(self._writes), "lines": _lists(lines)}


# --- the process before the forks


class _Running:
    def __init__(self, steps: Steps, task: Task, fork: Callable[[Task, Path], tuple[int, int]]) -> None:
        self.steps = steps
        self.task = task
        self.folder = Path(tempfile.mkdtemp(prefix="mut-"))
        self.pid, self.file = fork(task, self.folder)
        self.told = Told()
        self.ended = False
        self._unread = b""
        self._begun = ""
        self.deadline = time.monotonic() + MAPPING_S

    def read(self) -> None:
        new = os.read(self.file, 1 << 20)
        *lines, self._unread = (self._unread + new).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not new and not self.ended:
            self._stop(self._begun, "the process ended")

    def _take(self, message: dict[str, Any]) -> None:
        if self.ended:
            return
        if "begins" in message:
            self._begun = message["begins"]
            limit = self.task.limits[self.told.ran] if self.task.limits else MAPPING_S
            self.deadline = time.monotonic() + limit
            self.told = self.told._replace(ran=self.told.ran + 1)
        elif "failed" in message:
            self._stop(message["failed"], message["why"])
        else:
            self.told = self.told._replace(map=message["map"])
            self.ended = True

    def look(self) -> None:
        if not self.ended and time.monotonic() > self.deadline:
            self._stop(self._begun, "it hangs")

    def _stop(self, failed: str, why: str) -> None:
        self.told = self.told._replace(failed=failed, why=why)
        self.ended = True

    def clean(self) -> None:
        os.close(self.file)
        kill_with_descendants(self.pid)
        shutil.rmtree(self.folder, ignore_errors=True)


def run_all(several: Iterable[Steps], jobs: int, fork: Callable[[Task, Path], tuple[int, int]]) -> None:
    """Runs the tasks of each, `jobs` at a time."""
    waiting: Iterator[Steps] = iter(several)
    running: list[_Running] = []
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(running) < jobs and (steps := next(waiting, None)) is not None:
                    _go_on(steps, None, running, selector, fork)
                if not running:
                    return
                for key, _ in selector.select(0.5):
                    key.data.read()
                for one in [*running]:
                    one.look()
                    if one.ended:
                        selector.unregister(one.file)
                        one.clean()
                        running.remove(one)
                        _go_on(one.steps, one.told, running, selector, fork)
        finally:
            for one in running:
                one.clean()


def _go_on(steps: Steps, told: Told | None, running: list[_Running], selector: Any, fork: Any) -> None:
    """Begins the next task of these steps, if there is one with tests."""
    try:
        task = steps.send(told) if told else next(steps)
        while not task.tests:
            task = steps.send(Told())
    except StopIteration:
        return
    running.append(_Running(steps, task, fork))
    selector.register(running[-1].file, selectors.EVENT_READ, running[-1])


def kill_with_descendants(pid: int) -> None:
    family = [pid, *_descendants(pid)]
    for one in family:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    for one in family:  # each is a child of this process by its turn: its parent has ended
        with suppress(ChildProcessError):
            os.waitpid(one, 0)


def _descendants(pid: int) -> list[int]:
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            children[parent].append(int(path.parent.name))
        except OSError:
            continue  # it has ended meanwhile
    found = [pid]
    for one in found:
        found += children[one]
    return found[1:]


def _is_of_use(item: pytest.Item) -> bool:
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else []
    broker = item.callspec.params.get("make_harness", "redis") if hasattr(item, "callspec") else "redis"
    return broker in BROKERS and LEFT_OUT.isdisjoint(fixtures)


def _digest(paths: Iterable[Path], words: Iterable[str]) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    for path in paths:
        digest.update(path.read_bytes())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip().partition("\n")[0][:200]


def _lists(sets: Mapping[str, set[str]]) -> dict[str, list[str]]:
    return {place: sorted(tests) for place, tests in sets.items()}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
