"""The part in the memory broker: no program in Ruby reaches its memory, so nobody holds a lock there."""

from __future__ import annotations

from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.lock import RubyLock


class MemoryRubyLocks(RubyLocks):
    def begin(self, lock: RubyLock) -> bool:
        return True


class RubyLocksInMemory(MemoryPart):
    def __init__(self) -> None:
        super().__init__()
        self.effects = dict.fromkeys((FreeRubyLock, TakeRubyLock), lambda effect: None)
