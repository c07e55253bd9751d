"""Processes that call random verbs of a broker and are killed by SIGKILL, at any instruction.

    python torture.py ADDRESS LEDGER SECONDS SEED

It forks the processes from one that has imported everything and has opened no broker, so a life costs milliseconds.
Each process appends lines to the ledger: `P NAME` after the publish of a job, `D NAME` when it has run the job. A job's
name is its jid: PUBLISH/COUNT/NUMBER. One call of `publish` publishes all COUNT jobs of one PUBLISH. A job whose number
is even pushes a child, in the step in which it is done; the child has no children.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.brokers.contracts.store import TIMED
from goworkers_py.brokers.contracts.transport import Push, SettlementBatch
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PushJobs
from goworkers_py.core.errors import PoisonPill
from goworkers_py.core.identity import new_identity
from goworkers_py.core.outcome import DONE, REQUEUE, REQUEUE_LAST, Dead, Done, Outcome, Reschedule, Retry
from goworkers_py.policy.poison import RecoveryDecision

QUEUES = ("a", "b")
PROCESSES = 3
LONGEST_BETWEEN_KILLS_S = 0.02
PUBLISHED_TOGETHER = (1, 1, 2, 3, 8)


def config_of(address: str) -> Config:
    """No dead job is deleted, so that every job can be accounted for."""
    return Config(broker=address, dead_max_jobs=10**9, dead_timeout=1e9)


def names_of(publish: str) -> list[str]:
    """The names of all jobs of PUBLISH/COUNT."""
    return [f"{publish}/{number}" for number in range(int(publish.rpartition("/")[2]))]


def child_of(name: str) -> str:
    """The name of the child of a job, or an empty text for a job that has no child."""
    _, slash, number = name.rpartition("/")
    return f"child-of-{name}" if slash and not name.startswith("child-of-") and int(number) % 2 == 0 else ""


def job(name: str) -> bytes:
    return json.dumps({"class": "Job", "args": [], "jid": name, "retry": True}).encode()


def name_of(payload: bytes) -> str:
    return str(json.loads(payload)["jid"])


class Life:
    """One process, from its fork until it is killed."""

    def __init__(self, broker: Broker, ledger: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._ledger = ledger
        self._broker = broker
        self._numbers = itertools.count(1)
        self._begin()

    def _begin(self) -> None:
        self._identity = new_identity()
        self._broker.recoverable.beat(Presence(self._identity, dict.fromkeys(QUEUES, 5)))

    def run(self, parent: int) -> None:
        """Until it is killed, or `parent` is no longer the parent of this process."""
        weights = {
            self._publish: 4, self._consume_and_settle: 10, self._promote: 3, self._recover: 1, self._leave: 1,
        }  # fmt: skip
        while os.getppid() == parent:
            [verb] = self._random.choices([*weights], [*weights.values()])
            verb()

    def _write(self, kind: str, names: list[str]) -> None:
        os.write(self._ledger, "".join(f"{kind} {name}\n" for name in names).encode())

    def _publish(self) -> None:
        names = names_of(f"{self._identity}-{next(self._numbers)}/{self._random.choice(PUBLISHED_TOGETHER)}")
        self._broker.transport.publish(
            [Push(self._random.choice(QUEUES), job(name), self._some_time()) for name in names]
        )
        self._write("P", names)

    def _some_time(self) -> float | None:
        return None if self._random.random() < 0.7 else time.time() + self._random.uniform(-1, 1)

    def _consume_and_settle(self) -> None:
        queue = self._random.choice(QUEUES)
        few = self._random.randrange(1, 9)
        deliveries = self._broker.transport.consume(self._identity, [(queue, few)], few, 0)
        # Some stay in progress until this process is killed.
        finished = [(one, self._outcome(one)) for one in deliveries if self._random.random() < 0.9]
        self._write("D", [name_of(one.payload) for one, outcome in finished if isinstance(outcome, Done)])
        if finished:
            batch = SettlementBatch(self._identity, next(self._numbers), finished)
            results = [list(self._broker.transport.settle(batch)) for _ in range(self._random.choice([1, 1, 2]))]
            assert all(result == [True] * len(finished) for result in results), results

    def _outcome(self, delivery: Delivery) -> Outcome:
        if self._random.random() < 0.4:
            return self._done(delivery)
        if self._random.random() < 0.05:
            return Dead(delivery.payload)
        at, payload = time.time() + self._random.uniform(-1, 0.2), delivery.payload
        return self._random.choice([REQUEUE, REQUEUE_LAST, Retry(at, payload), Reschedule(at, payload)])

    def _done(self, delivery: Delivery) -> Done:
        name = name_of(delivery.payload)
        if child := child_of(name):
            push = Push(self._random.choice(QUEUES), job(child), self._some_time())
            return Done(effects=(PushJobs(name, (push,)),))
        return DONE

    def _promote(self) -> None:
        for _ in self._broker.store.promote(self._random.choice(TIMED), self._forward, 5):
            pass

    def _forward(self, payload: bytes, now: float) -> tuple[str | None, bytes]:
        return (None if self._random.random() < 0.02 else self._random.choice(QUEUES)), payload

    def _recover(self) -> None:
        for _ in self._broker.recoverable.recover(self._identity, self._judge, None):
            pass

    def _judge(self, found: FoundJob) -> RecoveryDecision:
        return RecoveryDecision(found.payload, PoisonPill("torture") if self._random.random() < 0.05 else None)

    def _leave(self) -> None:
        for _ in self._broker.recoverable.leave(self._identity, silent=self._random.random() < 0.5):
            pass
        self._begin()


class Nursery:
    """Forks the processes, and kills them."""

    def __init__(self, address: str, ledger: Path, seed: int) -> None:
        self._config = config_of(address)
        self._kind = kind_of_broker(self._config)  # the processes need not look for it
        self._ledger = os.open(ledger, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._random = random.Random(seed)
        self._pids: list[int] = []
        self.kills = self.failures = 0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.failures:
            while len(self._pids) < PROCESSES:
                self._pids.append(self._fork(self._random.randrange(2**32)))
            time.sleep(self._random.uniform(0, LONGEST_BETWEEN_KILLS_S))
            self._kill_one()
        while self._pids:
            self._kill_one()

    def _fork(self, seed: int) -> int:
        parent = os.getpid()
        if pid := os.fork():
            return pid
        try:
            Life(self._kind.open(self._config), self._ledger, seed).run(parent)
        except BaseException:
            traceback.print_exc()
        os._exit(1)

    def _kill_one(self) -> None:
        pid = self._pids.pop(self._random.randrange(len(self._pids)))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        self.kills += 1
        self.failures += os.WIFEXITED(status)  # it ended by itself, with an exception


def main(address: str, ledger: str, seconds: str, seed: str) -> int:
    nursery = Nursery(address, Path(ledger), int(seed))
    nursery.run(float(seconds))
    print(f"{nursery.kills} processes were killed", flush=True)
    return 1 if nursery.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
