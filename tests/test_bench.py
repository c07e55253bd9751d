"""bin/bench works: a small run prints a table whose figures make a page with pictures. What they say is no matter."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bin/bench"
OURS = "goworkers-py"


def bench(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH, *words], capture_output=True, text=True, timeout=50)


def test_quick_run_without_peers_prints_a_table_and_its_figures_make_a_page(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = bench("--quick", "--systems", f"{OURS},transport", "--jobs", "400", "--rounds", "1", "--json", figures)
    assert done.returncode == 0, done.stderr
    title, head, ours, transport = done.stdout.strip().splitlines()
    assert title == "drain: no-op jobs, 10 threads"
    assert head.split() == ["jobs/s", "min..max", "ratio", "bar"]
    assert ours.split()[0] == OURS
    assert transport.split()[0] == "transport"
    assert transport.split()[-1] in ("pass", "FAIL")

    done = bench("--from", figures, "--docs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"| {OURS} |" in (tmp_path / "benchmarks.md").read_text("utf-8")
    ElementTree.parse(tmp_path / "bench-throughput.svg")
    rows = json.loads(figures.read_text("utf-8"))["tables"][0]["rows"]
    assert [row["label"] for row in rows] == [OURS, "transport"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--only", "drian"), "no 'drian': there are drain, "),
        (("--systems", "sidekick"), "no 'sidekick': there are goworkers-py, "),
        (("--rounds", "0"), "must be a number from 1 on"),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_one_line(words: tuple[str, str], complaint: str) -> None:
    done = bench(*words)
    assert done.returncode == 2
    assert complaint in done.stderr.splitlines()[-1]
