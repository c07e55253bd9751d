"""The part in the memory broker: no program in Ruby reaches its memory."""

from __future__ import annotations

from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.features.ruby_status.effects import ShowStatus


class StatusesInMemory(MemoryPart):
    def __init__(self) -> None:
        super().__init__()
        self.effects = {ShowStatus: lambda effect: None}
