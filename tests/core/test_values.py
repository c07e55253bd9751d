"""The decorator `dataclass` of `core.values`, and its `NamedTuple`, do what Python's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from goworkers_py.core.values import NamedTuple, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    effects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point(Base):
    x: int
    y: int = 2
    note: str = field(default="", compare=False, repr=False)
    kept: list[int] = field(default_factory=list)
    kind: ClassVar[str] = "point"


@dataclass(frozen=True, slots=True)
class Other(Base):
    x: int
    y: int = 2
    note: str = field(default="", compare=False, repr=False)
    kept: tuple[int, ...] = ()


@dataclass(slots=True)
class Counter:
    count: int = 0


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True)
class Checked:
    name: str
    length: int = field(init=False)
    made_of: list[str] = field(init=False, default_factory=lambda: ["letters"])

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")
        object.__setattr__(self, "length", len(self.name))


@dataclass(frozen=True, repr=False)
class Own:
    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class Rate(NamedTuple):
    """So many in so many seconds."""

    amount: int
    per_s: float | None = None

    def __str__(self) -> str:
        return f"{self.amount}/{self.per_s:g}" if self.per_s else str(self.amount)

    @property
    def is_any(self) -> bool:
        return not self.amount

    @classmethod
    def read(cls, told: str) -> Rate:
        return cls(int(told))


def test_fields_are_given_by_place_or_by_name() -> None:
    point = Point(1, note="n", effects=("e",))
    assert (point.x, point.y, point.note, point.kept, point.effects) == (1, 2, "n", [], ("e",))
    assert Point(1).kept is not Point(1).kept
    assert not hasattr(point, "__dict__")


def test_a_wrong_call_names_the_class() -> None:
    for _ in range(2):  # the first call compiles
        with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
            Point()  # type: ignore[call-arg]


def test_objects_are_equal_when_the_fields_that_count_are() -> None:
    assert Point(1) == Point(1, note="not compared")
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    assert Empty() == Empty()
    assert Counter(1) == Counter(1) != Counter(2)


def test_frozen_objects_are_hashable_and_others_are_not() -> None:
    assert {Other(1), Other(1), Other(2)} == {Other(1), Other(2)}
    assert hash(Empty()) == hash(Empty())
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_a_frozen_object_cannot_be_changed() -> None:
    point: Any = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
        del point.x
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


def test_the_repr_is_that_of_python() -> None:
    assert repr(Point(1)) == "Point(effects=(), x=1, y=2, kept=[])"
    assert (repr(Empty()), repr(Own(1))) == ("Empty()", "own")


def test_methods_of_the_class_stay() -> None:
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 7


def test_post_init_is_called() -> None:
    assert (Checked("abc").length, Checked("abc").made_of) == (3, ["letters"])
    with pytest.raises(ValueError, match="no name"):
        Checked("")


def test_a_subclass_with_an_init_of_its_own_calls_that_of_the_class() -> None:
    class Special(Counter):
        def __init__(self) -> None:
            super().__init__(5)

    assert (Special().count, Special().count) == (5, 5)


def test_the_functions_of_dataclasses_work() -> None:
    assert dataclasses.replace(Point(1), y=3) == Point(1, 3)
    assert dataclasses.asdict(Point(1)) == {"effects": (), "x": 1, "y": 2, "note": "", "kept": []}
    assert dataclasses.is_dataclass(Point)
    match Point(1):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_objects_can_be_copied_and_pickled(again: Callable[[Any], Any]) -> None:
    for value in (Point(1, note="n"), Checked("abc"), Counter(3), Empty()):
        assert again(value) == value
    assert again(Point(1, note="n")).note == "n"


def test_two_threads_may_make_the_first_objects_of_a_class() -> None:
    for _ in range(50):

        @dataclass(frozen=True)
        class Fresh:
            x: int

        found: list[int] = []
        begin = threading.Barrier(4)

        def make(of: type[Fresh] = Fresh, begin: threading.Barrier = begin, found: list[int] = found) -> None:
            begin.wait()
            found.append(of(1).x)

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1, 1, 1, 1]


def test_a_named_tuple_is_that_of_python() -> None:
    rate = Rate(5, per_s=2.0)
    assert rate == (5, 2.0)
    assert (rate.amount, rate.per_s, str(rate), rate.is_any) == (5, 2.0, "5/2", False)
    assert repr(Rate(5)) == "Rate(amount=5, per_s=None)"
    assert rate._replace(amount=6)._asdict() == {"amount": 6, "per_s": 2.0}
    assert (Rate.read("7"), Rate._fields, Rate._field_defaults["per_s"]) == (Rate(7), ("amount", "per_s"), None)
    assert (Rate.__module__, Rate.__qualname__, Rate.__doc__) == (__name__, "Rate", "So many in so many seconds.")
    assert Rate.__annotations__["amount"] == "int"
    assert pickle.loads(pickle.dumps(rate)) == rate
    assert isinstance(rate, tuple)
    with pytest.raises(AttributeError):
        rate.amount = 6  # type: ignore[misc]


def test_the_signature_is_that_of_the_fields_before_the_first_object() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2

    assert str(inspect.signature(Point)) == "(x, y=2)"
    assert Point(1) == Point(1, 2)
    assert str(inspect.signature(Point)) == "(x, y=2)"
