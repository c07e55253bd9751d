"""Runs the models of tests/model with spin. `make model` runs this file, which prints a table and the trails.

spin writes a program that goes through all orders of all steps of a model. It is compiled without optimization, which
would take longer than the program runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "model"
MODELS = "jobs", "lease", "limit"
# These names in the models are sizes, all others are mends.
SIZES = {"FAULTS", "REQUEUES", "TICKS", "MORE", "BOTH_FAIL"}
# For `make model`, which takes minutes.
LARGER = ("jobs", "MORE"), ("jobs", "FAULTS=2"), ("lease", "TICKS=12"), ("limit", "MORE", "FAULTS=2")
# Every run of these ends: a run that does not would come back to a state that it had before.
ENDING = ("jobs", "REQUEUES=0"), ("limit",)

_SEARCH = "-DSAFETY", "-DNOFAIR", "-DNOREDUCE", "-DXUSAFE"  # steps that touch what others touch cannot be reduced
_MOST_STEPS = 100_000
_STATES = re.compile(r"^ *([0-9]+) states, stored", re.MULTILINE)
_UNREACHED = re.compile(r'^\t\S+/(\w+\.pml):([0-9]+), state [0-9]+, "(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class Found:
    states: int
    wrong: str  # what the judge of the model says; empty where nothing is wrong
    trail: Sequence[str]  # the steps that led there
    unreached: Sequence[str]  # the lines that no run of the model comes to, each with its file
    seconds: float


def lacking() -> str:
    """Why the models cannot run here; empty when they can."""
    missing = [program for program in ("spin", "cc") if shutil.which(program) is None]
    return f"no {' and no '.join(missing)} on PATH: apt-get install spin build-essential" if missing else ""


def mends(model: str) -> list[str]:
    """The names that take a mend out of this model."""
    text = (FOLDER / f"{model}.pml").read_text("utf-8")
    names = re.findall(r"^#(?:ifdef|ifndef|if defined|elif defined)\W+(\w+)", text, re.MULTILINE)
    return [name for name in dict.fromkeys(names) if name not in SIZES]


def explore(model: str, *defined: str) -> Found:
    """Goes through all states of the model."""
    # With each step an `atomic` in place of a `d_step`, spin notes which lines were reached.
    return _run(model, ("d_step=atomic", *defined), _SEARCH)


def violate(model: str, *defined: str) -> Found:
    """Looks for the shortest way to something wrong."""
    return _run(model, defined, (*_SEARCH, "-DBFS"))


def end(model: str, *defined: str) -> Found:
    """Looks for a run that never ends."""
    return _run(model, defined, ("-DNP", "-DNOFAIR", "-DXUSAFE"), ["-l"])


def explore_larger(model: str, *defined: str) -> Found:
    return _run(model, defined, (*_SEARCH, "-O2", "-DCOLLAPSE", "-DMEMLIM=8000"), ["-w26"])


def _run(model: str, defined: Iterable[str], compiled: Iterable[str], given: Iterable[str] = ()) -> Found:
    began, source = time.monotonic(), FOLDER / f"{model}.pml"
    names = [f"-D{name}" for name in defined]
    with tempfile.TemporaryDirectory() as folder:

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")
            return done.stdout

        run("spin", "-a", *names, str(source))
        run("cc", "-w", *compiled, "-o", "pan", "pan.c")
        told = run("./pan", f"-m{_MOST_STEPS}", *given)
        states = _STATES.search(told)
        if states is None or ("errors: 0" in told and _is_partial(told)):
            raise RuntimeError(f"the search is not complete: {told}")
        trails = [*Path(folder).glob("*.trail")]
        steps = run("spin", "-k", trails[0].name, "-T", "-B", "-t", *names, str(source)) if trails else ""
    trail = [line for line in steps.splitlines() if line and not line.startswith(("spin:", "#", "----", "\t"))]
    wrong = [line.removeprefix("WRONG: ") for line in trail if line.startswith("WRONG: ")]
    if trails and not wrong:
        wrong = [next(line for line in told.splitlines() if line.startswith("pan:1:"))]
    return Found(int(states[1]), wrong[0] if wrong else "", trail, _unreached(told), time.monotonic() - began)


def _is_partial(told: str) -> bool:
    return any(words in told for words in ("not completed", "too small", "out of memory", "memory bound"))


def _unreached(told: str) -> list[str]:
    """Without what a judge says, which is not to be reached, and the ends of processes, which have none."""
    lines = []
    for file, number, step in _UNREACHED.findall(told):
        line = (FOLDER / file).read_text("utf-8").splitlines()[int(number) - 1].strip()
        if step != "-end-" and "WRONG(" not in line:
            lines.append(f"{file}: {line}")
    return lines


def _show(what: str, model: str, defined: Sequence[str], found: Found, right: bool) -> bool:
    result = found.wrong or "nothing wrong"
    print(
        f"{'' if right else 'FAILED  '}{model:6} {what:28} {found.states:10,} states {found.seconds:6.1f} s  {result}"
    )
    if found.wrong:
        print("".join(f"        {line}\n" for line in found.trail))
    sys.stdout.flush()
    return right


def main() -> int:
    if reason := lacking():
        print(reason, file=sys.stderr)
        return 1
    right = []
    for model in MODELS:
        found = explore(model)
        right.append(_show("as it is", model, (), found, not found.wrong))
        for mend in mends(model):
            found = violate(model, mend)
            right.append(_show(f"without {mend}", model, (mend,), found, bool(found.wrong)))
    for model, *defined in ENDING:
        found = end(model, *defined)
        right.append(_show(" ".join(["every run ends", *defined]), model, defined, found, not found.wrong))
    for model, *defined in LARGER:
        found = explore_larger(model, *defined)
        right.append(_show(" ".join(["larger", *defined]), model, defined, found, not found.wrong))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
