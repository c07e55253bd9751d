"""How the distribution is named, shown and published. `bin/dist` builds it and runs it."""

from __future__ import annotations

import configparser
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from goworkers_py import __version__

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
METADATA = configparser.RawConfigParser()
METADATA.read(ROOT / "setup.cfg", "utf-8")
HOME = METADATA["metadata"]["url"]


def described(root: Path) -> str:
    description: str = runpy.run_path(str(root / "setup.py"))["long_description"]()
    return description


def test_links_and_pictures_of_the_long_description_are_absolute(tmp_path: Path) -> None:
    for name in ("setup.py", "setup.cfg", "goworkers_py/core/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text(
        "[a](docs/a.md#b) [c](https://c/d.png) [![e](docs/e.png)](docs/f.md 'title') [g](#g) [h](mailto:h)\n"
        '<img src="i.svg" alt="i"> <a href="j.md">k</a> <source srcset="l.png">\n`m[0](n)`\n```python\no[0](p)\n```\n'
    )
    blob, raw = f"{HOME}/blob/v{__version__}", f"{HOME}/raw/v{__version__}"
    assert described(tmp_path) == (
        f"[a]({blob}/docs/a.md#b) [c](https://c/d.png) [![e]({raw}/docs/e.png)]({blob}/docs/f.md 'title') "
        f"[g]({blob}/README.md#g) [h](mailto:h)\n"
        f'<img src="{raw}/i.svg" alt="i"> <a href="{blob}/j.md">k</a> <source srcset="{raw}/l.png">\n'
        "`m[0](n)`\n```python\no[0](p)\n```\n"
    )


def test_the_readme_has_no_link_that_leads_nowhere_on_an_index() -> None:
    targets = re.findall(r"\]\(([^)\s]+)|\b(?:href|src|srcset)=\"([^\"]+)", described(ROOT))
    assert len(targets) > 5
    assert [one for one in targets if not "".join(one).startswith("https://")] == []


def test_the_metadata_names_the_licence_and_the_home() -> None:
    metadata, options = METADATA["metadata"], METADATA["options"]
    assert metadata["license_expression"] == "MIT"
    assert "license" not in metadata, "license_expression has replaced it"
    assert "License ::" not in metadata["classifiers"], "license_expression has replaced them"
    urls = dict(line.split(" = ") for line in metadata["project_urls"].strip().splitlines())
    assert {*urls} == {"Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith(HOME) for url in urls.values())
    assert f"({HOME}/security/advisories/new)" in (ROOT / "SECURITY.md").read_text("utf-8")
    oldest = options["python_requires"].removeprefix(">=")
    assert f"Python :: {oldest}\n" in metadata["classifiers"]


def read_everywhere() -> list[str]:
    """The lines of all files that may tell somebody what to install."""
    files = [*ROOT.glob("*.md"), *(path for path in (ROOT / "conf").rglob("*") if path.is_file())]
    for folder, name in (("docs", "*.md"), ("examples", "*.md"), ("goworkers_py", "*.py")):
        files += (ROOT / folder).rglob(name)
    return [line for path in files for line in path.read_text("utf-8").splitlines()]


def test_every_extra_that_somebody_is_told_to_install_exists() -> None:
    extras = {extra for line in read_everywhere() for extra in re.findall(r"goworkers-py\[([^]]+)\]", line)}
    named = {name for extra in extras for name in extra.split(",")}
    assert {"embedded", "web", "rabbitmq", "cron", "msgpack", "protobuf"} <= named
    assert named <= {*METADATA["options.extras_require"]}


def test_nobody_is_told_to_install_the_strangers_program_that_has_the_commands_name() -> None:
    strangers = re.compile(r"\b(pip install|uvx|uv add|pipx install) pyworkers\b")
    lines = [line for line in read_everywhere() if strangers.search(line)]
    assert lines, "README warns of it"
    assert [line for line in lines if not re.search("stranger|somebody else", line)] == []


def test_the_pages_install_by_name_and_not_from_a_path_that_a_reader_lacks() -> None:
    lines = [line for line in read_everywhere() if re.search(r"pip (install|wheel)\b.*/goworkers[-_]py", line)]
    assert [line for line in lines if "Until 0.9.0 is on the package index" not in line] == []


def workflow(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return read


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_takes_each_action_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text("utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_of_a_workflow_may_read_the_code_or_publish_but_not_both(path: Path) -> None:
    told = workflow(path)
    assert told["permissions"] == {}, "a job says itself what it may do"
    permissions = {name: job["permissions"] for name, job in told["jobs"].items()}
    assert permissions.pop("publish", {"id-token": "write"}) == {"id-token": "write"}
    assert all(may == {"contents": "read"} for may in permissions.values())


def test_only_a_tag_publishes_and_only_what_was_built_and_tried() -> None:
    release = workflow(ROOT / ".github/workflows/release.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    publish = release["jobs"]["publish"]
    assert (publish["needs"], publish["environment"]) == ("build", "pypi")
    assert [step for step in publish["steps"] if "run" in step] == []
    assert [step["run"] for step in release["jobs"]["build"]["steps"] if "run" in step] == [
        "bin/dist --build", 'test -f "dist/goworkers_py-${GITHUB_REF_NAME#v}.tar.gz"', "bin/dist --first-job python3",
    ]  # fmt: skip


def test_a_step_whose_program_is_missing_says_so() -> None:
    dist = runpy.run_path(str(ROOT / "bin/dist"))
    with pytest.raises(dist["Failed"], match=r"^this is no checkout of git\ncannot run no-git: No such file"):
        dist["output"]("this is no checkout of git", "no-git", "ls-files")
