"""Judges the jobs of `shaped_jobs` by the notes of their runs, and by what the server has at the end.

    every kind  each job that was surely pushed has ended well; a second run of it has a reason, see `judge`
    one, lined  no two jobs of a key run at the same time
    two         no three jobs of a key do
    lined       jobs of a key begin in the order in which they were pushed
    link        each link of a chain is one job, which has begun after those before it, with all their results
    tick        each slot from the first to the last has one job
    gathered    each number that was pushed is in one job; only one whose push is unsure may be in none
    part        a batch has one callback of each kind that is due, after all its parts have ended well; one with a dead
                part has those of its death and of its end. A batch whose push is unsure has no callback twice

Of a job that was given to another process, the first run may go on for a while beside the second one. That first run
holds nothing any more, see `at_once`.

At the end nothing is left: no lock, no group, no open batch.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import redis as redis_py

from chaos.at_once import AtOnce, Bound, ShapedRun, ended_well
from chaos.judge import Judge
from chaos.notes import whole_lines
from chaos.shaped_jobs import CALLBACK, GATHERED, LINED, LINK, ONE, PART, TICK, TICKS_S, TWO
from chaos.shaper import Pushed

BOUNDS = Bound(ONE, True, 1), Bound(LINED, True, 1), Bound(TWO, True, 2)
SLOT = "pyworkers:slot:"
LEFT = (
    "pyworkers:lock:*", "pyworkers:group:*", "pyworkers:group-set:*", f"{SLOT}*", "pyworkers:line:*",
)  # fmt: skip


@dataclass
class Verdict:
    count: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)  # more at once than allowed
    complaints: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(*(getattr(self, of.name) + getattr(other, of.name) for of in fields(self)))


def read_shaped_runs(directory: Path) -> list[ShapedRun]:
    runs: dict[tuple[int, str], ShapedRun] = {}
    for path in directory.glob("shaped-*"):
        life = int(path.name.partition("-")[2])
        for line in whole_lines(path):
            word, at, jid, attempt, number, *more = line.split()
            if word == "began":
                kind, key, *words = more
                run = ShapedRun(jid, int(attempt), life, float(at), kind=kind, key=key, words=tuple(words))
                runs[life, number] = run
            else:
                runs[life, number].ended, runs[life, number].failed = float(at), word == "failed"
    return sorted(runs.values(), key=lambda run: run.began)


def what_is_left(client: redis_py.Redis, pushed: Pushed) -> list[str]:
    keys = sorted(key.decode() for pattern in LEFT for key in client.scan_iter(pattern, 1_000))
    # The time of a rate, and a block that gave up, are there for some seconds.
    keys = [key for key in keys if not key.startswith(SLOT) or any(f.startswith(b"s:") for f in client.hkeys(key))]
    records = {key.decode(): client.hgetall(key) for key in client.scan_iter("pyworkers:batch:*", 1_000)}
    names = sorted(record.get(b"name", b"").decode() for record in records.values() if b"ended" not in record)
    nameless = sorted(key for key, record in records.items() if b"name" not in record)
    return [*keys, *nameless, *(name for name in names if pushed.batches.get(name))]


class ShapeJudge:
    def __init__(self, judge: Judge, runs: Sequence[ShapedRun], buried: Mapping[str, Sequence[Any]]) -> None:
        """`buried`: the dead jobs by their jids, each with its class and its arguments."""
        self._judge = judge
        self._runs = runs
        self._buried = buried
        self._at_once = AtOnce(judge, runs)
        self._of = defaultdict[str, list[ShapedRun]](list)  # jid: its runs
        for run in runs:
            self._of[run.jid].append(run)

    def verdict(self, pushed: Pushed, left: Sequence[str]) -> Verdict:
        verdict = Verdict()
        verdict.count.update(kind for kind in pushed.sure.values())
        verdict.count["refused"] = pushed.refused
        verdict.complaints += [f"left at the end: {key}" for key in left]
        verdict.complaints += [f"lost: {jid}, of kind {kind}" for jid, kind in self._lost(pushed.sure)]
        verdict.complaints += self._repetitions(verdict.repeated)
        for bound in BOUNDS:
            verdict.complaints += self._at_once.too_many(bound)
        verdict.explained = self._at_once.explained
        verdict.complaints += self._slots(verdict.count)
        verdict.complaints += self._members(pushed.members)
        verdict.complaints += self._batches(pushed.batches)
        verdict.complaints += self._chains(pushed.chains)
        verdict.complaints += self._out_of_order(pushed.sure)
        verdict.count["chain"] = len(pushed.chains)
        verdict.count[GATHERED], verdict.count["batch"] = len(pushed.members), len(pushed.batches)
        return verdict

    def _lost(self, sure: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for jid, kind in sure.items():
            if jid not in self._buried and not any(ended_well(run) for run in self._of[jid]):
                yield jid, kind

    def _slots(self, count: Counter[str]) -> Iterator[str]:
        jids: dict[int, set[str]] = defaultdict(set)
        for run in self._runs:
            if run.kind == TICK:
                jids[int(run.key)].add(run.jid)
        count[TICK] = len(jids)
        for slot in range(min(jids, default=0), max(jids, default=-1) + 1, TICKS_S):
            if len(jids[slot]) != 1:
                yield f"slot {slot} has {len(jids[slot])} jobs: {', '.join(sorted(jids[slot]))}"
            yield from (f"lost: {jid}, of slot {slot}" for jid, _ in self._lost(dict.fromkeys(jids[slot], TICK)))

    def _members(self, members: Mapping[int, bool]) -> Iterator[str]:
        jids = self._jobs_of_members()
        for number, sure in members.items():
            if len(jids[number]) > 1 or (sure and not jids[number]):
                yield f"member {number} is in {len(jids[number])} jobs: {', '.join(sorted(jids[number]))}"
            yield from (f"lost: {jid}, with member {number}" for jid, _ in self._lost(dict.fromkeys(jids[number], "")))

    def _jobs_of_members(self) -> Mapping[int, set[str]]:
        jids: dict[int, set[str]] = defaultdict(set)
        for run in self._runs:
            if run.kind == GATHERED:
                for number in map(int, run.words):
                    jids[number].add(run.jid)
        for jid, (job_class, args) in self._buried.items():
            if job_class == "Gathered" and args:
                for number in args[0]:
                    jids[number].add(jid)
        return jids

    def _batches(self, batches: Mapping[str, int]) -> Iterator[str]:
        of_batch: dict[str, list[ShapedRun]] = defaultdict(list)
        for run in self._runs:
            if run.kind in (PART, CALLBACK):
                of_batch[run.key].append(run)
        dead = {args[0] for job_class, args in self._buried.values() if job_class in ("Part", "Callback") and args}
        for name, parts in batches.items():
            callbacks: dict[str, set[str]] = defaultdict(set)
            for run in of_batch[name]:
                if run.kind == CALLBACK:
                    callbacks[run.words[0]].add(run.jid)
            yield from (f"{name} has {len(jids)} callbacks `{of}`" for of, jids in callbacks.items() if len(jids) > 1)
            if parts and name not in dead:
                yield from self._whole_batch(name, parts, of_batch[name], callbacks)

    def _whole_batch(
        self, name: str, parts: int, runs: Sequence[ShapedRun], callbacks: Mapping[str, set[str]]
    ) -> Iterator[str]:
        if {of for of, jids in callbacks.items() if jids} != {"success", "complete"}:
            yield f"{name} has the callbacks {sorted(callbacks)}"
        first = min((run.began for run in runs if run.kind == CALLBACK), default=math.inf)
        ended = {run.words[0] for run in runs if run.kind == PART and ended_well(run) and run.ended <= first}
        if len(ended) < parts:
            yield f"{name}: {len(ended)} of {parts} parts had ended before its first callback"

    def _chains(self, chains: Mapping[str, int]) -> Iterator[str]:
        of_chain: dict[str, dict[int, list[ShapedRun]]] = defaultdict(lambda: defaultdict(list))
        for run in self._runs:
            if run.kind == LINK:
                of_chain[run.key][int(run.words[0])].append(run)
        dead = {args[0] for job_class, args in self._buried.values() if job_class == "Link" and args}
        for name, count in chains.items():
            links = of_chain[name]
            for number, runs in links.items():
                if len({run.jid for run in runs}) > 1:
                    yield f"{name} has several links {number}: {runs}"
                yield from self._wrong_results(name, number, runs, links)
            if name not in dead:
                wanted = range(count or (max(links, default=-1) + 1 if 0 in links else 0))
                lost = [number for number in wanted if not any(map(ended_well, links[number]))]
                yield from (f"lost: link {number} of {name}" for number in lost)

    @staticmethod
    def _wrong_results(
        name: str, number: int, runs: Sequence[ShapedRun], links: Mapping[int, Sequence[ShapedRun]]
    ) -> Iterator[str]:
        for run in runs:
            before = {int(word) for word in run.words[1:]}
            ended = {
                other for other in before if any(ended_well(one) and one.ended <= run.began for one in links[other])
            }
            if before != ended or (number > 0 and 0 not in before) or any(other >= number for other in before):
                yield f"{name}: link {number} began with the results of {sorted(before)}, ended were {sorted(ended)}"

    def _out_of_order(self, sure: Mapping[str, str]) -> Iterator[str]:
        """Of the jobs that were surely pushed, by one producer: the numbers in their jids grow."""
        first: dict[str, ShapedRun] = {}
        for run in self._runs:
            if run.kind == LINED and run.jid in sure and run.jid not in first:
                first[run.jid] = run
        of_key: dict[str, list[str]] = defaultdict(list)
        for jid, run in first.items():
            of_key[run.key].append(jid)
        for key, jids in of_key.items():
            pairs = itertools.pairwise(jids)
            yield from (f"{later} of {key} began before {earlier}" for later, earlier in pairs if earlier < later)

    def _repetitions(self, repeated: Counter[str]) -> Iterator[str]:
        of_attempt: dict[tuple[str, int], list[ShapedRun]] = defaultdict(list)
        for run in self._runs:
            of_attempt[run.jid, run.attempt].append(run)
        for same in of_attempt.values():
            for first, second in itertools.pairwise(same):
                why = self._judge.explain(first, second)
                repeated[why or "UNEXPLAINED"] += 1
                if why is None:
                    yield f"run again, and nothing explains it: {first}, then {second}"
