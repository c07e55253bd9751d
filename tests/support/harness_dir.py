"""The harness of the broker of examples/dir-broker, which a package of its own adds."""

from __future__ import annotations

from pathlib import Path


class DirHarness:
    def __init__(self, folder: Path) -> None:
        self.address = f"dir://{folder}"

    def close(self) -> None:
        """The folder goes with the test."""
