"""One run: one system, through the faults of one plan, from the first process to the verdict."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.programs import Failed
from bench.torture.fleet import Worker
from bench.torture.judge import Verdict, judge
from bench.torture.ledger import Ledger
from bench.torture.plan import PRODUCER, WORKERS, Fault, Plan
from bench.torture.producer import Producer
from bench.torture.proxy import Proxy
from bench.torture.server import Server
from bench.torture.systems.system import System

WARM_S = 120.0
LOOK_S = 0.02
STILL_S = 10.0

Say = Callable[[str], None]


@dataclass
class Result:
    system: str
    version: str
    redis: str
    plan: dict[str, Any]
    faults: dict[str, int]
    verdict: Verdict
    gone: int = 0  # lost jobs that Redis does not hold any more
    places: dict[str, int] = field(default_factory=dict)  # of the other lost ones: the keys that hold them

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run(plan: Plan, system: System, folder: Path, say: Say, settle_s: float, hurry: bool) -> Result:
    """`folder` keeps the ledger and what every process said."""
    (folder / "failed").mkdir(parents=True)
    with ExitStack() as stack:
        ledger = Ledger(folder / "ledger")
        stack.callback(ledger.close)
        server = Server(folder / "redis")
        stack.callback(server.close)
        server.start()
        server.await_start()
        workers = {name: Worker(name, system, server.port, ledger, folder) for name in WORKERS}
        for worker in workers.values():
            stack.callback(worker.close)
        producer = Producer(system, plan.jobs(), server.port, ledger, folder)
        stack.callback(producer.join)
        stack.callback(producer.stopping.set)
        stack.callback(producer.go.set)
        stack.callback(producer.proxy.close)
        producer.start()
        torment = _Torment(plan, server, workers, producer, ledger, say)
        torment.warm_up()
        faults = torment.faults()
        torment.wait(settle_s, hurry)
        version = server.version
        verdict = judge(ledger.read())
        gone, places = 0, Counter[str]()
        for job in verdict.lost:
            keys = server.places_of(job)
            gone += not keys
            places.update(key.replace(job, "ID") for key in keys)
    return Result(system.name, system.version, version, _as_told(plan), dict(faults), verdict, gone, dict(places))


def _as_told(plan: Plan) -> dict[str, Any]:
    return {"seed": plan.seed, "minutes": round(plan.seconds / 60, 2), "kinds": list(plan.kinds)}


class _Torment:
    """What the main thread does: it keeps the workers alive, and strikes at the moments of the plan."""

    def __init__(
        self, plan: Plan, server: Server, workers: dict[str, Worker], producer: Producer, ledger: Ledger, say: Say
    ) -> None:
        self._plan, self._server, self._workers, self._producer = plan, server, workers, producer
        self._ledger, self._say = ledger, say
        self._began = 0.0
        self._proxies: dict[str, Proxy] = {name: worker.proxy for name, worker in workers.items()}
        self._proxies[PRODUCER] = producer.proxy

    def warm_up(self) -> None:
        """Until each worker has run a job: the clock of the plan begins then, whatever the time that a start takes."""
        deadline = time.monotonic() + WARM_S
        while len(self._busy()) < len(self._workers):
            self._look()
            if self._producer.error:
                raise self._producer.error
            if time.monotonic() > deadline:
                raise Failed(f"after {WARM_S:g} s only {sorted(self._busy())} ran a job: see the logs")
        self._producer.go.set()
        self._began = time.monotonic()

    def _busy(self) -> set[str]:
        return {entry.details[1].partition(".")[0] for entry in self._ledger.read() if entry.word == "begin"}

    def faults(self) -> Counter[str]:
        agenda: list[tuple[float, int, Fault, bool]] = []  # the last is true for its end
        for number, fault in enumerate(self._plan.faults()):
            heapq.heappush(agenda, (fault.at_s, 2 * number, fault, False))
            heapq.heappush(agenda, (fault.at_s + fault.lasts_s, 2 * number + 1, fault, True))
        kinds = Counter(fault.kind for _, _, fault, is_end in agenda if not is_end)
        while agenda:
            at_s, _, fault, is_end = heapq.heappop(agenda)
            self._until(at_s)
            if is_end:
                self._mend(fault)
                self._ledger.note("mended", fault.kind, fault.target)
            else:
                lasting = f" for {fault.lasts_s:.1f} s" if fault.lasts_s else ""
                self._say(f"{at_s:6.1f} s  {fault.kind} {fault.target}{lasting}")
                self._ledger.note("fault", fault.kind, fault.target)
                self._strike(fault)
        return kinds

    def wait(self, settle_s: float, hurry: bool) -> None:
        """Without faults: while jobs come, and then for so long as the recovery of the system may take. In a hurry,
        until each job has ended: then nobody sees a second run that comes later."""
        self._until(self._plan.seconds)
        self._ledger.note("calm")
        self._say(f"{self._plan.seconds:6.1f} s  no more faults; jobs come for {self._plan.calm_s:g} s")
        while self._producer.is_alive():
            self._look()
        if self._producer.error:
            raise self._producer.error
        self._ledger.note("quiet")
        self._say(f"{time.monotonic() - self._began:6.1f} s  no more jobs; recovery gets {settle_s:g} s")
        now_s = time.monotonic() - self._began
        until_s = now_s + settle_s
        while now_s < until_s and not (hurry and judge(self._ledger.read()).fine):
            now_s = min(now_s + 1, until_s)
            self._until(now_s)
        before, ended = -1, self._ended()
        while not hurry and ended > before:  # on a busy machine a system may still work at what it has recovered
            now_s += STILL_S
            self._until(now_s)
            before, ended = ended, self._ended()

    def _ended(self) -> int:
        return sum(entry.word == "end" for entry in self._ledger.read())

    def _until(self, at_s: float) -> None:
        while time.monotonic() < self._began + at_s:
            self._look()

    def _look(self) -> None:
        for worker in self._workers.values():
            worker.look()
        time.sleep(LOOK_S)

    def _strike(self, fault: Fault) -> None:
        kind, target = fault.kind, fault.target
        if kind == "kill":
            self._workers[target].kill()
        elif kind in ("pause", "freeze"):
            self._workers[target].pause()
        elif kind == "deploy":
            self._workers[target].stop()
        elif kind == "cut":
            self._proxies[target].cut()
        elif kind == "full":
            self._server.fill()
        else:
            self._server.stop(kill=kind == "crash")

    def _mend(self, fault: Fault) -> None:
        kind, target = fault.kind, fault.target
        if kind in ("pause", "freeze"):
            self._workers[target].go_on()
        elif kind == "cut":
            self._proxies[target].mend()
        elif kind == "full":
            self._server.empty()
        elif kind in ("restart", "crash"):
            self._server.start()
            self._server.await_start()
