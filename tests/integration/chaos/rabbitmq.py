"""Chaos on RabbitMQ: daemons and the node are killed, connections are cut, queues stand still, RabbitMQ runs out of
memory, jobs run past the consumer timeout, and every job is accounted for.

    make chaos-rabbitmq MINUTES=10 [SEED=1]

A pusher notes each job when RabbitMQ has confirmed it. Jobs note their runs. One in ten fails once and is retried, one
in fifty dies. At the end all daemons run in peace, until each noted job has run. These are mistakes, and make the exit
code 1:

- a job that was confirmed and did not run, or died and is not among the dead jobs
- a job that ran twice, or is twice among the dead jobs, where none of DOUBLING explains it, see `doubles`
- a pool that began no job for SILENT_S while jobs were pushed and nothing disturbed it
- more consumers than MOST_CONSUMERS
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
import tempfile
import threading
import time
from bisect import bisect
from collections import Counter
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import servers
from daemon import Daemon
from harness import job
from rabbit import RabbitServer
from raw_proxy import RawProxy

from chaos.doubles import NOTES, Run, _Judge, account_for_doubles, await_runs, keep, read_runs
from chaos.monkeys import Chronicle, Window
from chaos.notes import whole_lines
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError

TIMEOUT_S = 6.0  # the consumer timeout: a server that can be asked for another one is asked for this
JOBS = f"""{NOTES}
from goworkers_py.brokers.rabbitmq import consuming_connection
consuming_connection.LONGEST_RUN_MS = {TIMEOUT_S * 1000:.0f}

@workers.job(queue="q")
def work(number, seconds):
    with noted(number) as attempt:
        time.sleep(seconds)
        if number % 50 == 7:
            raise workers.KillJob("dies")
        if number % 10 == 0 and attempt == 0:
            raise workers.RetryJob("once", delay=1)
"""
DAEMONS = 2
KILLED, CUT, NODE_KILLED, NODE_PAUSED = "daemon killed", "its connection cut", "node killed", "node paused"
TIMED_OUT = "a job ran past the consumer timeout"
DOUBLING = (KILLED, CUT, NODE_KILLED, NODE_PAUSED, TIMED_OUT)
ALARM = "alarm"
STUCK = {queue: f"{queue} stuck" for queue in ("pyworkers.dead", "pyworkers.delays.0.5s")}
HOLDING = (ALARM, *STUCK.values())
RECONNECT_S = 5.0  # and an end that was refused is tried again
SILENT_S = 5.0
START_S = 6.0  # of a daemon, and of the node for it
MOST_CONSUMERS = 30 * DAEMONS


def dies(number: int) -> bool:
    return number % 50 == 7


class Chaos:
    def __init__(self, folder: Path, server: RabbitServer, proxies: list[RawProxy], seed: int) -> None:
        self.folder, self.server, self.proxies = folder, server, proxies
        self.random = random.Random(seed)
        self.daemons = [self.daemon(number) for number in range(DAEMONS)]
        self.over = threading.Event()
        self.confirmed: list[int] = []
        self.pushed_at: list[float] = []  # monotonic
        self.in_doubt = 0
        self.most_consumers = 0
        self.chronicle = Chronicle()
        self._pusher = threading.Thread(target=self.push)

    def daemon(self, number: int) -> Daemon:
        address = f"amqp://127.0.0.1:{self.proxies[number].port}/"
        return Daemon(self.folder, address, JOBS, "-q", "q=10", "--log-level", "warning")

    def push(self) -> None:
        broker, number, dice = open_broker(Config(broker=self.server.url)), 0, random.Random(self.random.random())
        while not self.over.wait(0.02):
            numbers = range(number, number + 5)
            number += 5
            pushes = []
            for one in numbers:
                seconds = 1.6 * TIMEOUT_S if one % 2_000 == 3 else dice.choice((0, 0, 0.01, 0.2))
                pushes.append(Push("q", job(one, args=[one, seconds], **{"class": "work"})))
            try:
                broker.transport.publish(pushes)
                self.confirmed += numbers
                self.pushed_at.append(time.monotonic())
            except BrokerError:
                self.in_doubt += 5
        broker.close()

    def run(self, minutes: float) -> None:
        self.server.await_metadata()
        self._pusher.start()
        give_up_at = time.monotonic() + 60 * minutes
        deeds = [self.cut, self.kill_daemon, self.kill_node, self.pause_node, self.alarm, self.hold_up]
        while time.monotonic() < give_up_at:
            time.sleep(self.random.uniform(0.5, 6))
            self.random.choices(deeds, [6, 3, 1, 1, 2, 3])[0]()
            self.count_consumers()
        self.over.set()
        self._pusher.join()

    def count_consumers(self) -> None:
        try:
            told = json.loads(self.server.ask("GET", "queues/%2F/q"))
        except OSError:
            return
        self.most_consumers = max(self.most_consumers, told.get("consumers", 0))

    def cut(self) -> None:
        number = self.random.randrange(DAEMONS)
        with self.chronicle.note(CUT, str(self.daemons[number].process.pid)):
            self.proxies[number].cut()

    def kill_daemon(self) -> None:
        number = self.random.randrange(DAEMONS)
        with self.chronicle.note(KILLED, str(self.daemons[number].process.pid)):
            self.daemons[number].kill()
        self.daemons[number] = self.daemon(number)

    def kill_node(self) -> None:
        with self.chronicle.note(NODE_KILLED):
            self.server.kill()
            self.server.start()

    def pause_node(self) -> None:
        with self.chronicle.note(NODE_PAUSED):
            self.server.pause()
            time.sleep(self.random.uniform(0.5, 4))
            self.server.resume()

    def alarm(self) -> None:
        with self.chronicle.note(ALARM):
            self.server.control("set_vm_memory_high_watermark", "0.00001")
            self.meanwhile()
            self.server.control("set_vm_memory_high_watermark", "0.4")

    def hold_up(self) -> None:
        """As for a queue without a leader: it confirms nothing."""
        queue, kind = self.random.choice([*STUCK.items()])
        with self.chronicle.note(kind):
            self.server.suspend(queue)
            self.meanwhile()
            self.server.release(queue)

    def meanwhile(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            time.sleep(self.random.uniform(1, 5))
            self.count_consumers()
            self.random.choice([self.cut, self.kill_daemon, lambda: None, lambda: None])()

    def account(self) -> int:
        wanted = set(self.confirmed)
        lost = await_runs({number for number in wanted if not dies(number)}, self.folder)
        codes = [one.stop() for one in self.daemons]
        dead = self.dead()
        runs = read_runs(self.folder)
        self.note_timeouts()
        keep(self.chronicle.windows, self.folder)
        windows = self.chronicle.windows
        doubles = account_for_doubles(runs, windows, DOUBLING, HOLDING, RECONNECT_S, moving=(KILLED, CUT, TIMED_OUT))
        deeds = ", ".join(f"{deed} {count}" for deed, count in self.chronicle.count().items())
        print(f"{deeds}; exit codes {codes}\nconfirmed {len(wanted)}, in doubt {self.in_doubt}, lost {len(lost)}")
        print(doubles, *(one[:400] for one in doubles.complaints[:20]), sep="\n")
        lost |= {number for number in wanted if dies(number) and number not in dead}
        twice = {number for number, count in dead.items() if count > 1}
        unexplained = twice - self.explained(runs)
        print(
            f"dead {len(dead)}, twice {len(twice)}, of them unexplained {sorted(unexplained)}; lost {sorted(lost)[:20]}"
        )
        silent = self.silent(runs)
        print(f"most consumers {self.most_consumers}; silent for more than {SILENT_S:g} s: {silent}")
        wrong = lost or doubles.complaints or unexplained or silent or self.most_consumers > MOST_CONSUMERS
        return 1 if wrong else 0

    def dead(self) -> Counter[int]:
        found = Counter[int]()
        with closing(open_broker(Config(broker=self.server.url))) as broker:
            empty = 0
            while empty < 3:
                taken = broker.transport.consume("judge", [("pyworkers.dead", 1_000)], 1_000, 1.0)
                found.update(json.loads(one.payload)["args"][0] for one in taken)
                empty = 0 if taken else empty + 1
        return found

    def note_timeouts(self) -> None:
        """Of a run, or of an ended job that could not be settled for so long. RabbitMQ may deliver again what else its
        process has of the queue."""
        ahead_s = time.time() - time.monotonic()
        for log in self.folder.glob("daemon-*.log"):
            for line in whole_lines(log):
                if "acknowledgement on channel" in line or "has cancelled the consumer" in line:
                    told, pid, *_ = line.split()
                    at = datetime.datetime.fromisoformat(told.replace("Z", "+00:00")).timestamp() - ahead_s
                    self.chronicle.add(Window(TIMED_OUT, pid.removeprefix("pid="), at - 1, at + 1))

    def explained(self, runs: list[Run]) -> set[int]:
        judge = _Judge(self.chronicle.windows, DOUBLING, HOLDING, RECONNECT_S, ())
        return {run.number for run in runs if dies(run.number) and judge.reason(run, run, float("inf"))}

    def silent(self, runs: list[Run]) -> list[str]:
        """The times in which a process began no job, although jobs were pushed and nothing disturbed it."""
        found = []
        for pid in {run.pid for run in runs}:
            begun = sorted(run.began for run in runs if run.pid == pid)
            for before, after in pairwise(begun):
                if after - before > SILENT_S and self.pushed(before + 1, after - 1) > 20:
                    windows = [one for one in self.chronicle.windows if one.node in ("", str(pid))]
                    disturbed = [one for one in windows if one.kind not in HOLDING]
                    if not any(one.began - 1 < after and before < one.ended + START_S for one in disturbed):
                        at = [one.kind for one in windows if one.began < after and before < one.ended]
                        found.append(f"{pid}: {before:.1f} to {after:.1f} ({', '.join(at)})")
        return found

    def pushed(self, since: float, until: float) -> int:
        return bisect(self.pushed_at, until) - bisect(self.pushed_at, since)

    def close(self) -> None:
        for one in self.daemons:
            one.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos.rabbitmq")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pyworkers-chaos-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes; its files: {folder}", flush=True)
    servers.allowed = True
    with closing(RabbitServer(f"consumer_timeout = {TIMEOUT_S * 1000:.0f}")) as server, ExitStack() as stack:
        with closing(open_broker(Config(broker=server.url))) as broker:
            at = time.time() + 0.6
            first = [
                Push("q", job(number, args=[number, 0], **{"class": "work"}), when)
                for number, when in ((-1, None), (-3, at))
            ]
            broker.transport.publish([*first, Push("pyworkers.dead", job(-2, args=[-2, 0]))])
        proxies = [stack.enter_context(RawProxy(server.port)) for _ in range(DAEMONS)]
        with closing(Chaos(folder, server, proxies, options.seed)) as chaos:
            chaos.run(options.minutes)
            return chaos.account()


if __name__ == "__main__":
    sys.exit(main())
