"""Pushes jobs of every kind at a steady rate, and looks at the fleet as people do."""

from __future__ import annotations

import heapq
import itertools
import json
import queue
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import redis

import goworkers_py as workers
from soak import ACTION_EVERY_S, CALL_EVERY_S, CLI_EVERY_S, PAGES_EVERY_S, PLAIN_LIST, jobs
from soak.fleet import Fleet
from soak.ledger import Ledger

COMMANDS = (
    ["stats"], ["queues"], ["scheduled", "list"], ["processes", "list"], ["limits", "list"], ["dead", "list"],
    ["retries", "list"], ["batches", "list"], ["chains", "list"], ["periodic", "list"], ["failures"], ["doctor"],
)  # fmt: skip
PATHS = (
    "/api/", "/api/queues", "/api/processes", "/api/jobs?state=dead", "/api/jobs?state=scheduled", "/api/limits",
    "/api/batches", "/api/chains", "/api/groups", "/api/periodic", "/api/locks", "/api/failures", "/api/metrics",
    "/api/reports", "/api/audit", "/api/doctor", "/api/stats", "/", "/jobs?state=dead", "/processes", "/metrics",
    "/stats",
)  # fmt: skip
FIGURES = ("/metrics", "/stats")  # of the other port


class Paced(threading.Thread):
    """Calls each of its functions at a rate of its own. An error ends it: `error` tells the main thread."""

    def __init__(self, name: str, calls: list[tuple[float, Callable[[], object]]]) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        dice = random.Random(name)
        self._order = itertools.count()
        now = time.monotonic()
        self._due = [(now + dice.uniform(0, every_s), next(self._order), every_s, call) for every_s, call in calls]
        heapq.heapify(self._due)

    def run(self) -> None:
        try:
            while not self.stopping.wait(max(0.0, self._due[0][0] - time.monotonic())):
                due, _, every_s, call = self._due[0]
                # After a pause of the machine, the calls of that time are left out.
                due = max(due + every_s, time.monotonic() - 1.0)
                heapq.heapreplace(self._due, (due, next(self._order), every_s, call))
                call()
        except BaseException as error:
            self.error = error


class Pushes:
    """One function for each kind. Used by the thread of the producer."""

    def __init__(self, ledger: Ledger, url: str, server: redis.Redis, to_cancel: queue.SimpleQueue[str]) -> None:
        self._ledger, self._server, self._to_cancel = ledger, server, to_cancel
        self._numbers = itertools.count()
        self._dice = random.Random(41)
        self.results: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._delays = workers.DelayQueue({"soak": ledger.end}, workers.RedisPersistence(url), tick=0.1, threads=2)
        self._delays.start()

    def per_s(self) -> list[tuple[float, Callable[[], object]]]:
        """Each function, and how often it is called in a second."""
        return [
            (20, self.plain), (5, self.bulk), (2, self.ranked), (3, self.delayed), (1.5, self.retried),
            (1.5, self.dead), (2, self.tracked), (0.5, self.cancelled), (2, self.expiring), (0.3, self.steps),
            (3, self.unique), (2, self.newest), (3, self.ordered), (2, self.of_few), (2, self.of_rate),
            (0.5, self.block), (0.5, self.batch), (0.5, self.chain), (4, self.member), (0.5, self.parent),
            (2, self.body), (2, self.task), (1 / 60, self.burst),
        ]  # fmt: skip

    def stop(self) -> None:
        self._delays.stop()

    def plain(self) -> None:
        jobs.plain.enqueue(self._ticket("plain"), time.time())

    def bulk(self) -> None:
        now = time.time()
        jobs.plain.enqueue_bulk([[self._ticket("plain"), now] for _ in range(10)])

    def burst(self) -> None:
        """All threads are busy at once, so that each process soon has as many connections as it ever needs."""
        now = time.time()
        jobs.plain.enqueue_bulk([[self._ticket("plain"), now] for _ in range(300)])
        jobs.tracked.enqueue_bulk([[self._ticket("tracked")] for _ in range(100)])
        jobs.child.enqueue_bulk([[self._ticket("child")] for _ in range(100)])
        jobs.ranked.enqueue_bulk([[self._ticket("ranked")] for _ in range(50)])
        jobs.block.enqueue_bulk([[self._ticket("block")] for _ in range(10)])

    def ranked(self) -> None:
        jobs.ranked.set(priority=self._dice.choice(["high", "normal", "low"])).enqueue(self._ticket("ranked"))

    def delayed(self) -> None:
        jobs.delayed.enqueue_in(self._dice.uniform(0.1, 20), self._ticket("delayed"))

    def retried(self) -> None:
        jobs.retried.enqueue(self._ticket("retried"))

    def dead(self) -> None:
        jobs.dead.enqueue(self._ticket("dead"))

    def tracked(self) -> None:
        jid = jobs.tracked.enqueue(self._ticket("tracked"), text="some words")
        if jid is not None and self._dice.random() < 0.1:
            self.results.put(jid)

    def cancelled(self) -> None:
        """Half of them while they wait for a time, and half while they run."""
        ticket = self._ticket("cancelled")
        waits = self._dice.random() < 0.5
        jid = jobs.cancelled.enqueue_in(600, ticket) if waits else jobs.cancelled.enqueue(ticket)
        self._to_cancel.put(str(jid))

    def expiring(self) -> None:
        jobs.expiring.enqueue(self._ticket("expiring"))

    def steps(self) -> None:
        jobs.steps.enqueue(self._ticket("steps"))

    def unique(self) -> None:
        ticket = self._ticket("unique")
        if jobs.unique.enqueue(ticket, self._dice.randrange(5)) is None:
            self._ledger.forget(ticket)

    def newest(self) -> None:
        """Several pushes of a key make one job, so they share a ticket."""
        ticket = f"newest:{self._dice.randrange(3)}"
        self._ledger.expect(ticket)
        jobs.newest.enqueue_in(1, ticket)

    def ordered(self) -> None:
        jobs.ordered.enqueue(self._ticket("ordered"), self._dice.randrange(100))

    def of_few(self) -> None:
        jobs.of_few.enqueue(self._ticket("few"))

    def of_rate(self) -> None:
        jobs.of_rate.enqueue(self._ticket("paced"))

    def block(self) -> None:
        jobs.block.enqueue(self._ticket("block"))

    def batch(self) -> None:
        ticket = self._ticket("batch")
        with workers.batch(ticket, on_success=jobs.callback.s(ticket), retain=jobs.RETAIN_S):
            for _ in range(3):
                jobs.part.enqueue(self._dice.random() < 0.05)

    def chain(self) -> None:
        ticket, link, before = self._ticket("chain"), jobs.link, workers.PREVIOUS
        links = [link.s(1), workers.parallel(link.s(2, before), link.s(3, before)), jobs.last_link.s(ticket, before)]
        cid = workers.chain(*links).enqueue()
        # Not a day, so that the number of known chains reaches its bound soon.
        self._server.hset(f"pyworkers:chain:{cid}", "retain", str(jobs.RETAIN_S))

    def member(self) -> None:
        jobs.member.set(group=f"group {self._dice.randrange(4)}").enqueue(self._ticket("member"))

    def parent(self) -> None:
        jobs.parent.enqueue([self._ticket("child") for _ in range(3)])

    def body(self) -> None:
        self._server.lpush(PLAIN_LIST, json.dumps({"ticket": self._ticket("body")}))

    def task(self) -> None:
        """Of the delay queue, which runs in this process. Of two tasks one is cancelled."""
        self._delays.push(self._dice.uniform(0.2, 10), "soak", self._ticket("task"))
        self._delays.cancel(self._delays.push(60, "soak", "never:1"))

    def _ticket(self, kind: str) -> str:
        ticket = f"{kind}:{next(self._numbers)}"
        self._ledger.expect(ticket)
        return ticket


class Looks:
    """One function for each way to look at the fleet, or to change something in it."""

    def __init__(self, fleet: Fleet, to_cancel: queue.SimpleQueue[str], results: queue.SimpleQueue[str]) -> None:
        self._fleet, self._to_cancel, self._results = fleet, to_cancel, results
        self._commands: Iterator[list[str]] = itertools.cycle(COMMANDS)
        self._paths = itertools.cycle(PATHS)
        self._words = itertools.count()
        self.refused: list[str] = []  # what was answered with an error; bounded by `_note`

    def all(self) -> list[tuple[float, Callable[[], object]]]:
        """Seconds between two calls of each."""
        return [
            (CLI_EVERY_S, self.run_a_command), (PAGES_EVERY_S, self.get_a_page), (CALL_EVERY_S, self.call),
            (ACTION_EVERY_S, self.note_an_action), (0.5, self.read_a_result),
        ]  # fmt: skip

    def cancel(self) -> None:
        try:
            jid = self._to_cancel.get_nowait()
        except queue.Empty:
            return
        workers.cancel(jid)  # the handler of `on_cancel` ends its ticket

    def read_a_result(self) -> None:
        try:
            jid = self._results.get_nowait()
        except queue.Empty:
            return
        try:
            workers.result(jid, timeout=20)
        except workers.WorkersError as error:
            self._note(f"result: {error!r}")

    def run_a_command(self) -> None:
        arguments = next(self._commands)
        command = [sys.executable, "-m", "goworkers_py.cli", *arguments, "-c", self._fleet.configurations["changing"]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:  # the machine is busy with something else
            self._note(f"{' '.join(arguments)}: no end")
            return
        if done.returncode not in (0, 1):  # the doctor's 1: it has found something
            self._note(f"{' '.join(arguments)}: {done.stderr[-300:]}")

    def get_a_page(self) -> None:
        path = next(self._paths)
        port = self._fleet.stats_port if path in FIGURES else self._fleet.web_port
        headers = {"Authorization": f"Bearer {self._fleet.token}"}
        asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=30) as page:
                page.read()
        except OSError as error:
            self._note(f"{path}: {error!r}")

    def call(self) -> None:
        word = f"word {next(self._words)}"
        answers = workers.inspector.call("soak-echo", word, timeout_s=10).answers
        if not answers or any(answer.value != word for answer in answers):
            self._note(f"call: {answers}")

    def note_an_action(self) -> None:
        workers.inspector.note_action("soak", "nothing", "of nothing", 1)

    def _note(self, text: str) -> None:
        del self.refused[100:]
        self.refused.append(text)
        print(f"look: {text}", flush=True)
