"""Chaos on RabbitMQ: daemons and the node are killed, connections are cut, and every job is accounted for.

    .venv/bin/python tests/integration/chaos/rabbitmq.py --minutes 10 [--seed 1]

A pusher notes each job when RabbitMQ has confirmed it. Jobs note that they ran. One in ten fails once and is retried.
At the end all daemons run in peace, until each noted job has run. A job that did not is lost: exit code 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
import servers
from daemon import Daemon
from harness import job
from rabbit import RabbitServer
from raw_proxy import RawProxy

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError

JOBS = """
    import os, time
    import goworkers_py as workers

    done = os.open("done", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @workers.job(queue="q")
    def work(number, seconds):
        time.sleep(seconds)
        if number % 10 == 0 and not workers.current_message().retry_count:
            if workers.current_message().fields.get("retry_count") is None:
                raise workers.RetryJob("once", delay=1)
        os.write(done, f"{number}\\n".encode())
"""
DRAIN_S = 120.0


class Chaos:
    def __init__(self, folder: Path, server: RabbitServer, proxy: RawProxy, seed: int) -> None:
        self.folder, self.server, self.proxy = folder, server, proxy
        self.random = random.Random(seed)
        self.address = f"amqp://127.0.0.1:{proxy.port}/"
        self.daemons = [self.daemon() for _ in range(2)]
        self.over = threading.Event()
        self.confirmed: list[int] = []
        self.deeds: Counter[str] = Counter()
        self._pusher = threading.Thread(target=self.push)

    def daemon(self) -> Daemon:
        return Daemon(self.folder, self.address, JOBS, "-q", "q=5", "--log-level", "warning")

    def push(self) -> None:
        broker, number = open_broker(Config(broker=self.server.url)), 0
        while not self.over.wait(0.02):
            numbers = range(number, number + 5)
            number += 5
            seconds = self.random.choice((0, 0, 0.01, 0.2))
            pushes = [Push("q", job(n, args=[n, seconds], **{"class": "work"})) for n in numbers]
            try:
                broker.transport.publish(pushes)
                self.confirmed += numbers
            except BrokerError:
                self.deeds["pushes in doubt"] += 5
        broker.close()

    def run(self, minutes: float) -> None:
        self.server.await_metadata()
        self._pusher.start()
        give_up_at = time.monotonic() + 60 * minutes
        while time.monotonic() < give_up_at:
            time.sleep(self.random.uniform(0.5, 3))
            deed = self.random.choices([self.cut, self.kill_daemon, self.kill_node, self.pause_node], [8, 4, 1, 1])[0]
            self.deeds[deed.__name__] += 1
            deed()
        self.over.set()
        self._pusher.join()

    def cut(self) -> None:
        self.proxy.cut()

    def kill_daemon(self) -> None:
        at = self.random.randrange(len(self.daemons))
        self.daemons[at].kill()
        self.daemons[at].process.wait()
        self.daemons[at] = self.daemon()

    def kill_node(self) -> None:
        self.server.kill()
        self.server.start()

    def pause_node(self) -> None:
        self.server.pause()
        time.sleep(self.random.uniform(0.5, 4))
        self.server.resume()

    def account(self) -> int:
        wanted, give_up_at = set(self.confirmed), time.monotonic() + DRAIN_S
        while (lost := wanted - set(runs := self.runs())) and time.monotonic() < give_up_at:
            time.sleep(0.5)
        codes = [one.stop() for one in self.daemons]
        doubles = sum(times - 1 for times in Counter(runs).values())
        told = ", ".join(f"{deed} {count}" for deed, count in self.deeds.items())
        print(f"confirmed {len(wanted)}, lost {len(lost)}, ran again {doubles}; {told}; exit codes {codes}")
        return 1 if lost else 0

    def runs(self) -> list[int]:
        done = self.folder / "done"
        return [int(line) for line in done.read_text().split()] if done.exists() else []

    def close(self) -> None:
        for one in self.daemons:
            one.kill()
            one.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    servers.allowed = True
    with tempfile.TemporaryDirectory() as folder, closing(RabbitServer()) as server, RawProxy(server.port) as proxy:
        with closing(open_broker(Config(broker=server.url))) as broker:
            broker.transport.publish([Push("q", job(-1, args=[-1, 0], **{"class": "work"}))])
        with closing(Chaos(Path(folder), server, proxy, options.seed)) as chaos:
            chaos.run(options.minutes)
            return chaos.account()


if __name__ == "__main__":
    sys.exit(main())
