"""Makes a run that fails shorter: the smallest script, with a seed, whose run fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from simulation.faults import CHANCES
from simulation.run import Outcome, Script, simulate
from simulation.traits import KEYS, TRAITS

# A shorter script makes another run of the same seed: the failure may be in that of another one.
SEEDS = 6


def kind_of(complaint: str) -> str:
    """What is wrong, without the job, key or daemon that it concerns: `lost`, `limit crowd`, `batch has two`."""
    words = complaint.partition(":")[0].split()
    return " ".join([word for word in words if word.isalpha() and word not in KEYS][:3])


def shrink(failed: Outcome, tell: Callable[[str], object]) -> Outcome:
    kind, best = kind_of(failed.complaints[0]), failed
    shorter = True
    while shorter:
        shorter = False
        for script in _shorter(best.script):
            if script == best.script:
                continue
            found = _fails(script, kind)
            if found is not None and found.steps < best.steps:
                best, shorter = found, True
                tell(f"{best.steps} steps, {best.jobs} jobs: {best.script.as_json()}")
                break
    return best


def _fails(script: Script, kind: str) -> Outcome | None:
    for seed in (script.seed, *range(1, SEEDS)):
        outcome = simulate(replace(script, seed=seed))
        if any(kind_of(complaint) == kind for complaint in outcome.complaints):
            return outcome
    return None


def _shorter(script: Script) -> Iterator[Script]:
    """Each takes something away, the most first."""
    yield replace(script, days=1)
    yield replace(script, work_s=script.work_s / 2)
    yield replace(script, faults_per_minute=0.0)
    for kinds in _halves(tuple(CHANCES) if script.faults is None else script.faults):
        yield replace(script, faults=kinds)
    yield replace(script, daemons=max(1, script.daemons - 1))
    yield replace(script, producers=1)
    for traits in _halves([trait for trait in TRAITS if trait not in script.barred]):
        yield replace(script, barred=(*script.barred, *traits))
    yield replace(script, preempts=0.0)
    yield replace(script, jobs_per_minute=script.jobs_per_minute / 2)


def _halves(names: Sequence[str]) -> list[tuple[str, ...]]:
    half = len(names) // 2
    return [tuple(names[:half]), tuple(names[half:])] if half else []
