"""The two releases: the former one from the repository's history, and today's tree."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servers import do_without

FOLDER = Path(__file__).resolve().parents[1]
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Release:
    version: str
    tree: Path
    speaks: frozenset[str] = frozenset()  # the features that its workers know

    @property
    def is_today(self) -> bool:
        return self.tree == ROOT

    def environment(self, **changes: str) -> dict[str, str]:
        """Of a Python that imports this release's package, and today's tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYWORKERS_")}
        if not self.is_today:
            # The former release is not what is measured.
            kept = {name: value for name, value in kept.items() if not name.startswith("COVERAGE_")}
        return {**kept, "PYTHONPATH": os.pathsep.join([str(self.tree), str(FOLDER)]), **changes}


def today() -> Release:
    return _checked(ROOT, "")


def former(directory: Path) -> Release:
    """Skips the test where there is no history, and fails in CI."""
    version, commit = (FOLDER / "upgrade" / "FORMER").read_text().split()
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True).returncode:
        do_without(f"the former release is commit {commit}, which is not in the history of this copy: fetch all of it")
    packed = subprocess.run(["git", "archive", commit, "goworkers_py"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", directory], input=packed.stdout, check=True)
    return _checked(directory, version)


def _checked(tree: Path, version: str) -> Release:
    """A process must import the package of its own release and no other."""
    release = Release(version, tree)
    code = (
        "import goworkers_py as workers\n"
        "try: import goworkers_py.policy.known_needs as needs\n"
        "except ImportError: import goworkers_py.wire.needs as needs\n"  # until 0.4.0
        "print(workers.__version__, workers.__file__, *needs.SPEAKS, sep='\\n')"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=release.environment(), capture_output=True, text=True, check=True
    )
    found, file, *speaks = told.stdout.splitlines()
    assert file.startswith(str(tree)), f"{tree} was to be imported, and {file} was"
    assert version in ("", found)
    return Release(found, tree, frozenset(speaks))
