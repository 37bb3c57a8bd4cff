"""The table of learners: what each row sets, and the small learners' own keys."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Literal

import pytest

from nevis_stream import learners
from nevis_stream.errors import BadInput
from nevis_stream.learners.nearest_class_mean import NearestClassMean
from nevis_stream.learners.table import TABLE


@pytest.mark.parametrize("name", TABLE)
def test_a_row_sets_fields_of_its_class_and_says_what_it_gives(name):
    row, known = TABLE[name], learners.flatten_fields(learners.find_config_class(name))
    for key, value in row.values.items():
        assert known[key].check(value) == value and known[key].default is None
    assert 0 < row.error < 1 and row.flops > 1e6
    assert f"--config={name}" in row.commands(name)[-1]


def test_every_field_has_its_help():
    for name in TABLE:
        for known in learners.flatten_fields(learners.find_config_class(name)).values():
            assert known.help, f"{name}: {known.name}"


@dataclass(frozen=True)
class Part:
    rates: tuple[float, ...] = (0.1,)


@dataclass(frozen=True)
class Own:
    part: Part = Part()
    kind: Literal["one", "two"] = "one"
    share: float | None = field(default=None, metadata={"range": (0, 1)})


def test_fields_are_read_from_types_and_metadata():
    known = learners.flatten_fields(Own)
    assert list(known) == ["part.rates", "kind", "share"]
    assert (known["part.rates"].type, known["part.rates"].element) == (tuple, float)
    assert (known["kind"].choices, known["share"].range) == (("one", "two"), (0, 1))
    created = learners.make_config(Own, {"part.rates": [1, 0.5], "share": 1})
    assert created == Own(Part((1, 0.5)), "one", 1.0) and type(created.share) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.5}, "config.share is 1.5; it must be between 0 and 1"),
        ({"share": math.nan}, "config.share is nan"),
        ({"kind": "three"}, "'three'.*one, two"),
        ({"part.rates": ("a",)}, r"config.part.rates is \('a',\)"),
        (
            {"part.rates": (float("nan"),)},
            "config.part.rates.0 is nan, which no JSON file keeps",
        ),
        ({"kind": 1}, "config.kind is 1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values, message):
    with pytest.raises(BadInput, match=message):
        learners.make_config(Own, values)


def test_a_default_that_no_file_can_keep_is_refused():
    infinite = dataclasses.make_dataclass("Infinite", [("lam", float, math.inf)], frozen=True)
    with pytest.raises(BadInput, match="config.lam is inf, which no JSON file keeps"):
        learners.make_config(infinite, {})


def test_a_class_that_cannot_be_configured_is_refused():
    with pytest.raises(BadInput, match="must be a frozen dataclass"):
        learners.flatten_fields(dataclasses.make_dataclass("Open", [("a", int, 1)]))
    with pytest.raises(BadInput, match="More: a learner's class must be a frozen dataclass"):
        learners.flatten_fields(type("More", (Own,), {"__annotations__": {"more": int}, "more": 1}))
    assert learners.flatten_fields(type("Same", (Own,), {})) == learners.flatten_fields(Own)
    with pytest.raises(BadInput, match="Wild.a is of type <class 'dict'>"):
        learners.flatten_fields(
            dataclasses.make_dataclass("Wild", [("a", dict, None)], frozen=True)
        )
    with pytest.raises(BadInput, match="Bare.a has no default"):
        learners.flatten_fields(dataclasses.make_dataclass("Bare", [("a", int)], frozen=True))
    with pytest.raises(BadInput, match="'indp'.*'indep'"):
        learners.find_config_class("indp")


def test_a_class_that_is_no_learner_is_refused(tmp_path, monkeypatch):
    """Own learners of every name are tested in tests/launch/test_own_learner.py."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_learner.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass(frozen=True)\n"
        "class A:\n    rate: int = 1\n"
    )
    (tmp_path / "misspelt.py").write_text("class A\n")
    with pytest.raises(BadInput, match="A: the class has no method init, train, predict"):
        learners.find_config_class("no_learner:A")
    with pytest.raises(BadInput, match=r"failed with SyntaxError: [^.]*\.py, line 1\)\.$"):
        learners.find_config_class("misspelt:A")


def test_the_small_learners_have_keys_of_their_own():
    from nevis_stream.configs import run_config

    config = run_config.make_default("nearest_class_mean")
    config.resolution = 4
    resolved = run_config.resolve(config)
    assert resolved.build() == NearestClassMean(4)
    assert run_config.to_json(resolved)["budget"] is None and "train" not in resolved.to_dict()
