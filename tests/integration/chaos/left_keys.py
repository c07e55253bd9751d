"""Explains each key that is on the server at the end, when nothing waits, runs or holds anything any more.

One table says which keys may be there. All others were left behind: places, lines, locks, claims, open batches.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import redis as redis_py

OWNERS = "pyworkers:owners", "pyworkers:blocks"
Check = Callable[[redis_py.Redis, str], str | None]  # tells what is wrong with a key


def stays(client: redis_py.Redis, key: str) -> str | None:
    """It is one for all jobs, or has one entry for each name in the code."""
    return None


def expires(client: redis_py.Redis, key: str) -> str | None:
    return "has no end of life" if client.pttl(key) == -1 else None  # -2: it has just ended


def is_empty_of_jobs(client: redis_py.Redis, key: str) -> str | None:
    """The places of a limit: only the time of a rate is left, for as long as it counts."""
    places = [field.decode() for field in client.hkeys(key) if field.startswith(b"s:")]
    return f"has the places {places}" if places else expires(client, key)


def names_the_dead(client: redis_py.Redis, key: str) -> str | None:
    """An entry stays for a day after its process was declared dead."""
    unknown = _not_declared_dead(client, key)
    return f"has processes that were not declared dead: {unknown}" if unknown else None


def has_stopped(client: redis_py.Redis, key: str) -> str | None:
    return "runs" if client.hget(key, "state") == b"running" else expires(client, key)


def has_a_last_tick(client: redis_py.Redis, key: str) -> str | None:
    """Periodic jobs come as long as a process lives, and the last one may find none that runs it."""
    classes = {json.loads(raw)["class"] for raw in client.lrange(key, 0, -1)}
    return None if classes <= {"Tick"} else f"has jobs of {sorted(classes)}"


def is_of_a_dead_job(client: redis_py.Redis, key: str) -> str | None:
    """The cursor of an iterable job: one that was taken for poison may be retried by hand, and goes on from there."""
    jid = json.dumps(key.removeprefix("it-")).encode()
    is_dead = any(jid in raw for raw in client.zrange("dead", 0, -1))
    return expires(client, key) if is_dead else "is of no dead job"


ALLOWED: dict[str, Check] = {
    r"queues|dead|processes|chaos:effects": stays,
    r"stat:(processed|failed)": stays,
    r"queue:short": has_a_last_tick,
    r"pyworkers:(limits|periodics|batches|chains|tombstones:version)": stays,
    r"pyworkers:limit:[a-z-]+": stays,
    r"pyworkers:(owners|blocks)": names_the_dead,
    r"pyworkers:slot:.*": is_empty_of_jobs,
    r"pyworkers:chain:.*": has_stopped,
    r"pyworkers:batch:.*": expires,  # `shape_judge` tells which are open
    r"it-.*": is_of_a_dead_job,
    r"pyworkers:(gone|tombstones)": expires,
    r"pyworkers:(lease|receipt|job|ended|cancelled|periodic|periodic-history|periodic-source|deaths|day):.*": expires,
    r"stat:(processed|failed):.*|process_cleanup": expires,
    r"[^:|]+:\d+:[0-9a-f]+(:work|:workers|-signals)?": expires,  # of a process
    r"[jh]\|.*|[\w.]+-\d+-\d+:\d+": expires,  # of a class and a minute
}


def what_is_left_behind(client: redis_py.Redis) -> tuple[Counter[str], list[str]]:
    """How many keys of each kind there are, and what is wrong with them."""
    count: Counter[str] = Counter()
    wrong = []
    for key in sorted(key.decode() for key in client.scan_iter(count=1_000)):
        pattern = next((pattern for pattern in ALLOWED if re.fullmatch(pattern, key)), None)
        if pattern is None:
            wrong.append(f"left behind: {key} ({client.type(key).decode()})")
        else:
            count[pattern] += 1
            why = ALLOWED[pattern](client, key)
            if why is not None:
                wrong.append(f"left behind: {key} {why}")
    return count, wrong


def held_by_the_dead(client: redis_py.Redis) -> list[str]:
    """The keys that the end of a process leaves for a while: others declare it dead, and free that."""
    ended = [
        identity
        for key in OWNERS
        for identity in _not_declared_dead(client, key)
        if not Path(f"/proc/{identity.split(':')[1]}").exists()
    ]
    locks = [key.decode() for key in client.scan_iter("pyworkers:lock:*", 1_000)]
    return [*ended, *_places(client), *locks]


def _places(client: redis_py.Redis) -> Iterator[str]:
    for key in client.scan_iter("pyworkers:slot:*", 1_000):
        fields: Collection[bytes] = client.hkeys(key)
        yield from (f"{key.decode()} {field.decode()}" for field in fields if field.startswith(b"s:"))


def _not_declared_dead(client: redis_py.Redis, key: str) -> list[str]:
    known = set(client.hkeys(key)) - set(client.hkeys("pyworkers:gone"))
    return sorted(identity.decode() for identity in known)
