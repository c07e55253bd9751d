"""What happens to the fleet: kills, pauses, cuts, outages, deploys, clocks that step. Drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.ledger import OUTAGE
from simulation.traits import KEYS

if TYPE_CHECKING:
    from simulation.fleet import Daemon, Fleet, Member

# The chance of each, when something happens.
CHANCES = {
    "kill": 3.0,
    "short pause": 2.0,
    "long pause": 1.5,
    "short cut": 2.0,
    "long cut": 1.5,
    "trouble": 4.0,
    "outage": 1.5,
    "deploy": 2.0,
    "a machine's clock": 1.0,
    "a machine sleeps": 0.5,
    "the server's clock": 0.5,
    "the server's clock, forward": 3.0,
    "the server is full": 0.5,
    "a damaged key": 0.5,
    "a producer is killed": 2.0,
    "killed at a call": 2.0,
    "paused at a call": 2.0,
    "a late call": 6.0,
}
# Of a daemon, whose next one may meet a kill or a pause.
CALLS = (
    "settle", "settle", "consume", "beat", "publish", "begin", "promote", "next", "fire", "flush", "look", "own",
    "leave", "mark_running", "checkpoint", "begin", "take", "end_blocks", "recover",
)  # fmt: skip


class Faults:
    """Acts between two steps of the fleet."""

    def __init__(self, fleet: Fleet, on_producer: Callable[[Member], object], kinds: tuple[str, ...] | None) -> None:
        """`on_producer` is called with each new one."""
        self._on_producer = on_producer
        self._fleet, self._kernel, self._dice = fleet, fleet.kernel, fleet.kernel.random
        self._chances = {
            kind: chance
            for kind, chance in CHANCES.items()
            if (kinds is None or kind in kinds) and kind not in fleet.server.cannot
        }
        self.counts = dict.fromkeys(self._chances, 0)
        self._acts: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "short pause": lambda: self._pause(self._between(0.5, 20)),
            "long pause": lambda: self._pause(self._between(40, 400)),
            "short cut": lambda: self._cut(self._between(0.5, 20)),
            "long cut": lambda: self._cut(self._between(40, 400)),
            "trouble": self._trouble,
            "outage": self._outage,
            "deploy": self._deploy,
            "a machine's clock": self._step_machine,
            "a machine sleeps": self._sleep,
            "the server's clock": self._step_server,
            "the server's clock, forward": lambda: self._fleet.server.step(self._between(60, 7200)),
            "the server is full": self._fill,
            "a damaged key": self._damage,
            "a producer is killed": self._kill_producer,
            "killed at a call": self._kill_at_a_call,
            "paused at a call": self._pause_at_a_call,
            "a late call": self._late_call,
        }

    def strike(self) -> None:
        if not self._fleet.daemons or not self._chances:
            return
        kind = self._dice.choices(list(self._chances), list(self._chances.values()))[0]
        self.counts[kind] += 1
        if self._kernel.trace is not None:
            self._kernel.trace(f"{self._kernel.now:.6f} fault: {kind}")
        self._acts[kind]()

    def _between(self, least: float, most: float) -> float:
        return least * (most / least) ** self._dice.random()

    def _daemon(self) -> Daemon:
        daemons = self._fleet.daemons
        return daemons[int(self._dice.random() * len(daemons))]

    def _member(self) -> Member:
        members = [*self._fleet.daemons, *self._fleet.producers]
        return members[int(self._dice.random() * len(members))]

    def _kill(self) -> None:
        self._fleet.kill(self._daemon())
        self._kernel.after(self._dice.random() * 60, self._fleet.start_one)

    def _kill_at_a_call(self) -> None:
        daemon = self._daemon()

        def strike() -> None:
            self._fleet.kill(daemon)
            self._kernel.after(self._dice.random() * 60, self._fleet.start_one)

        daemon.line.trap = (self._call(), self._dice.random() < 0.5, strike)

    def _pause_at_a_call(self) -> None:
        daemon, seconds = self._daemon(), self._between(40, 400)
        daemon.line.trap = (self._call(), self._dice.random() < 0.5, lambda: self._pause(seconds, daemon))

    def _late_call(self) -> None:
        """The server does it when the process has given it up, and may have done it again."""
        line = self._daemon().line
        line.late = "settle" if self._dice.random() < 0.75 else self._call()

    def _call(self) -> str:
        return CALLS[int(self._dice.random() * len(CALLS))]

    def _deploy(self) -> None:
        daemon = self._daemon()
        daemon.terminate()
        self._kernel.after(self._dice.random() * 30, self._fleet.start_one)
        self._kernel.after(60, lambda: self._fleet.kill(daemon))  # systemd does not wait for ever

    def _during(self, members: list[Member], seconds: float, why: str, begin: Callable[[Member], object],
                end: Callable[[Member], object]) -> None:  # fmt: skip
        for member in members:
            self._fleet.ledger.trouble_begins(member.process, why)
            begin(member)

        def over() -> None:
            for member in members:
                if member.process.alive:
                    end(member)
                    self._fleet.ledger.trouble_ends(member.process, why)

        self._kernel.after(seconds, over)

    def _pause(self, seconds: float, member: Member | None = None) -> None:
        member = member or self._member()
        self._during([member], seconds, "paused", lambda one: one.process.pause(), lambda one: one.process.resume())

    def _sleep(self) -> None:
        member, seconds = self._member(), self._between(10, 400)

        def wake(one: Member) -> None:
            one.process.asleep_s += seconds
            one.process.resume()

        self._during([member], seconds, "asleep", lambda one: one.process.pause(), wake)

    def _cut(self, seconds: float) -> None:
        self._during([self._member()], seconds, "cut off", lambda one: one.line.cut_off(), lambda one: one.line.heal())

    def _trouble(self) -> None:
        chance = self._between(0.02, 0.6)

        def begin(one: Member) -> None:
            one.line.trouble = chance

        self._during([self._member()], self._between(5, 120), "bad line", begin, lambda one: one.line.heal())

    def _outage(self) -> None:
        """For all, also for processes that start meanwhile."""
        everybody = [*self._fleet.daemons, *self._fleet.producers]
        self._fleet.server.is_away = True
        self._kernel.after(seconds := self._between(5, 600), self._fleet.end_outage)
        self._during(everybody, seconds, OUTAGE, lambda one: None, lambda one: None)

    def _fill(self) -> None:
        self._fleet.server.fill(True)
        self._kernel.after(self._between(30, 300), lambda: self._fleet.server.fill(False))

    def _damage(self) -> None:
        key, server = KEYS[int(self._dice.random() * len(KEYS))], self._fleet.server
        if server.damage("wide", key):
            self._kernel.after(self._between(5, 120), lambda: server.repair("wide", key))

    def _kill_producer(self) -> None:
        self._on_producer(self._fleet.replace_producer())

    def _step_machine(self) -> None:
        self._member().process.wall_ahead_s += self._dice.choice((-1, 1)) * self._between(1, 7200)

    def _step_server(self) -> None:
        self._fleet.server.step(self._dice.choice((-1, 1)) * self._between(0.1, 15))
