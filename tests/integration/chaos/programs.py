"""A program with blocks of code under limits as a node, with a network and monkeys of its own, see `block_program`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from chaos.nodes import SHORT, Node

NAME = "blocks"


class BlockProgram(Node):
    def __init__(self, number: int, machine: str, server_port: int, directory: Path, seed: int) -> None:
        super().__init__(number, machine, server_port, directory, seed)
        self.name = f"{NAME}{number}"

    def start(self) -> None:
        constants = json.dumps({"constants": SHORT, "machine": self._machine})
        outage = str(self._directory / "outage")
        self._launch([sys.executable, "-m", "chaos.block_program", constants, self.proxy.url, outage], NAME)
