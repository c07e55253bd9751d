"""Chaos on RabbitMQ: daemons and the node are killed, connections are cut, and every job is accounted for.

    make chaos-rabbitmq MINUTES=10 [SEED=1]

A pusher notes each job when RabbitMQ has confirmed it. Jobs note their runs. One in ten fails once and is retried.
At the end all daemons run in peace, until each noted job has run. A job that did not is lost: exit code 1. So it is
when a job ran twice and none of DOUBLING explains it, see `doubles`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import servers
from daemon import Daemon
from harness import job
from rabbit import RabbitServer
from raw_proxy import RawProxy

from chaos.doubles import NOTES, account_for_doubles, await_runs, keep, read_runs
from chaos.monkeys import Chronicle
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError

JOBS = f"""{NOTES}
@workers.job(queue="q")
def work(number, seconds):
    with noted(number) as attempt:
        time.sleep(seconds)
        if number % 10 == 0 and attempt == 0:
            raise workers.RetryJob("once", delay=1)
"""
DAEMONS = 2
KILLED, CUT, NODE_KILLED, NODE_PAUSED = "daemon killed", "its connection cut", "node killed", "node paused"
DOUBLING = (KILLED, CUT, NODE_KILLED, NODE_PAUSED)


class Chaos:
    def __init__(self, folder: Path, server: RabbitServer, proxies: list[RawProxy], seed: int) -> None:
        self.folder, self.server, self.proxies = folder, server, proxies
        self.random = random.Random(seed)
        self.daemons = [self.daemon(number) for number in range(DAEMONS)]
        self.over = threading.Event()
        self.confirmed: list[int] = []
        self.in_doubt = 0
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
            seconds = dice.choice((0, 0, 0.01, 0.2))
            pushes = [Push("q", job(n, args=[n, seconds], **{"class": "work"})) for n in numbers]
            try:
                broker.transport.publish(pushes)
                self.confirmed += numbers
            except BrokerError:
                self.in_doubt += 5
        broker.close()

    def run(self, minutes: float) -> None:
        self.server.await_metadata()
        self._pusher.start()
        give_up_at = time.monotonic() + 60 * minutes
        while time.monotonic() < give_up_at:
            time.sleep(self.random.uniform(0.5, 3))
            self.random.choices([self.cut, self.kill_daemon, self.kill_node, self.pause_node], [8, 4, 1, 1])[0]()
        self.over.set()
        self._pusher.join()

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

    def account(self) -> int:
        wanted = set(self.confirmed)
        lost = await_runs(wanted, self.folder)
        codes = [one.stop() for one in self.daemons]
        keep(self.chronicle.windows, self.folder)
        runs = read_runs(self.folder)
        doubles = account_for_doubles(runs, self.chronicle.windows, DOUBLING, moving=(KILLED, CUT))
        deeds = ", ".join(f"{deed} {count}" for deed, count in self.chronicle.count().items())
        print(f"{deeds}; exit codes {codes}\nconfirmed {len(wanted)}, in doubt {self.in_doubt}, lost {len(lost)}")
        print(doubles, *doubles.complaints, sep="\n")
        return 1 if lost or doubles.complaints else 0

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
    with closing(RabbitServer()) as server, ExitStack() as stack:
        with closing(open_broker(Config(broker=server.url))) as broker:
            broker.transport.publish([Push("q", job(-1, args=[-1, 0], **{"class": "work"}))])
        proxies = [stack.enter_context(RawProxy(server.port)) for _ in range(DAEMONS)]
        with closing(Chaos(folder, server, proxies, options.seed)) as chaos:
            chaos.run(options.minutes)
            return chaos.account()


if __name__ == "__main__":
    sys.exit(main())
