"""The account of a run, for a terminal."""

from __future__ import annotations

from collections import Counter

from bench.torture.run import Result

SHOWN = 10


def account(result: Result) -> str:
    verdict = result.verdict
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(result.faults.items()))
    reasons = Counter(verdict.twice.values())
    held = len(verdict.lost) - result.gone
    early = f"   by {max(verdict.early.values()):.2f} s at most" if verdict.early else ""
    lines = [
        f"\n{result.system} {result.version}, Redis {result.redis}, seed {result.plan['seed']}: {faults or 'no fault'}",
        f"  acknowledged {verdict.acknowledged:>6,}  failed pushes {verdict.unsure:,}, ran {verdict.unsure_that_ran:,}",
        f"  ended        {verdict.ended:>6,}   begun again after a run was cut short: {verdict.begun_again:,}",
        f"  lost         {len(verdict.lost):>6,}   of which Redis holds {held:,} still{_details(result.places)}",
        f"  run twice    {len(verdict.twice):>6,}{_details(reasons)}",
        f"  early        {len(verdict.early):>6,}{early}",
        f"  stuck        {len(verdict.stuck):>6,}" + "".join(f"\n    {text}" for text in verdict.stuck),
        f"  processes that ended by themselves {verdict.ended_by_themselves}, not by TERM {verdict.did_not_stop}",
        *_ids("lost", verdict.lost),
        *_ids("run twice, unexplained", verdict.unexplained),
    ]
    return "\n".join(lines)


def _details(counts: dict[str, int]) -> str:
    return "".join(f"\n    {count:>4,}  {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _ids(what: str, jobs: list[str]) -> list[str]:
    more = f" and {len(jobs) - SHOWN:,} more" if len(jobs) > SHOWN else ""
    return [f"  {what}: {' '.join(jobs[:SHOWN])}{more}"] if jobs else []
