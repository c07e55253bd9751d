"""Gives commands to processes and collects their answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from goworkers_py.admin.asker import asker
from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.core import machine
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.features.calls.call import DUMP, LONGEST_LIFE_S, QUIET, STOP, Answer, Call, Report, Target
from goworkers_py.features.calls.contract import Calls

# An answer that is told by no message is found by then.
LOOK_EVERY_S = 0.5
MOST_SEARCHED = 5_000
# Other programs, and pyworkers before 0.4.0, know these; they obey after their next beat, and do not answer.
SIGNALS = {QUIET: Command.QUIET, STOP: Command.STOP, DUMP: Command.DUMP}


@dataclass(frozen=True)
class CallResult:
    answers: list[Answer]
    silent: list[str]  # the identities of the processes that did not answer in time

    @property
    def ok(self) -> bool:
        """Every process has answered, and none with an error. A process that lacks the pool or the queue that the
        command names matters only if all of them do."""
        known = [answer for answer in self.answers if answer.here]
        return not self.silent and all(answer.ok for answer in known) and bool(known or not self.answers)


class CallVerbs(Verbs):
    def call(
        self, name: str, *arguments: Any, target: Target | None = None, timeout_s: float = 5.0, by: str = ""
    ) -> CallResult:
        """`inspector.call("flush-cache", "prices", target=Target(tag="web"))` gives a command to the pyworkers
        processes of the target, all by default, and waits up to `timeout_s` for their answers. `by` goes into their
        logs.

        The arguments are JSON values. A process that does not read the command in this time does not obey it.
        """
        calls = self._broker.require_part(Calls)
        if not 0 < timeout_s <= LONGEST_LIFE_S:
            raise ArgumentError(f"a command waits for up to {LONGEST_LIFE_S:.0f} s, not {timeout_s:g} s")
        wanted = target or Target()
        asked = {process.identity for process in self._admin.processes() if process.commands and fits(wanted, process)}
        call = Call(machine.token_hex(8), name, arguments, wanted, asker(by), timeout_s)
        answers = _collected(calls, call, asked, timeout_s)
        return CallResult(answers, sorted(asked - {answer.identity for answer in answers}))

    def reports(self, name: str = "", after: str = "", limit: int = 50) -> list[Report]:
        """`inspector.reports("import")` returns the last reports that programs gave with `workers.report`, the newest
        last; of one name or of all. `after` is the position of a report: the next ones are returned, `limit` at most.
        """
        found = self._broker.require_part(Calls).reports(after, limit if after or not name else MOST_SEARCHED)
        chosen = [report for report in found if name in ("", report.name)]
        return chosen if after else chosen[-limit:]


def fits(target: Target, process: Process) -> bool:
    return target.fits(process.identity, process.tag, process.queues, process.partition)


def why_not_asked(process: Process, name: str) -> str:
    """Why a process that answers no commands cannot be asked by a signal; empty if it can be."""
    if name not in SIGNALS and process.standby:
        return f"stands by; it obeys {name} only while it leads"
    if name not in SIGNALS:
        return f"{process.version or 'this program'} does not know {name}"
    if process.embedded:
        return f"part of another program; only that program can {name} it"
    if process.language == "Go":
        host, pid, _ = process.identity.rsplit(":", 2)
        return (
            f"go-workers2 obeys no commands; `kill -TERM {pid}` on {host} has it fetch no more jobs, and end "
            "when those that it runs have ended"
        )
    return ""


def _collected(calls: Calls, call: Call, asked: Collection[str], timeout_s: float) -> list[Answer]:
    answered = machine.Event()
    end = calls.watch(call.id, answered.set)
    try:
        calls.give(call)
        until = machine.monotonic() + timeout_s
        while True:
            answered.clear()  # before the look: an answer that comes after it sets it again
            answers = list(calls.answers(call.id))
            left_s = until - machine.monotonic()
            if left_s <= 0 or {answer.identity for answer in answers} >= set(asked):
                return sorted(answers, key=lambda answer: answer.identity)
            answered.wait(min(left_s, LOOK_EVERY_S))
    finally:
        end()
