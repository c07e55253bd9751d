"""`make matrix`: the Pythons that it finds, and its output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Stand-ins: a Python of this version, and a `make` that fails on 3.11.
PYTHON = "#!/bin/sh\necho {}\n"
MAKE = '#!/bin/sh\necho "$@" >>"$CALLS"\ncase "$*" in *.matrix/3.11*) exit 2;; esac\n'


def matrix(tmp_path: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """With pythons 3.9, 3.10 and two of 3.11, one of them pyenv's."""
    for place, version in (
        ("bin/python3.9", "3 9 1"), ("bin/python3.10", "3 10 2"), ("bin/python3.11", "3 11 4"),
        ("pyenv/versions/3.11.9/bin/python", "3 11 9"), ("pyenv/versions/broken/bin/python", "nonsense"),
    ):  # fmt: skip
        _program(tmp_path / place, PYTHON.format(version))
    _program(tmp_path / "bin/make", MAKE)
    environment = {
        "PATH": f"{tmp_path}/bin", "PYENV_ROOT": f"{tmp_path}/pyenv", "CALLS": str(tmp_path / "calls"), **changes,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, ROOT / "bin/matrix", *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_newest_of_each_version_from_3_10_on_is_found(tmp_path: Path) -> None:
    done = matrix(tmp_path, "--list")
    assert done.stdout.split() == [
        "3.10.2", f"{tmp_path}/bin/python3.10", "3.11.9", f"{tmp_path}/pyenv/versions/3.11.9/bin/python",
    ]  # fmt: skip


def test_each_python_has_its_own_environment_and_one_failure_fails_the_matrix(tmp_path: Path) -> None:
    done = matrix(tmp_path, ARGS="-k payload")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["matrix: Python 3.10.2   passed", "matrix: Python 3.11.9   FAILED"]
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"test VENV=.matrix/3.10.2 PYTHON={tmp_path}/bin/python3.10 ARGS=-k payload",
        f"test VENV=.matrix/3.11.9 PYTHON={tmp_path}/pyenv/versions/3.11.9/bin/python ARGS=-k payload",
    ]


def test_a_machine_without_a_python_is_an_error(tmp_path: Path) -> None:
    done = matrix(tmp_path, PATH=str(tmp_path / "empty"), PYENV_ROOT=str(tmp_path / "empty"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "no Python 3.10 or later" in done.stderr
