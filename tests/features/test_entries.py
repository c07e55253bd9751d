"""Each part of each entry can be imported, and is what its seam says."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module

import click
import pytest

from goworkers_py import App
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.config.option_rows import NamedSection
from goworkers_py.features import FEATURES, NAMES, job_options
from goworkers_py.features.feature import Feature
from goworkers_py.features.message_parts import FeatureMessage
from goworkers_py.features.queue_options import FeatureQueueOptions
from goworkers_py.features.verbs import FeatureVerbs
from goworkers_py.observe.health_report import merged
from goworkers_py.web.gauges import OfProcesses
from goworkers_py.web.site.rendering import FEATURES as FOLDERS
from goworkers_py.web.site.table import FeaturePages, ProcessPart

# Its texts would end with the only process that could take them.
NOT_IN_MEMORY = {"configuration"}
names = pytest.mark.parametrize("feature", FEATURES, ids=[feature.name for feature in FEATURES])


@names
def test_each_command_of_a_feature_is_there_under_its_name(feature: Feature) -> None:
    for name in feature.commands:
        command = feature.command(name)
        assert isinstance(command, click.Command)
        assert command.name == name.split()[-1]


@names
def test_each_template_of_a_feature_is_in_its_folder(feature: Feature) -> None:
    pages = feature.pages() or FeaturePages()
    process = pages.of_processes or ProcessPart()
    templates = {view.template for view in pages.views} | {column.template for column in pages.of_partitions}
    templates |= {pages.job_rows, process.tools, process.rows, process.sections}
    assert {name for name in templates if name and not (FOLDERS / feature.name / "templates" / name).is_file()} == set()


def test_no_two_templates_have_the_same_name() -> None:
    """They are found by their names alone, and those of the engine first."""
    folders = [FOLDERS.parent / "web" / "templates", *(FOLDERS / name / "templates" for name in NAMES)]
    found = [path.name for folder in folders for path in folder.glob("*.html")]
    assert sorted(found) == sorted({*found})


@names
def test_a_line_of_nobody_is_owned_by_no_feature(feature: Feature) -> None:
    assert feature.whereabouts().line_owner("people's") is None


@names
def test_the_checks_of_a_feature_find_nothing_where_nothing_is_wrong(feature: Feature) -> None:
    app = App()
    app.configure(broker="memory://")
    assert [finding for check in feature.checks(app.inspector, None).values() for finding in check()] == []


@pytest.mark.parametrize("feature", [feature for feature in FEATURES if feature.access()], ids=lambda entry: entry.name)
def test_the_access_rules_of_a_feature_allow_its_probes(feature: Feature) -> None:
    access = feature.access()
    assert access is not None
    allowed = {command for rules in access.rules for command in rules.commands.split()}
    assert {str(probe[0]).lower() for probe in access.probes(Keys())} <= allowed


@names
def test_the_sections_of_a_feature_can_be_read(feature: Feature) -> None:
    for table in feature.sections():
        if issubclass(table, NamedSection):
            title = f"[{table.kind}:{table.example}]"
            assert load(ConfigText(title, "test"), {}).sections == (table(table.example),)
        else:
            assert load(ConfigText(f"[{table.kind}]", "test"), {}).section_of(table) == table()


@names
def test_the_gauges_of_a_feature_can_be_read_where_nothing_runs(feature: Feature) -> None:
    app = App()
    app.configure(broker="memory://")
    for gauge in feature.figures().gauges:
        values = (
            gauge.read(merged("working", [])) if isinstance(gauge, OfProcesses) else gauge.read(app.inspector.stats())
        )
        assert dict(values) == ({} if gauge.label else {"": 0})


@names
def test_the_docstring_of_the_folder_says_what_each_file_holds(feature: Feature) -> None:
    package = import_module(f"goworkers_py.features.{feature.name}")
    files = {path.stem for path in (FOLDERS / feature.name).glob("*.py")} - {"__init__"}
    missing = {name for name in files if f"`{name}`" not in str(package.__doc__)}
    assert missing == set(), "say in the docstring of __init__.py what these files hold, each in backquotes"


@names
def test_the_docstring_of_the_folder_says_what_of_the_feature_is_elsewhere(feature: Feature) -> None:
    text = " ".join(str(import_module(f"goworkers_py.features.{feature.name}").__doc__).split())
    assert "In the engine: " in text, "say what of the feature is in the engine, or: In the engine: nothing."
    assert "For users: docs/" in text


@names
def test_each_class_of_an_entry_is_in_the_module_that_type_checkers_read(feature: Feature) -> None:
    for member, together, bases in (
        (feature.options, "job_options", job_options.FeatureOptions.__annotations__),
        (feature.options_of_code, "job_options", job_options.FeatureOptionsOfCode.__annotations__),
        (feature.verbs, "admin", dir(FeatureVerbs)),
        (feature.message, "message", dir(FeatureMessage)),
        (feature.queue_options, "options", [field.name for field in dataclasses.fields(FeatureQueueOptions)]),
    ):
        if member:
            kind = getattr(import_module(f"goworkers_py.features.{feature.name}.{together}"), member)
            own = kind.__annotations__ if together in ("job_options", "options") else vars(kind)
            assert {*own} <= {*bases, "__module__", "__firstlineno__"}, "run: make reference"


@names
def test_an_option_at_which_a_push_must_look_is_a_mark(feature: Feature) -> None:
    together = import_module(f"goworkers_py.features.{feature.name}.job_options") if feature.push_marks else None
    kinds = [getattr(together, name) for name in (feature.options, feature.options_of_push) if name and together]
    others = {name for kind in kinds for name in kind.__annotations__} - feature.push_marks
    # They say when a group is flushed, to the process that flushes it.
    assert others == ({"group_grace", "group_max_delay", "group_max_size"} if feature.name == "groups" else set())


def test_contributing_has_a_row_for_each_feature() -> None:
    text = (FOLDERS.parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| ", text.partition("### The seams")[0], re.MULTILINE) == sorted(NAMES)


def test_the_name_of_an_entry_is_that_of_its_folder() -> None:
    assert [feature.name for feature in FEATURES] == [*NAMES]


@pytest.mark.parametrize("feature", [one for one in FEATURES if one.contract], ids=lambda feature: feature.name)
def test_a_feature_has_its_part_for_both_families_of_brokers_and_none_for_others(feature: Feature) -> None:
    assert callable(feature.part("redis"))
    assert feature.part("other") is None
    contract = getattr(import_module(f"goworkers_py.features.{feature.name}.contract"), feature.contract)
    if feature.name not in NOT_IN_MEMORY:
        assert contract in type(MemoryBroker(State(), DeadLimits()).part(contract)).__mro__


@names
def test_a_feature_is_the_same_in_the_memory_and_in_redis(feature: Feature) -> None:
    make, redis_part = feature.memory(), feature.redis()
    in_memory, in_redis = make and make(State()), redis_part
    assert {*(in_memory.ties if in_memory else ())} == {*(in_redis.ties if in_redis else ())}
    of_memory = {*in_memory.effects, *in_memory.enclosing} if in_memory else set()
    assert of_memory == {*(in_redis.effects if in_redis else ())}
