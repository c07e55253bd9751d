"""Reads the files that the producer and the processes wrote, when all is over."""

from __future__ import annotations

import datetime
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# The number of a life ends with the number of its process: a parent has several children in one life.
PIDS = 10**7
DECLARED_DEAD = "expired and its jobs were recovered; continuing as"
GIVEN_BACK = re.compile("recovered from dead process|, requeued:")
_JID = re.compile(r"jid=(\S+)")
_PID = re.compile(r"pid=(\d+)")


def pid_of(life: int) -> int:
    return life % PIDS


@dataclass
class Run:
    jid: str
    attempt: int
    life: int
    began: float
    ended: float = math.inf
    interrupted: bool = False  # its job was given to another process
    effected: bool = False
    failed: bool = False  # a parent's; the runs of other jobs fail by their plan
    children: dict[str, int] = field(default_factory=dict)  # a parent's: how often each fails before it succeeds


@dataclass
class StatedRun(Run):
    """Of a job whose state is judged, see `states`."""

    number: str = ""  # in its process
    how: str = ""  # it ended: "ended", or the class of an exception; empty when its process died first
    steps: list[tuple[int, float]] = field(default_factory=list)  # with their times

    @property
    def result(self) -> str:
        return f"{self.jid} {self.attempt} {self.number} {pid_of(self.life)}"


@dataclass
class Pushes:
    """jid: how often it fails before it succeeds."""

    pushed: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, int] = field(default_factory=dict)


def read_pushes(directory: Path) -> Pushes:
    words: dict[str, dict[str, int]] = defaultdict(dict)
    for line in whole_lines(directory / "pushes"):
        word, _, jid, failures = line.split()
        words[word][jid] = int(failures)
    return Pushes(words["pushed"], {jid: words["pushes"][jid] for jid in words["pushes"].keys() - words["pushed"]})


def read_runs(directory: Path) -> list[Run]:
    runs: dict[tuple[int, str], Run] = {}
    for path in directory.glob("runs-*"):
        life = int(path.name.partition("-")[2])
        for line in whole_lines(path):
            word, at, jid, attempt, number, *children = line.split()
            if word == "began":
                runs[life, number] = Run(jid, int(attempt), life, float(at), children=_failures(children))
            elif word in ("effected", "interrupted"):
                setattr(runs[life, number], word, True)
            else:
                runs[life, number].ended = float(at)
                runs[life, number].failed = word == "failed"
    return sorted(runs.values(), key=lambda run: run.began)


def read_stated_runs(directory: Path) -> list[StatedRun]:
    runs: dict[tuple[int, str], StatedRun] = {}
    for path in directory.glob("states-*"):
        life = int(path.name.partition("-")[2])
        for line in whole_lines(path):
            word, at, jid, attempt, number = line.split()
            if word == "began":
                runs[life, number] = StatedRun(jid, int(attempt), life, float(at), number=number)
            elif word.startswith("step"):
                runs[life, number].steps.append((int(word.removeprefix("step")), float(at)))
            else:
                runs[life, number].how, runs[life, number].ended = word, float(at)
    return sorted(runs.values(), key=lambda run: run.began)


def _failures(children: Iterable[str]) -> dict[str, int]:
    return {jid: int(failures) for jid, _, failures in (child.partition(":") for child in children)}


def read_deaths(directory: Path, wall_minus_monotonic: float) -> dict[int, list[float]]:
    """When each life found itself declared dead."""
    deaths: dict[int, list[float]] = defaultdict(list)
    for path in directory.glob("log-*"):
        for line in whole_lines(path):
            if DECLARED_DEAD in line:
                at = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
                pid = _PID.search(line)
                assert pid is not None, line
                deaths[int(path.name.split("-")[1]) * PIDS + int(pid[1])].append(at - wall_minus_monotonic)
    return deaths


def read_given_back(directory: Path) -> set[str]:
    """The jids of jobs that were recovered from a dead process, or that a stop has given back."""
    return {
        jid[1]
        for path in directory.glob("log-*")
        for line in whole_lines(path)
        if GIVEN_BACK.search(line) and (jid := _JID.search(line))
    }


def whole_lines(path: Path) -> Iterable[str]:
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
