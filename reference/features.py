"""Writes the modules that name the classes of all features one by one, because type checkers cannot follow the loop
over `FEATURES`. It reads the entries as text: the package imports these modules, and cannot be imported while one of
them names a class that is gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reference.markdown import Missing

LONGEST_LINE = 120

_OPTIONS = '''\
"""The options of jobs that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


{options}
    """Options that `@job`, `set()` and a push accept."""


{options_of_code}
    """Options that only `@job` accepts."""


{options_of_push}
    """Options that only `set()` and a push accept."""
'''

_VERBS = '''\
"""The verbs of the inspector that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


{verbs}
    pass
'''

_JOB_PARTS = '''\
"""What features add to a job. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


class FeatureJob({parts}):
    pass
'''

_MESSAGE_PARTS = '''\
"""What features add to a message. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


{parts}
    __slots__ = ()
'''

_QUEUE_OPTIONS = '''\
"""The options of queues that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


class FeatureQueueOptions({options}):
    __slots__ = ()
'''

_FIGURES = '''\
"""The figures of the fleet that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


{figures}
    pass
'''


def modules(root: Path) -> Mapping[str, str]:
    """By their paths."""
    folder = root / "goworkers_py/features"
    options, of_code, of_push, verbs, parts, of_job, of_queues = (
        [*_named(folder, member, file)]
        for member, file in (
            ("options", "job_options"), ("options_of_code", "job_options"), ("options_of_push", "job_options"),
            ("verbs", "admin"), ("message", "message"), ("job", "job"),
            ("queue_options", "options"),
        )
    )  # fmt: skip
    figures = [*_figures(folder)]
    return {
        "goworkers_py/features/figures.py": _FIGURES.format(
            imports="\n".join(_imports(file, [(feature, name)]) for feature, file, name in sorted(figures)),
            figures=_class("FeatureFigures", [(feature, name) for feature, _, name in figures]),
        ),
        "goworkers_py/features/job_options.py": _OPTIONS.format(
            imports=_imports("job_options", [*options, *of_code, *of_push]),
            options=_class("FeatureOptions", options, "total=False"),
            options_of_code=_class("FeatureOptionsOfCode", of_code, "total=False"),
            options_of_push=_class("FeatureOptionsOfPush", of_push, "total=False"),
        ),
        "goworkers_py/features/verbs.py": _VERBS.format(
            imports=_imports("admin", verbs), verbs=_class("FeatureVerbs", verbs)
        ),
        "goworkers_py/features/message_parts.py": _MESSAGE_PARTS.format(
            imports=_imports("message", parts), parts=_class("FeatureMessage", parts)
        ),
        "goworkers_py/features/job_parts.py": _JOB_PARTS.format(
            imports=_imports("job", of_job), parts=", ".join(name for _, name in of_job)
        ),
        "goworkers_py/features/queue_options.py": _QUEUE_OPTIONS.format(
            imports=_imports("options", of_queues), options=", ".join(name for _, name in of_queues)
        ),
    }


def _named(folder: Path, member: str, file: str) -> Iterator[tuple[str, str]]:
    """Each feature whose entry names a class by this member, with the class, which must be in the file."""
    names: Sequence[str] = _assigned(_parsed(folder / "__init__.py").body, "NAMES")
    for feature in names:
        entry, path = folder / feature / "__init__.py", folder / feature / f"{file}.py"
        for node in _parsed(entry).body:
            named = _assigned(node.body, member) if isinstance(node, ast.ClassDef) else None
            if named is None:
                continue
            classes = [one.name for one in _parsed(path).body if isinstance(one, ast.ClassDef)]
            if named not in classes:
                raise Missing(
                    f"features/{feature}/__init__.py: `{member}` names {named}, which {file}.py does not have"
                )
            yield feature, named


def _figures(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Each feature with a class whose name ends with Figures, with the file and that class: fields of `Stats`."""
    names: Sequence[str] = _assigned(_parsed(folder / "__init__.py").body, "NAMES")
    for feature in names:
        for path in sorted((folder / feature).glob("*.py")):
            for node in _parsed(path).body:
                if isinstance(node, ast.ClassDef) and node.name.endswith("Figures"):
                    yield feature, path.stem, node.name


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text("utf-8"))
    except FileNotFoundError:
        name = path.relative_to(path.parents[3])
        raise Missing(f"there is no {name}: see NAMES in goworkers_py/features/__init__.py") from None


def _assigned(body: Sequence[ast.stmt], member: str) -> Any:
    """The value that is assigned to this name; None where there is none."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == member:
                return ast.literal_eval(node.value)
    return None


def _class(name: str, bases: Sequence[tuple[str, str]], *more: str) -> str:
    """The head of a class, as ruff formats it."""
    arguments = [*(base for _, base in bases), *more]
    line = f"class {name}({', '.join(arguments)}):"
    if len(line) <= LONGEST_LINE:
        return line
    return "\n".join([f"class {name}(", *(f"    {argument}," for argument in arguments), "):"])


def _imports(file: str, classes: Sequence[tuple[str, str]]) -> str:
    """In the order of ruff."""
    by_folder: dict[str, set[str]] = {}
    for folder, name in classes:
        by_folder.setdefault(folder, set()).add(name)
    return "\n".join(
        f"from goworkers_py.features.{folder}.{file} import {', '.join(sorted(names))}"
        for folder, names in sorted(by_folder.items())
    )
