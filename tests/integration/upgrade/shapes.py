"""Jobs whose number and time are shaped, and their verdict. Both releases run them.

They are those of `chaos.shaped_jobs`, some with a priority, and jobs in batches of Ruby, which have an echo.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis as redis_py
from chaos import shape_judge
from chaos.judge import Judge
from chaos.notes import Run
from chaos.shape_judge import ShapeJudge, Verdict, read_shaped_runs
from chaos.shaped_jobs import CLASSES
from chaos.shaper import Shaper
from servers import RedisServer

ECHOES = "queue:ruby_echoes"
CONFIGURATION = """
[queue:short]
concurrency = 5
[queue:mixed]
concurrency = 5
priorities = yes
[echo]
queue = ruby_echoes
"""


def settings(directory: Path) -> list[str]:
    """The part of the command line of a process that runs these jobs."""
    path = directory / "configuration"
    path.write_text(CONFIGURATION)
    return ["--require", "chaos.shaped", "--config", str(path)]


def take_echoes(client: redis_py.Redis) -> Counter[str]:
    """As Ruby does: how many, by jid."""
    echoes = Counter(json.loads(raw)["jid"] for raw in client.lrange(ECHOES, 0, -1))
    client.delete(ECHOES)
    return echoes


class Shapes:
    def __init__(self, server: RedisServer, directory: Path, seed: int, pushes_per_s: float) -> None:
        self.shaper = Shaper(server.url, seed, pushes_per_s, priorities=True)
        self._server = server
        self._directory = directory
        self._numbers = itertools.count(1)

    def push_for_ruby(self, count: int) -> None:
        jids = [f"ruby-{next(self._numbers)}" for _ in range(count)]
        with (self._directory / "pushes").open("a") as notes, self._server.client() as client:
            for jid in jids:
                job = {"class": "Task", "args": [0.01, 0], "jid": jid, "queue": "short", "bid": "B1", "retry": True}
                client.lpush("queue:short", json.dumps(job))
                notes.write(f"pushed 0 {jid} 0\n")

    def verdict(self, judge: Judge, runs: Sequence[Run], echoes: Counter[str]) -> Verdict:
        """`runs`: those of Ruby's jobs are among them."""
        shaped_runs = read_shaped_runs(self._directory)
        with self._server.client() as client:
            dead = map(json.loads, client.zrange("dead", 0, -1))
            buried = {job["jid"]: (job["class"], job["args"]) for job in dead if job.get("class") in CLASSES}
            left = shape_judge.what_is_left(client, self.shaper.pushed)
        verdict = ShapeJudge(judge, shaped_runs, buried).verdict(self.shaper.pushed, left)
        verdict.complaints += [f"dead: {jid}, {job}" for jid, job in buried.items()]
        verdict.complaints += _wrong_echoes(runs, echoes)
        verdict.count["echo"] = echoes.total()
        return verdict


def _wrong_echoes(runs: Sequence[Run], echoes: Counter[str]) -> Iterator[str]:
    """One echo for each job that has run, however often."""
    jids = {run.jid for run in runs if run.jid.startswith("ruby-")}
    for jid in jids | echoes.keys():
        if echoes[jid] != int(jid in jids):
            yield f"{jid} has {echoes[jid]} echoes"
