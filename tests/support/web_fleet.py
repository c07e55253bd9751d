"""What a fleet has written that has worked for hours: its processes with their jobs, the executions of each minute,
marks of deploys, tracked jobs that have ended."""

from __future__ import annotations

import datetime
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import redis as redis_py
from web_processes import KEYS, ProcessScene, python_process, ruby_process

from goworkers_py.brokers.redis.fleet.sidekiq_metrics import EIGHT, commands
from goworkers_py.features.tracking.redis_part import record_key
from goworkers_py.observe.executions import BOUNDS_S, Executions
from goworkers_py.wire.job_record import Progress

MINUTES = 8 * 60
DAY_S = 86_400
DEAD = "worker-3:2210:9a0bb1"  # the identity of the process that was killed


def fill_fleet(redis: redis_py.Redis, classes: Sequence[str], now: float | None = None) -> None:
    chance, now = random.Random(61), time.time() if now is None else now
    pipe = redis.pipeline(transaction=False)
    _processes(pipe, chance, now)
    _metrics(pipe, classes, chance, now)
    for hours, label in ((5.2, "4f1c2aa Ship the new invoices"), (1.1, "9be0d13 Halve the pool of imports")):
        at = datetime.datetime.fromtimestamp(now - hours * 3_600, datetime.timezone.utc).replace(second=0)
        pipe.hset(KEYS.marks(at.date()), at.strftime("%Y-%m-%dT%H:%M:%SZ"), label)
    _tracked(pipe, classes, chance, now)
    pipe.execute()


def _processes(pipe: Any, chance: random.Random, now: float) -> None:
    def job(name: str, queue: str, **more: Any) -> tuple[str, bytes]:
        told = {"class": name, "args": [chance.randrange(9_000)], "jid": f"{chance.getrandbits(96):024x}",
                "queue": queue, "retry": True, "created_at": now - 90, "enqueued_at": now - 80}  # fmt: skip
        return queue, json.dumps({**told, **more}).encode()

    web = ("default", 5, ["critical", "default"]), ("mail", 3, ["mail"])
    running = [job("MailJob", "mail"), job("ThumbnailJob", "default"), job("Invoice::RenderJob", "default")]
    python_process(pipe, ProcessScene("worker-1:1204:5d20c7", web, running, "shop 3f2a91c"), now)
    reports = [("reports", 2, ["reports", "imports"])]
    long = [job("ReportJob", "reports", tags=["nightly"])]
    told = ProcessScene("worker-2:871:c0ffee", reports, long, "shop 3f2a91c", True, 612 << 20, 90_000, 1_900)
    python_process(pipe, told, now)
    lost = [job("ImportCustomersJob", "imports")]
    python_process(pipe, ProcessScene(DEAD, reports, lost, "shop 11d0e2b", dead=True), now - 400)
    ruby = [("default", 10, ["default", "mail"])]
    ruby_process(pipe, ProcessScene("legacy-1:44:0f3b1e", ruby, [job("SyncStockJob", "default")], "shop"), now)


def _metrics(pipe: Any, classes: Sequence[str], chance: random.Random, now: float) -> None:
    seconds = {name: 0.05 * 3**number for number, name in enumerate(classes)}  # by class, of a usual run
    for minute in range(MINUTES):
        at = datetime.datetime.fromtimestamp(now - 60 * minute, datetime.timezone.utc)
        news = {name: _executions(usual, chance, 240 < minute < 260) for name, usual in seconds.items()}
        for command in commands(KEYS, (EIGHT,), at, news):
            pipe.execute_command(*command)


def _executions(usual_s: float, chance: random.Random, outage: bool) -> Executions:
    counts, spent_s = [0] * (len(BOUNDS_S) + 1), 0.0
    runs = chance.randrange(1, 8)
    failures = chance.randrange(runs + 1) if outage else int(chance.random() < 0.05)
    for _ in range(runs - failures):
        took_s = usual_s * chance.lognormvariate(0, 0.5)
        counts[sum(took_s > bound for bound in BOUNDS_S)] += 1
        spent_s += took_s
    return Executions(runs, failures, int(spent_s * 1_000), tuple(counts))


def _tracked(pipe: Any, classes: Sequence[str], chance: random.Random, now: float) -> None:
    for state in ("completed", "cancelled", "expired"):
        for number in range(12):
            jid, ended = f"{chance.getrandbits(96):024x}", now - 240 * number - 5
            moves = [f"created {ended - 60}", f"waiting {ended - 60}"]
            if state != "expired":
                moves += [f"running {ended - 20}"]
            fields = record(state, [*moves, f"{state} {ended} {'by ada' if state == 'cancelled' else ''}"], ended)
            fields |= {"class": chance.choice(classes), "queue": "reports"}
            if state == "completed":
                fields |= {"result": json.dumps({"rows": chance.randrange(9_000), "password": "s3cr3t"}),
                           "progress": Progress(200, 200, "written", ended).as_json()}  # fmt: skip
            pipe.hset(record_key(KEYS, jid), mapping=fields)
            pipe.zadd(f"pyworkers:ended:{state}", {jid: ended})


def record(state: str, moves: Sequence[str], at: float) -> dict[str, Any]:
    """The fields of the record of a tracked job, see `features.tracking.record`."""
    told: Mapping[str, Any] = {f"t{number}": move for number, move in enumerate(moves, 1)}
    return {"v": 1, "state": state, "at": at, "n": len(moves), **told}
