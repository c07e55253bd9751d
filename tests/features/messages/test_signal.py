"""A program with receivers that is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import redis as redis_py
from apps import in_progress
from waiting import eventually

PROGRAM = """
import logging, os, signal, sys, time
import goworkers_py as workers

signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where this signal is ignored
workers.configure(redis=sys.argv[1])
ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Stop(logging.Handler):
    def emit(self, record):
        os.write(ledger, f"{record.getMessage()}\\n".encode())

launcher = logging.getLogger("goworkers_py.runtime.launcher")
launcher.setLevel(logging.INFO)
launcher.addHandler(Stop())

class Mail(workers.TypedMessage, channel="mail"):
    number: int

    def resolve(self):
        os.write(ledger, f"{self.number} begun\\n".encode())
        while not os.path.exists(sys.argv[3]):
            time.sleep(0.01)
        os.write(ledger, f"{self.number} ended\\n".encode())

for number in range(20):
    workers.send(Mail(number))
with workers.receive(Mail, consumers=3):
    try:
        os.write(ledger, b"waiting\\n")
        while True:  # a signal just before signal.pause() would not end that
            time.sleep(0.01)
    except KeyboardInterrupt:
        os.write(ledger, b"interrupted\\n")
os.write(ledger, b"all reported\\n")
"""


def test_an_interrupt_lets_each_consumer_end_its_message_and_begins_no_other(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    """The original cancelled its consumers one by one, so that the later ones fetched on, and never its first one."""
    ledger, gate = tmp_path / "ledger", tmp_path / "gate"
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, redis_url, str(ledger), str(gate)])
    try:
        # An interrupt that comes before the program waits in its `try` ends it.
        assert eventually(lambda: ledger.exists() and "waiting" in ledger.read_text())
        assert eventually(lambda: ledger.read_text().count("begun") == 3)
        program.send_signal(signal.SIGINT)
        assert eventually(lambda: "interrupted" in ledger.read_text())
        assert eventually(lambda: "stopping: " in ledger.read_text())
        time.sleep(2)  # from there to the end of all fetches
        gate.touch()
        assert program.wait(30) == 0
    finally:
        program.kill()
        program.wait()
    lines = ledger.read_text().splitlines()
    assert lines[-1] == "all reported"
    begun, ended = ({line.split()[0] for line in lines if line.endswith(word)} for word in ("begun", "ended"))
    assert begun == ended == {"0", "1", "2"}
    assert redis.llen("queue:mail") == 17
    assert not in_progress(redis)
