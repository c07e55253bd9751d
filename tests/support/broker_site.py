"""A folder with real daemons on a broker, and jobs that note there how they ran."""

from __future__ import annotations

from pathlib import Path

from daemon import Daemon

import goworkers_py as workers

JOBS = """
import time
from pathlib import Path
import goworkers_py as workers

@workers.job(queue="q", retry_in=lambda count, error: 0.1)
def note(text, fails=0):
    with Path("ran").open("a") as file:
        file.write(text + " ")
    if text == "dead":
        raise workers.KillJob(text)
    if workers.current_message().get("retry_count", -1) + 1 < fails:
        raise ValueError(text)

@workers.job(queue="q")
def wait(name):
    with Path("ran").open("a") as file:
        file.write(name + " ")
    while not Path(name).exists():
        time.sleep(0.01)
"""


class BrokerSite:
    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.app = workers.App()
        self.app.configure(broker=address)

    def push(self, job: str, *arguments: object) -> None:
        self.app.enqueue("q", job, list(arguments))

    def daemon(self, *flags: str) -> Daemon:
        return Daemon(self.folder, self.address, JOBS, "--queue", "q=2", *flags).ready()

    @property
    def ran(self) -> list[str]:
        file = self.folder / "ran"
        return file.read_text().split() if file.exists() else []
