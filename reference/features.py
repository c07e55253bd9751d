"""The modules of the package that put parts of all features together, for type checkers: these read no loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goworkers_py.features import FEATURES

_OPTIONS = '''\
"""The options of jobs that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


class FeatureOptions({options}total=False):
    """Anywhere."""


class FeatureOptionsOfCode({options_of_code}total=False):
    """In the job's own code."""
'''

_VERBS = '''\
"""The verbs of the inspector that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

{imports}


class FeatureVerbs({verbs}):
    pass
'''


def _job_options() -> str:
    anywhere = [(feature.name, feature.options) for feature in FEATURES if feature.options]
    of_code = [(feature.name, feature.options_of_code) for feature in FEATURES if feature.options_of_code]
    return _OPTIONS.format(
        imports=_imports("job_options", [*anywhere, *of_code]),
        options=_bases([name for _, name in anywhere]),
        options_of_code=_bases([name for _, name in of_code]),
    )


def _verbs() -> str:
    found = [(feature.name, feature.verbs) for feature in FEATURES if feature.verbs]
    return _VERBS.format(imports=_imports("admin", found), verbs=", ".join(name for _, name in found))


def _imports(file: str, classes: Sequence[tuple[str, str]]) -> str:
    """In the order of ruff."""
    by_folder: dict[str, set[str]] = {}
    for folder, name in classes:
        by_folder.setdefault(folder, set()).add(name)
    return "\n".join(
        f"from goworkers_py.features.{folder}.{file} import {', '.join(sorted(names))}"
        for folder, names in sorted(by_folder.items())
    )


def _bases(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names)


def modules() -> Mapping[str, str]:
    """By their paths."""
    return {"goworkers_py/features/job_options.py": _job_options(), "goworkers_py/features/verbs.py": _verbs()}
