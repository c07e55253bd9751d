"""Type checkers on the code of users: they accept what is right, and find each mistake in its line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USER_CODE = Path(__file__).with_name("user_code")
RIGHT, WRONG = "right.py", "wrong.py"

Found = dict[str, set[int]]  # the lines with an error in each file
Checker = Callable[[Path], Found]


def mypy(folder: Path) -> Found:
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "--no-error-summary",
            f"--cache-dir={ROOT / '.mypy_cache/user_code'}", RIGHT, WRONG,
        ],
        env={**os.environ, "MYPYPATH": str(ROOT)}, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = re.findall(r"^(.+?):(\d+): error:", done.stdout, re.MULTILINE)
    return _by_file([(path, int(line)) for path, line in lines])


def pyright(folder: Path) -> Found:
    program = shutil.which("pyright", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("pyright is not installed: pip install pyright")
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [program, "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)],
        capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 2
    errors = (one for one in told["generalDiagnostics"] if one["severity"] == "error")
    return _by_file([(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors])


def _by_file(errors: list[tuple[str, int]]) -> Found:
    return {file: {line for name, line in errors if name == file} for file in (RIGHT, WRONG)}


@pytest.mark.timeout(300)  # the checker reads the whole package
@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_finds_each_mistake_in_a_push_and_no_other(check: Checker, tmp_path: Path) -> None:
    shutil.copytree(USER_CODE, tmp_path, dirs_exist_ok=True)
    lines = (USER_CODE / WRONG).read_text("utf-8").splitlines()
    mistakes = {number for number, line in enumerate(lines, 1) if "# wrong: " in line}
    assert len(mistakes) > 15
    assert check(tmp_path) == {RIGHT: set(), WRONG: mistakes}
