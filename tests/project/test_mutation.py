"""bin/mutate finds what it should break, breaks it, and tests notice that."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from mutation.mutants import PACKAGE, READS, files, mutants
from mutation.report import gone, read_reasons

ROOT = PACKAGE.parent
SCRIPTS = [file for file in files() if file.endswith(".lua")]
WORD = re.compile(r"redis\.p?call\(\s*'?(\w*)")


def _calls(file: str) -> list[str]:
    """The command of each call in a script; empty or a variable where the script chooses it."""
    lines = (PACKAGE / file).read_text("utf-8").splitlines()
    return [command for line in lines if not line.lstrip().startswith("--") for command in WORD.findall(line)]


def test_every_call_of_every_script_that_may_write_is_a_mutant(redis: redis_py.Redis) -> None:
    """Counted independently: the server says which commands write."""
    called = {command for file in SCRIPTS for command in _calls(file) if command.isupper()}
    known: dict[str, Any] = redis.command()
    reads = {name for name in called if {"write", "pubsub"}.isdisjoint(known[name.lower()]["flags"])}
    assert reads == READS
    for file in SCRIPTS:
        assert len(mutants(file)) == len([command for command in _calls(file) if command not in reads]), file
    assert sum(len(mutants(file)) for file in SCRIPTS) > 300


def test_each_branch_is_a_mutant_and_labels_are_unique() -> None:
    labels = [mutant.label for mutant in mutants("policy/deaths.py")]
    assert len(labels) == len(set(labels)) > 0
    text = (PACKAGE / "policy/deaths.py").read_text("utf-8")
    assert len(labels) >= len(re.findall(r"^\s+(?:if|elif|while) |\bif\b.+\belse\b", text, re.MULTILINE))


def test_a_reason_whose_line_is_gone_is_an_error(tmp_path: Path) -> None:
    """If this fails: tests/support/mutation/reasons.txt has a reason for code that was changed. Judge it again."""
    assert gone(read_reasons()) == []
    first = mutants("policy/deaths.py")[0]
    (tmp_path / "reasons").write_text(f"[{first.file}]\n{first.label}\n  why\n  not\nanother\n  gone\n")
    reasons = read_reasons(tmp_path / "reasons")
    assert reasons[first.file, first.label] == "why not"
    assert gone(reasons) == [(first.file, "another")]


@pytest.mark.server
@pytest.mark.timeout(300)  # it starts a session of pytest, which takes two seconds of a processor
@pytest.mark.parametrize(
    ("file", "label", "tests"),
    [
        ("policy/prefetch.py", "self._fixed is not None", "tests/policy/test_prefetch.py"),
        ("features/tracking/lua/forget_ended.lua", "ZREM", "tests/features/tracking/test_redis_ended.py"),
    ],
)
def test_a_mutant_is_caught(server_program: str, tmp_path: Path, file: str, label: str, tests: str) -> None:
    words = [sys.executable, ROOT / "bin/mutate", "--results", tmp_path / "results", "--only", file, "--sample", "1"]
    words += ["--label", label, "--tests", tests]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    said = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=250)
    assert said.returncode == 0, said.stderr
    [result] = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert (result["file"], result["verdict"]) == (file, "caught")
    assert result["test"].startswith(tests)
