"""Reads the files that the producer and the processes wrote, when all is over."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

DECLARED_DEAD = "expired and its jobs were recovered; continuing as"


@dataclass
class Run:
    jid: str
    attempt: int
    life: int
    began: float
    ended: float = math.inf
    effected: bool = False
    failed: bool = False  # a parent's; the runs of other jobs fail by their plan
    children: dict[str, int] = field(default_factory=dict)  # a parent's: how often each fails before it succeeds


@dataclass
class Pushes:
    """jid: how often it fails before it succeeds."""

    pushed: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, int] = field(default_factory=dict)


def read_pushes(directory: Path) -> Pushes:
    words: dict[str, dict[str, int]] = defaultdict(dict)
    for line in _whole_lines(directory / "pushes"):
        word, _, jid, failures = line.split()
        words[word][jid] = int(failures)
    return Pushes(words["pushed"], {jid: words["pushes"][jid] for jid in words["pushes"].keys() - words["pushed"]})


def read_runs(directory: Path) -> list[Run]:
    runs: dict[tuple[int, str], Run] = {}
    for path in directory.glob("runs-*"):
        life = int(path.name.partition("-")[2])
        for line in _whole_lines(path):
            word, at, jid, attempt, number, *children = line.split()
            if word == "began":
                runs[life, number] = Run(jid, int(attempt), life, float(at), children=_failures(children))
            elif word == "effected":
                runs[life, number].effected = True
            else:
                runs[life, number].ended = float(at)
                runs[life, number].failed = word == "failed"
    return sorted(runs.values(), key=lambda run: run.began)


def _failures(children: Iterable[str]) -> dict[str, int]:
    return {jid: int(failures) for jid, _, failures in (child.partition(":") for child in children)}


def read_deaths(directory: Path, wall_minus_monotonic: float) -> dict[int, list[float]]:
    """When each life found itself declared dead."""
    deaths: dict[int, list[float]] = defaultdict(list)
    for path in directory.glob("log-*"):
        for line in _whole_lines(path):
            if DECLARED_DEAD in line:
                at = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
                deaths[int(path.name.split("-")[1])].append(at - wall_minus_monotonic)
    return deaths


def _whole_lines(path: Path) -> Iterable[str]:
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
