"""`completion`: the script of each shell, run by that shell where the machine has it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from calls import Call
from daemon import command, environment

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `pyworkers` runs the code under test."""
    program = tmp_path / "pyworkers"
    program.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_printed(shell: str, call: Call) -> None:
    done = call("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_PYWORKERS_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused(call: Call) -> None:
    done = call("completion", "csh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.server
def test_bash_completes_commands_and_options(path: str) -> None:
    """In one bash, as a person asks one after the other: each start of the program takes its time."""
    found = {
        "pyworkers ret": "retries", "pyworkers retries de": "delete", "pyworkers retries --cla": "--class",
        "pyworkers stop --pid": "--pidfile", "pyworkers completion z": "zsh",
    }  # fmt: skip
    script = """
        source <(pyworkers completion bash)
        complete -p pyworkers > /dev/null || exit 3
        while read -ra COMP_WORDS; do
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _pyworkers_completion pyworkers < /dev/null
            echo "${COMP_WORDS[*]}: ${COMPREPLY[*]}"
        done
    """
    done = _run_in("bash", script, path, "\n".join([*found, ""]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{words}: {word}" for words, word in found.items()]


@pytest.mark.server
def test_zsh_accepts_the_script(path: str) -> None:
    script = 'autoload -Uz compinit; compinit -u; eval "$(pyworkers completion zsh)"; which _pyworkers_completion'
    done = _run_in("zsh", script, path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.server
def test_fish_completes_commands(path: str) -> None:
    done = _run_in("fish", "pyworkers completion fish | source; complete -C 'pyworkers ret'", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("retries")


@pytest.mark.server
def test_pyworkers_answers_the_requests_of_the_zsh_and_fish_scripts(path: str) -> None:
    """Sends what the scripts send, so that the test also runs without these shells."""
    for shell, word, line in (("zsh", "1", "retries\n"), ("fish", "ret", "plain,retries\t")):
        asked = {"_PYWORKERS_COMPLETE": f"{shell}_complete", "COMP_WORDS": "pyworkers ret", "COMP_CWORD": word}
        done = subprocess.run(["pyworkers"], env=environment(PATH=path, **asked), capture_output=True, text=True)
        assert line in done.stdout, done.stderr


def _run_in(shell: str, script: str, path: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    """`lines` are its input."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is missing")
    return subprocess.run(
        [shell, "-c", script], env=environment(PATH=path), input=lines, capture_output=True, text=True, timeout=60
    )
