"""Learners by name: those of this project, and those that other packages offer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nevis_stream import extensions
from nevis_stream.learner import Learner


@dataclass(frozen=True)
class ConfiguredLearner:
    """A learner that was built from its name.

    Attributes:
      learner: an instance.
      config: JSON values that describe it, as a run records them: its `learner` is the name.
    """

    learner: Learner
    config: Mapping[str, Any]


Configure = Callable[[str, str | None, Mapping[str, Any]], ConfiguredLearner]
"""Given a learner's name, a preset (None: the usual one) and values by dotted name, which go before
the preset's, returns the learner."""


def learner_names() -> list[str]:
    """Returns the names that `run` and `make_learner` take."""
    return extensions.list_offered(extensions.LEARNERS)


def make_learner(
    name: str, preset: str | None = None, values: Mapping[str, Any] | None = None
) -> Learner:
    """Builds a learner.

    Args:
      name: one of `learner_names()`.
      preset: name of the values that a learner has for a budget, "tiny" or "small" for example:
        what --config.budget sets on the command line. None: "tiny".
      values: single values by dotted name, for example {"train.steps": 400}, as --config.KEY=VALUE
        sets them.

    Raises:
      BadInput: no such learner, preset, or value; the message lists the valid ones.
    """
    return configure(name, preset, values).learner


def configure(
    name: str, preset: str | None = None, values: Mapping[str, Any] | None = None
) -> ConfiguredLearner:
    """Returns a learner with its config; arguments as of `make_learner`."""
    function: Configure = extensions.load(extensions.LEARNERS, name)
    return function(name, preset, dict(values or {}))
