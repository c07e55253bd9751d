"""Writes the page of results, with the reasons for which mutants survive.

`reasons.txt` has them: a file in brackets, then the label of each mutant, and below, indented, the reason. A label has
the text of its line, not its number. A reason whose mutant is gone is an error.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mutation.mutants import FOLDERS, Mutant, files, mutants
from mutation.session import CAUGHT

REASONS = Path(__file__).with_name("reasons.txt")
BEGIN, END = "<!-- results: bin/mutate --page -->", "<!-- end of the results -->"
Key = tuple[str, str]  # file and label


def read_reasons(path: Path = REASONS) -> dict[Key, str]:
    found: dict[Key, str] = {}
    file = label = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            file = line.strip("[]")
        elif line.startswith(" "):
            found[file, label] = f"{found.get((file, label), '')} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            label = line
    return found


def gone(reasons: Mapping[Key, str]) -> list[Key]:
    """The reasons whose mutants the code does not have any more."""
    known = {mutant[:2] for file in files() for mutant in mutants(file)}
    return [key for key in reasons if key not in known]


def write_page(page: Path, results: Sequence[Mapping[str, Any]]) -> int:
    """Writes the results into the page, between two marks. Returns the exit code."""
    reasons, of = read_reasons(), {(one["file"], one["label"]): one for one in results}
    for file, label in gone(reasons):
        print(f"{REASONS.name}: {file} has no such line any more: {label}", file=sys.stderr)
    found = [(mutant, of[mutant[:2]]) for file in files() for mutant in mutants(file) if mutant[:2] in of]
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    written = "\n".join(_written(found, reasons))
    page.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}", "utf-8")
    return 1 if gone(reasons) else 0


def _written(found: Sequence[tuple[Mutant, Mapping[str, Any]]], reasons: Mapping[Key, str]) -> list[str]:
    counts, survivors = defaultdict(Counter), defaultdict(list)
    for mutant, result in found:
        counts[mutant.file][result["verdict"] == CAUGHT] += 1
        if result["verdict"] != CAUGHT:
            survivors[mutant.file].append((mutant, result))
    head = ["| {} | mutants | tried | caught | survivors | of the tried |", "|---|---|---|---|---|---|"]
    lines = [head[0].format("part"), head[1]]
    scripts, others = [[file for file in files() if file.endswith(".lua") is lua] for lua in (True, False)]
    lines.append(_row("files of Lua", scripts, _sum(counts, scripts)))
    for folder in FOLDERS:
        of_folder = [file for file in others if file.rpartition("/")[0] == folder]
        lines.append(_row(f"`{folder}/`", of_folder, _sum(counts, of_folder)))
    lines += ["", "### By file", "", head[0].format("file"), head[1]]
    lines += [_row(f"`{file}`", [file], count) for file, count in counts.items()]
    lines += ["", "## Survivors"]
    for file, several in survivors.items():
        lines += ["", f"### {file}", ""]
        for mutant, result in several:
            ran = f"{result['ran']} tests ran it" if result["ran"] else "no test ran it"
            lines.append(f"- Line {mutant.line}, {mutant.label}: {reasons.get(mutant[:2], f'not judged yet, {ran}.')}")
    return lines


def _sum(counts: Mapping[str, Counter[bool]], of: Sequence[str]) -> Counter[bool]:
    total: Counter[bool] = Counter()
    for file in of:
        total.update(counts.get(file, ()))
    return total


def _row(name: str, of: Sequence[str], count: Counter[bool]) -> str:
    tried, every = sum(count.values()), sum(len(mutants(file)) for file in of)
    caught = f"{count[True] / tried:.1%}".replace("%", " %") if tried else "not tried"
    return f"| {name} | {every} | {tried} | {count[True]} | {count[False]} | {caught} |"
