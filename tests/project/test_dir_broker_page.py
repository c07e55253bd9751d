"""docs/internals/writing-a-broker.md shows a whole broker. Its code is that of examples/dir-broker, which runs."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/dir-broker"
PAGE = ROOT / "docs/internals/writing-a-broker.md"


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_the_page_shows_every_line_of_the_broker() -> None:
    section = PAGE.read_text("utf-8").partition("## A whole broker")[2].partition("\n## ")[0]
    shown = "\n".join(re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    assert lines_of(shown) == lines_of((EXAMPLE / "dir_broker.py").read_text("utf-8"))


def test_the_package_of_the_broker_is_installed_as_its_setup_says() -> None:
    [found] = entry_points(group="goworkers_py.brokers", name="dir")
    assert found.value == "dir_broker:DirBroker"
    assert f"{found.name} = {found.value}" in (EXAMPLE / "setup.cfg").read_text("utf-8")


def test_the_class_that_the_page_begins_with_declares_the_parts_that_it_sets() -> None:
    """As the suite asks of a whole broker, see tests/contract/test_broker.py."""
    [shown] = re.findall(r"^class FilesBroker\(Broker\):\n.*?^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    table = re.findall(r"^\| `(\w+)` \| .* \| `([A-Z]+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    declared, parts = set(re.findall(r"Capability\.([A-Z]+)", shown)), set(re.findall(r"self\.(\w+) =", shown))
    assert len(table) > 3
    assert {part for part, capability in table if capability in declared} == parts - {"transport"}
    assert "(Capability)" not in shown
