"""The one loop that steps every thread of every simulated process, under a clock of its own and from a seed.

A thread of the fleet is a greenlet here: it runs until it waits, or calls a server, and only then another one may step.
The seed chooses who steps next. Where nobody can step, the clock goes on to the next time that somebody waits for. So
a run of hours takes seconds, and the same seed makes the same run on every machine.

`Process` is what can be killed, paused and cut off: some threads, and a machine with its own clocks.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import struct
import zlib
from collections.abc import Callable

from greenlet import getcurrent, greenlet

# Each step takes this long, so that a loop that never waits cannot hold the clock still.
STEP_S = 1e-5
# A thread that looks again and again, and waits for nothing, lets others step after so many looks.
MOST_TOUCHED = 1000


class Killed(BaseException):
    """The process is dead: its threads unwind, and whatever they still call raises this again."""


class Process:
    """Threads that live and die together, on a machine with clocks of its own."""

    def __init__(self, kernel: Kernel, name: str, wall_ahead_s: float = 0.0) -> None:
        self.kernel = kernel
        self.name = name
        kernel.processes.append(self)
        self.pid = len(kernel.processes)
        self.alive = True
        self.paused = False
        self.wall_ahead_s = wall_ahead_s  # of the true time; people and NTP change it
        self.asleep_s = 0.0  # how long the machine was suspended: its monotonic clock stood still
        self.tasks: dict[int, Task] = {}
        self.at_death: list[Callable[[], object]] = []
        self.held: list[Task] = []  # could step, but the process is paused

    def __repr__(self) -> str:
        return self.name

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self.held = self.held, []
        for task in held:
            self.kernel.may_step(task)

    def kill(self) -> None:
        """By the kernel itself, between two steps. No code of the process has any effect from here on."""
        self.alive = False
        self.held.clear()
        for task in list(self.tasks.values()):
            task.unwind()
        self.tasks.clear()
        for end in self.at_death:
            end()
        self.at_death.clear()


class Task:
    """One thread of a process."""

    def __init__(self, process: Process, name: str, code: Callable[[], object]) -> None:
        self.process = process
        self.kernel = process.kernel
        self.name = name
        self.ident = next(self.kernel.idents)
        self.waits = False
        self.turn = 0  # counts the waits: a timer of an earlier one does nothing
        self.woken = False  # the last wait ended because somebody woke the thread, not by its time
        self.thrown: type[BaseException] | None = None
        self.ended = False
        self._code = code
        self._greenlet = greenlet(self._run, self.kernel.hub)
        process.tasks[self.ident] = self

    def __repr__(self) -> str:
        return f"{self.process.name}/{self.name}"

    def step(self) -> None:
        self._greenlet.switch()

    def unwind(self) -> None:
        self.ended = True
        if self._greenlet:  # it has begun
            before, self.kernel.current = self.kernel.current, self
            try:
                self._greenlet.throw(Killed)
            finally:
                self.kernel.current = before

    def _run(self) -> None:
        try:
            self._code()
        except Killed:
            pass
        except BaseException as error:
            self.kernel.failures.append(f"thread {self} died: {error!r}")
        finally:
            self.ended = True
            self.process.tasks.pop(self.ident, None)


class Kernel:
    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.now = 0.0  # true seconds since the begin of the run
        self.steps = 0
        self.hub = getcurrent()
        self.idents = itertools.count(1)
        self.processes: list[Process] = []  # by their pids, which begin with 1
        self.failures: list[str] = []
        self.checksum = 0  # of all steps: two runs with the same checksum made the same steps at the same times
        self.trace: Callable[[str], object] | None = None  # gets a line for each step, and for whatever it asks
        self.current: Task | None = None
        self.preempts = 0.0  # the chance that another thread steps where this one touches what threads share
        self._touched = 0  # since the current thread began its step
        self.serving = False  # the current thread does a step of the server, which is whole
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._orders = itertools.count()

    # --- the loop

    def run(self, until: Callable[[], bool], within_s: float) -> bool:
        """In the thread of the test. Steps the others until the condition holds, which is asked now and then, or the
        time is over. Returns whether the condition holds."""
        end = self.now + within_s
        for turn in itertools.count():
            if turn % 64 == 0 and until():
                return True
            if self._nothing_before(end):
                if until():
                    return True
                if self._nothing_before(end):  # the condition may have started a process
                    self.now = end
            if self.now >= end:
                return until()
            self._advance()
            if (task := self._pick()) is not None:
                self._step(task)
        raise AssertionError

    def _step(self, task: Task) -> None:
        self.steps += 1
        self.now += STEP_S
        self.checksum = zlib.crc32(struct.pack("<dI", self.now, task.ident), self.checksum)
        if self.trace is not None:
            self.trace(f"{self.now:.6f} {task}")
        self.current, self._touched = task, 0
        task.step()
        self.current = None

    def _nothing_before(self, end: float) -> bool:
        return not self._ready and self._next_time() > end

    def _next_time(self) -> float:
        return self._timers[0][0] if self._timers else math.inf

    def _advance(self) -> None:
        """Does what is due. With nobody to step, the clock goes on to what is due next."""
        timers = self._timers
        if not self._ready:
            self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            heapq.heappop(timers)[2]()

    def _pick(self) -> Task | None:
        ready = self._ready
        if not ready:
            return None
        place = int(self.random.random() * len(ready)) if len(ready) > 1 else 0
        task, ready[place] = ready[place], ready[-1]
        ready.pop()
        if task.ended or not task.process.alive:
            return None
        if task.process.paused:
            task.process.held.append(task)
            return None
        return task

    def at(self, time: float, act: Callable[[], object]) -> None:
        """Calls `act` at that time, between two steps: it must not wait."""
        heapq.heappush(self._timers, (time, next(self._orders), act))

    def after(self, seconds: float, act: Callable[[], object]) -> None:
        self.at(self.now + seconds, act)

    # --- called by the threads

    def spawn(self, process: Process, name: str, code: Callable[[], object]) -> Task:
        task = Task(process, name, code)
        self.may_step(task)
        return task

    def may_step(self, task: Task) -> None:
        self._ready.append(task)

    def wait(self, seconds: float = math.inf) -> bool:
        """Lets others step until somebody wakes this thread: True; or until the time is over: False."""
        task = self._self()
        task.turn += 1
        turn, task.waits, task.woken = task.turn, True, False
        if seconds < math.inf:

            def over() -> None:
                if task.waits and task.turn == turn:
                    task.waits = False
                    self.may_step(task)

            self.after(max(0.0, seconds), over)
        self._let_others(task)
        return task.woken

    def wake(self, task: Task) -> None:
        if task.waits:
            task.waits, task.woken = False, True
            self.may_step(task)

    def let_step(self) -> None:
        """Lets others step, if the seed will have it so, before this thread goes on."""
        task = self._self()
        self.may_step(task)
        self._let_others(task)

    def touch(self) -> None:
        """This thread is at something that it shares with others of its process."""
        task = self.current
        if task is None:
            return
        if not task.process.alive:
            raise Killed
        if self.serving:
            return
        self._touched += 1
        if self._touched > MOST_TOUCHED or (self.preempts and self.random.random() < self.preempts):
            self.let_step()

    def land(self) -> None:
        """What was thrown into this thread arrives here at the latest."""
        task = self.current
        if task is not None and task.thrown is not None:
            error, task.thrown = task.thrown, None
            raise error

    def _let_others(self, task: Task) -> None:
        serving, self.serving = self.serving, False  # a consume that waits for a job
        self.hub.switch()
        self.serving = serving
        if not task.process.alive:
            raise Killed
        self.land()

    def _self(self) -> Task:
        task = self.current
        if task is None:
            raise RuntimeError("only a thread of the simulation can wait")
        if not task.process.alive:
            raise Killed
        return task
