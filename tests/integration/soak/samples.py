"""One sample: what each process holds, and what the server holds."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# How many entries a key of a type has.
LENGTHS = {b"list": "LLEN", b"hash": "HLEN", b"set": "SCARD", b"zset": "ZCARD", b"stream": "XLEN"}
# The name of a family: what is left of a key without the names of jobs, processes, classes and times.
FAMILIES = (
    (r"queue:.*:inprogress", "queue:QUEUE:OWNER:inprogress"),
    (r"queue:.*", "queue:QUEUE"),
    (r"(pyworkers:[a-z-]+)(:.*)?", r"\1"),
    (r"(stat:[a-z]+)(:.*)?", r"\1"),
    (r"it-.*", "it-JID"),
    (r"[jh]\|.*|[\w:.]+-\d+-\d+:\d+", "metrics"),
    (r"[^:|]+:\d+:[0-9a-f]+.*", "IDENTITY"),
)


def family_of(key: str) -> str:
    for pattern, name in FAMILIES:
        match = re.fullmatch(pattern, key)
        if match:
            return match.expand(name)
    return key


def read_process(pid: int) -> dict[str, Any]:
    """Empty where the process has ended meanwhile."""
    folder = Path(f"/proc/{pid}")
    try:
        rollup = dict(re.findall(r"^(\w+): +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE))
        status = (folder / "status").read_text()
        ran = (folder / "stat").read_text().rpartition(")")[2].split()
        return {
            "pid": pid,
            "rss_kb": int(rollup["Rss"]),
            "pss_kb": int(rollup["Pss"]),
            "uss_kb": int(rollup["Private_Clean"]) + int(rollup["Private_Dirty"]),
            "threads": int(re.findall(r"^Threads:\s+(\d+)", status, re.MULTILINE)[0]),
            "descriptors": sum(1 for _ in (folder / "fd").iterdir()),
            "cpu_s": (int(ran[11]) + int(ran[12])) / TICKS_PER_S,
        }
    except (OSError, KeyError, IndexError):
        return {}


def children_of(pid: int) -> list[int]:
    try:
        return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def read_server(client: redis.Redis) -> dict[str, Any]:
    info: Mapping[str, Any] = client.info("everything")
    names = (
        "used_memory", "used_memory_dataset", "used_memory_scripts", "used_memory_rss", "connected_clients",
        "number_of_cached_scripts", "total_commands_processed", "blocked_clients", "pubsub_channels",
    )  # fmt: skip
    keys, staying, entries = _families(client)
    return {
        **{name: info[name] for name in names if name in info},
        "dbsize": sum(keys.values()),
        "keys": dict(keys),
        "staying": dict(staying),
        "entries": dict(entries),
    }


def _families(client: redis.Redis) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """By family: how many keys, how many of them have no time to live, and how many entries they have."""
    keys, staying, entries = Counter[str](), Counter[str](), Counter[str]()
    names = list({*client.scan_iter(count=1_000)})  # a scan may give a key twice
    with client.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.type(name).ttl(name)
        answers = pipeline.execute()
        kinds, lives = answers[::2], answers[1::2]
        measured = [(name, LENGTHS[kind]) for name, kind in zip(names, kinds, strict=True) if kind in LENGTHS]
        for name, command in measured:
            pipeline.execute_command(command, name)
        lengths = pipeline.execute()
    for name, life in zip(names, lives, strict=True):
        family = family_of(name.decode())
        keys[family] += life != -2  # it has ended since the scan
        staying[family] += life == -1
    for (name, _), length in zip(measured, lengths, strict=True):
        entries[family_of(name.decode())] += length
    return keys, staying, entries
