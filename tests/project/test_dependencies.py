"""What setup.cfg asks of other packages."""

from __future__ import annotations

import configparser
import re
from importlib import metadata
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "setup.cfg"


def required() -> dict[str, str]:
    """The bounds of each package that users get, by its name."""
    setup = configparser.ConfigParser()
    setup.read(SETUP, "utf-8")
    extras = [text for name, text in setup["options.extras_require"].items() if name != "dev"]
    lines = "\n".join([setup["options"]["install_requires"], *extras]).split()
    found = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?(.*)", line) for line in lines]
    return {one[1]: one[2] for one in found if one is not None}


def ships_machine_code(name: str) -> bool:
    return any(re.search(r"\.so$|/bin/[^.]+$", str(file)) for file in metadata.files(name) or ())


def test_a_package_that_ships_machine_code_has_an_upper_bound() -> None:
    wanted = required()
    assert {"simplejson", "click", "cronsim", "jinja2"} <= {*wanted}
    installed = {one.metadata["Name"].lower() for one in metadata.distributions()}
    binary = {name for name in wanted if name in installed and ships_machine_code(name)}
    assert {"hiredis", "simplejson", "markupsafe"} <= binary
    assert [name for name in sorted(binary) if "<" not in wanted[name]] == []
