"""Mends that are taken out of the package while a process imports it: the simulator must find each defect again.

Each revert is the smallest change of today's source that brings a defect back. `edits` do so in what the simulated
fleet runs. Some defects were in Lua only: then they bring it back in the same step of the memory broker. `redis_edits`
do it in the steps on a real Redis. The files on the disk stay as they are.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[3]
PACKAGE = "goworkers_py"


@dataclass(frozen=True, slots=True)
class Edit:
    file: str  # in the package
    was: str  # occurs once
    becomes: str

    @property
    def path(self) -> Path:
        return ROOT / PACKAGE / self.file


@dataclass(frozen=True, slots=True)
class Revert:
    name: str
    defect: str  # as a user meets it
    edits: tuple[Edit, ...]
    redis_edits: tuple[Edit, ...] = ()

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        return self.edits + self.redis_edits


REVERTS = [
    Revert(
        "block on a strict limit",
        "A process is killed inside of `with limit.acquire():`, where the limit has concurrent=1. Its place "
        "stays for a recovered job, but nothing recovers a block: every job and block of that key waits for "
        "ever.",
        (
            Edit(
                "features/limits/memory.py",
                "keeps = limit is not None and limit.declared.holds and bool(holder.queue)",
                "keeps = limit is not None and limit.declared.holds",
            ),
        ),
        (
            Edit(
                "features/limits/lua/look.lua",
                "if lease > 0 and slot.holds and queue ~= '' then",
                "if lease > 0 and slot.holds then",
            ),
            Edit("features/limits/redis.py", "            elif not holder.queue:", "            elif False:"),
        ),
    ),
    Revert(
        "limits after an outage",
        "The broker is away for longer than all leases, or its clock is set forward by as much. The first "
        "look at a limit frees the places of processes that live: more jobs and blocks run at once than the "
        "limit allows.",
        (
            Edit(
                "brokers/memory/state.py",
                "return record is None or record.died_at is not None",
                "return record is None or not record.is_alive(self.clock())",
            ),
        ),
        (
            Edit(
                "brokers/redis/lua/fragments/holder.lua",
                "if redis.call('HEXISTS', GONE, owner) == 1 then return true end",
                "if redis.call('EXISTS', key_of_lease) == 0 then return true end",
            ),
        ),
    ),
    Revert(
        "unique past its end",
        "A unique job runs while the broker is away for longer than its `unique_for`. The lock ends, a second "
        "push of the key is accepted, and two jobs of one key run at once.",
        (
            Edit(
                "features/unique/memory.py",
                "            self.owner, self.expires_at = owner, math.inf",
                "            pass",
            ),
            Edit(
                "features/unique/memory.py",
                "        held.end_with(lock.owner)",
                "        held.expires_at = max(held.expires_at, self._state.clock() + lock.for_s)",
            ),
        ),
        (
            Edit(
                "features/unique/lua/fragments/lock_life.lua",
                """\
  local reply = redis.pcall('HSET', key, 'owner', owner)
  if type(reply) ~= 'table' then reply = redis.pcall('PERSIST', key) end
  if type(reply) == 'table' then prolong(key, life) end""",
                "  prolong(key, life)",
            ),
        ),
    ),
    Revert(
        "periodic refused",
        "The broker refuses the push of the first slot of a new schedule, because it is full, say. The undo "
        "of the firing damages the record of the schedule: the periodic job never fires again, also when "
        "there is room.",
        (
            Edit(
                "features/periodic/memory.py",
                "            [result] = self._state.publish_within([firing.push])",
                """\
            try:
                [result] = self._state.publish_within([firing.push])
            except Exception:
                kept.number = kept.number if kept.last else 0
                raise""",
            ),
            Edit(
                "features/periodic/memory.py",
                "in_force = kept.schedule.digest == digest",
                "in_force = kept.schedule.digest == digest and kept.number > 0",
            ),
        ),
        (
            Edit(
                "features/periodic/lua/fire_schedule.lua",
                "redis.call('HGET', RECORD, 'last') or '0'",
                "redis.call('HGET', RECORD, 'last') or ''",
            ),
            Edit(
                "features/periodic/lua/register_schedules.lua",
                "  if record.last == '' then record.last = nil end\n",
                "",
            ),
        ),
    ),
    Revert(
        "late settlement",
        "A settlement is given up, sent again and done. Its first copy reaches the server after a later "
        "settlement, and is done as well. Where a job of the same bytes is in progress by then, this job is "
        "removed: it is lost, or, as an iterable job that goes on, run twice at once.",
        (
            Edit("brokers/memory/endings.py", "            refuse_late(batch.number, last)\n", ""),
            # Redis knows a job in progress by its bytes only.
            Edit(
                "brokers/memory/transport.py",
                "        if not self._state.take_from_progress(delivery.identity, delivery.queue, delivery.receipt):",
                """\
        record = self._state.leases.get(delivery.identity)
        held = {} if record is None else record.in_progress.get(delivery.queue, {})
        equal = [receipt for receipt, payload in held.items() if payload == delivery.payload]
        receipt = delivery.receipt if delivery.receipt in held or not equal else equal[0]
        if not self._state.take_from_progress(delivery.identity, delivery.queue, receipt):""",
            ),
        ),
        (
            Edit(
                "brokers/redis/lua/fragments/receipt.lua",
                "    if ahead > 0 then return {err = 'late: the settler has settled a later batch'} end\n",
                "",
            ),
        ),
    ),
    Revert(
        "half an atomic job",
        "A settlement writes some of what an atomic job leaves, and is not done after that. On Redis this is "
        "so where a later child's limit has a key of a wrong type: the children before it are pushed again "
        "every two seconds. The memory broker refuses no key. There it is so where the job was recovered "
        "elsewhere before it ended here: the children of both runs are there.",
        (
            Edit(
                "brokers/memory/transport.py",
                """\
        if not self._state.take_from_progress(delivery.identity, delivery.queue, delivery.receipt):
            return False
""",
                """\
        pushes = [effect for effect in outcome.effects if effect.kind == "push"]
        self._endings.apply(pushes)
        if not self._state.take_from_progress(delivery.identity, delivery.queue, delivery.receipt):
            return False
""",
            ),
            Edit(
                "brokers/memory/transport.py",
                "self._endings.apply(outcome.effects)",
                "self._endings.apply(effect for effect in outcome.effects if effect not in pushes)",
            ),
        ),
        (
            Edit(
                "features/limits/lua/fragments/slot_check.lua",
                "  return limit.error((limit.at(at + TIE_SIZE + 2)))",
                "  return redis.call('HLEN', limit.at(at + TIE_SIZE + 2).places) < 0",
            ),
        ),
    ),
    Revert(
        "surrogate in the settler",
        "One job has half of a surrogate pair in the name or the key of a limit in its payload. In each "
        "process that gets it, no job of that queue is settled any more: they stay in progress, and run again "
        "after a stop.",
        (
            Edit(
                "features/limits/limit.py",
                r'_NAME = r"[^\s:\ud800-\udfff]{1,100}"',
                r'_NAME = r"[^\s:]{1,100}"',
            ),
            # A driver encodes the whole batch before it sends the first command.
            Edit(
                "brokers/memory/endings.py",
                "        with self._state.lock:\n            last, results",
                """\
        for _, outcome in batch.finished:
            if outcome is not DONE and (flaw := _flaw(outcome)):
                raise ValueError(flaw)
        with self._state.lock:
            last, results""",
            ),
            Edit(
                "runtime/settling/settlement.py",
                """\
        except Exception as error:  # of our own code: a delivery that cannot be written, say
            self._counters.add("settle_retries")
            self._tell_of_fault(error)
            self._retry_or_halve(Unwritable(f"{error_class(error)}: {error_text(error)}"))
            return False
""",
                "",
            ),
        ),
        (
            Edit(
                "brokers/redis/queues/transport.py",
                "self._flaws(batch)\n            if not",
                "dict[Delivery, Unwritable]()\n            if not",
            ),
        ),
    ),
    Revert(
        "uncounted strike",
        'A job with `"backtrace": -1`, which is legal in Ruby, fails. The exception of our own code goes '
        "through the worker's thread, and the job goes back without a count: it runs once a second for ever, "
        "with its side effects, and is never dead.",
        (
            Edit(
                "wire/failure.py",
                "    theirs = theirs[-most:]",
                """\
    if most < 0:
        raise ValueError("maxlen must be non-negative")
    theirs = theirs[-most:]""",
            ),
            Edit(
                "runtime/running/guard.py",
                """\
        try:
            outcome = chain(message)
        except BaseException as error:
            outcome = self._net.failed(message, error)
""",
                "        outcome = chain(message)\n",
            ),
            Edit(
                "runtime/running/guard.py",
                """\
        except BaseException as error:
            return self._caught(message, delivery, outcome or message.outcome, error)
""",
                "",
            ),
            Edit(
                "runtime/running/worker.py",
                "outcome = self._lanes[delivery.queue].guard.broken_off(delivery)",
                "outcome = REQUEUE",
            ),
        ),
    ),
    Revert(
        "timers early",
        "A process believes the first answer about the server's clock for as long as it lives. After that "
        "clock was set forward, retries, delayed pushes of jobs and tasks of delay queues are due at once.",
        (
            Edit(
                "core/clock.py",
                "        least, most = server_time - answered_at, server_time - asked_at\n",
                """\
        if self._ahead_s is not None:
            return
        least, most = server_time - answered_at, server_time - asked_at
""",
            ),
        ),
        (
            Edit(
                "features/delays/lua/delay_take.lua",
                "if by < math.huge then by = math.min(by, tonumber(now)) end\n",
                "",
            ),
        ),
    ),
]


def take_out(name: str) -> None:
    """From now on this process has the package without this mend. No module of the package may be imported before."""
    early = [module for module in sys.modules if module.split(".")[0] == PACKAGE]
    if early:
        raise RuntimeError(f"{early[0]} is imported already: the mend would stay in it")
    [revert] = [revert for revert in REVERTS if revert.name == name]
    texts = edited(revert.all_edits)
    finder = _Finder(texts)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(f"{PACKAGE}.brokers.redis.broker")
        for path in texts:
            if path.suffix == ".py":  # some are imported only when an App opens its broker
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    finally:
        sys.meta_path.remove(finder)
    # Scripts are composed when they are first needed.
    composition = importlib.import_module(f"{PACKAGE}.brokers.redis.driver.composition")
    composition.source_of = lambda path: texts.get(path) or path.read_text("utf-8")


def edited(edits: Sequence[Edit]) -> dict[Path, str]:
    """The texts of the files with these edits."""
    texts: dict[Path, str] = {}
    for edit in edits:
        text = texts.get(edit.path) or edit.path.read_text("utf-8")
        if text.count(edit.was) != 1:
            raise ValueError(f"{edit.file} has this text {text.count(edit.was)} times, not once:\n{edit.was}")
        texts[edit.path] = text.replace(edit.was, edit.becomes)
    return texts


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, texts: Mapping[Path, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] != PACKAGE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or (text := self._texts.get(Path(spec.origin))) is None:
            return spec
        return importlib.util.spec_from_loader(fullname, _Loader(fullname, spec.origin, text))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Without a look at the cache of compiled files, and without an entry in it."""
        return compile(self._text, self.path, "exec", dont_inherit=True)
