"""How fast no-op jobs of RabbitMQ are drained, beside a bare pika script with the same prefetch, in one run.

    .venv/bin/python bench/rabbitmq.py [--jobs 20000] [--rounds 3] [--prefetch 250]

Starts a node of its own. The bar is 0.7 of the bare script.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import pika
import servers
from harness import job
from rabbit import RabbitServer

from goworkers_py import App
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config, QueueConfig

BAR = 0.7


def fill(address: str, count: int) -> None:
    with closing(open_broker(Config(broker=address))) as broker:
        for start in range(0, count, 1000):
            broker.transport.publish(
                [Push("q", job(n, args=[], **{"class": "noop"})) for n in range(start, start + 1000)]
            )


def bare(address: str, count: int, prefetch: int) -> float:
    """Consumes and acknowledges each message, as the tutorial does."""
    connection = pika.BlockingConnection(pika.URLParameters(address.rstrip("/")))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    left = [count]

    def receive(channel, method, properties, body) -> None:  # type: ignore[no-untyped-def]
        channel.basic_ack(method.delivery_tag)
        left[0] -= 1
        if not left[0]:
            channel.stop_consuming()

    channel.basic_consume("q", receive)
    began = time.perf_counter()
    channel.start_consuming()
    seconds = time.perf_counter() - began
    connection.close()
    return count / seconds


def ours(address: str, count: int, prefetch: int) -> float:
    app, left, done = App(), [count], threading.Event()

    @app.job(queue="q")
    def noop() -> None:
        left[0] -= 1
        if not left[0]:
            done.set()

    app.use(Config(broker=address, queues=(QueueConfig("q", 10, prefetch - 10),)))
    logging.getLogger("goworkers_py").setLevel(logging.WARNING)
    began = time.perf_counter()
    app.start()
    assert done.wait(120), left
    seconds = time.perf_counter() - began
    app.quit()
    return count / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("jobs", 20_000), ("rounds", 3), ("prefetch", 250)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    servers.allowed = True
    rates: dict[str, list[float]] = {"bare pika": [], "pyworkers": []}
    with tempfile.TemporaryDirectory(), closing(RabbitServer()) as server:
        for _ in range(options.rounds):
            for name, drain in (("bare pika", bare), ("pyworkers", ours)):
                fill(server.url, options.jobs)
                rates[name].append(drain(server.url, options.jobs, options.prefetch))
                print(f"{name}: {rates[name][-1]:,.0f} jobs/s", flush=True)
    share = statistics.median(rates["pyworkers"]) / statistics.median(rates["bare pika"])
    print(f"pyworkers has {share:.2f} of bare pika; the bar is {BAR}")
    sys.exit(share < BAR)


if __name__ == "__main__":
    main()
