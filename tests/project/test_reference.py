"""What is generated from the program is as the program is now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from reference import api, pages  # noqa: E402
from reference.markdown import Missing  # noqa: E402


def test_the_reference_is_up_to_date() -> None:
    old = [path for path, text in pages.generated(ROOT).items() if (ROOT / path).read_text("utf-8") != text]
    assert old == [], "run: make reference"


def test_commands_still_know_the_short_help_option_after_the_reference_was_generated() -> None:
    code = "commands.page(); main(['run', '-h'])"
    imports = "from reference import commands; from goworkers_py.cli.pyworkers import main"
    done = subprocess.run([sys.executable, "-c", f"{imports}; {code}"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_public_name_without_a_docstring_is_an_error() -> None:
    def bare() -> None: ...

    with pytest.raises(Missing, match=r"workers\.bare has no docstring"):
        "".join(api._name("workers.bare", bare))
