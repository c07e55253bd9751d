"""A parent with children, see `goworkers_py.system.supervisor`: one node, whose children share its network.

A monkey kills all of them, as the end of a machine does; or the parent alone, and its children stop then; or one child,
which the parent replaces. Each child has an account of its own: the number of its life ends with its pid.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from waiting import eventually

from chaos.monkeys import ProcessMonkey
from chaos.nodes import EXIT_S, Life, Node
from chaos.notes import PIDS, pid_of
from goworkers_py.core import proc

CHILDREN = 2
REFUSED = "the server's access rules do not allow"  # one that begins while a command is denied says so and ends
_DIED = re.compile(r"ERROR: process (\d+) died with (.*)")


class Supervised(Node):
    settings = f"[pyworkers]\nprocesses = {CHILDREN}\n"

    # --- what monkeys do

    def freeze(self) -> None:
        super().freeze()  # first: from here on it starts no child
        self._tell_children(signal.SIGSTOP)

    def thaw(self) -> None:
        self._tell_children(signal.SIGCONT)
        super().thaw()

    def kill(self) -> None:
        super().freeze()
        children = self._children()
        if self.lives:
            self.lives[-1].signalled = time.monotonic()
        self._tell_children(signal.SIGKILL)
        super().kill()
        assert eventually(lambda: not any(map(_lives, children)), EXIT_S)
        if self.lives:
            self.lives[-1].ended = time.monotonic()

    def kill_parent(self) -> None:
        """Its children are to end by themselves then."""
        super().freeze()
        children, asked = self._children(), time.monotonic()
        super().kill()
        if not eventually(lambda: not any(map(_lives, children)), EXIT_S):
            self.lives[-1].how = "did not stop"
            _signal(children, signal.SIGKILL)
        for pid in children:
            self.ends[self._number(pid)] = {
                "how": "stopped", "asked_to_stop": asked, "ended": time.monotonic(), "signalled": math.inf,
            }  # fmt: skip

    def kill_child(self, choose: Callable[[list[int]], int]) -> None:
        """Not before one has run a job: a parent whose first child dies before it is ready ends, and is to do so."""
        if (children := self._children()) and self._has_run():
            pid, asked = choose(children), time.monotonic()
            _signal([pid], signal.SIGKILL)
            eventually(lambda: not _lives(pid), EXIT_S)
            self.ends[self._number(pid)] = {"how": "killed", "ended": time.monotonic(), "signalled": asked}

    def _number(self, pid: int) -> int:
        """Of the life of a child. The pid alone does not name it: after 32,768 processes the pids begin anew."""
        return self.lives[-1].number // PIDS * PIDS + pid

    def _tell_children(self, number: signal.Signals) -> None:
        _signal(self._children(), number)

    def _children(self) -> list[int]:
        if not self.lives_now:
            return []
        children = Path(f"/proc/{self.lives[-1].pid}/task").glob("*/children")
        return [int(pid) for path in children for pid in path.read_text().split()]

    def _has_run(self) -> bool:
        return any(path.stat().st_size for path in self._directory.glob(f"runs-{self.lives[-1].number // PIDS}???????"))

    # --- the account

    def working(self) -> list[int]:
        return self._children()

    def workers(self, numbers: Iterable[int]) -> Iterator[Life]:
        """The lives of the children, of which some file tells. The others have run nothing."""
        parents = {life.number // PIDS: life for life in self.lives}
        for number in numbers:
            parent = parents.get(number // PIDS)
            if parent is not None and number != parent.number:
                end = self.ends.get(number, {})
                yield dataclasses.replace(parent, number=number, pid=pid_of(number), **end)

    def complaints(self, workers: Mapping[int, Life]) -> Iterator[str]:
        """Children that have died, by no monkey and by no job. `workers`: by their numbers."""
        for path in self._directory.glob(f"log-*-{self.name}"):
            for pid, ending in _DIED.findall(path.read_text("utf-8", "replace")):
                number = int(path.name.split("-")[1]) * PIDS + int(pid)
                life = workers.get(number)
                if ending == "SIGKILL" and life is not None and life.how not in ("lives", "stopped"):
                    continue
                if number not in self.ends and not ending.startswith(REFUSED):
                    yield f"{path.name}: process {pid} died with {ending}"


class ParentMonkey(ProcessMonkey):
    tricks = {  # noqa: RUF012
        "kill": 3, "kill_parent": 2, "kill_child": 4, "freeze_shortly": 3, "freeze_for_long": 2, "restart": 2,
    }  # fmt: skip
    node: Supervised

    def kill_parent(self) -> None:
        with self.chronicle.note("kill -9 of a parent", self.node.name):
            self.node.kill_parent()
        self.revive()

    def kill_child(self) -> None:
        with self.chronicle.note("kill -9 of a child", self.node.name):
            self.node.kill_child(self.random.choice)


def _lives(pid: int) -> bool:
    stat = proc.name_and_stat(pid)
    return stat is not None and stat[1][0] not in "ZX"


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
