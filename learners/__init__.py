"""The learners: those that have a name (learners.table), and any class given as MODULE:CLASS."""

import difflib
import importlib
import inspect
from typing import Any

from nevis_stream import user_code
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner
from nevis_stream.learners.fields import fields_of
from nevis_stream.learners.table import BUILDERS, TABLE


def class_of(name: str) -> type:
    """Returns the frozen dataclass whose fields are a learner's configuration.

    The class is the learner itself, or one for which `build` returns the learner.

    Args:
      name: a name of the table, or MODULE:CLASS, which is imported: the user wrote it, or trusts
        it (nevis_stream.user_code).

    Raises:
      BadInput: no such name, module or class, or a class that cannot be configured.
    """
    if name in TABLE:
        name = TABLE[name].class_name
    module, colon, class_name = name.partition(":")
    if not (module and colon and class_name):
        raise BadInput(
            f"{unknown('learner', name, TABLE)} Your own class is given as package.module:Class."
        )
    try:
        found = user_code.import_module(module)
        learner_class = getattr(found, class_name, None)
    except Exception as error:  # a user's module may raise anything
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = (
                " A module must be on Python's path, in the current directory, or in the folder of"
                " the --config file."
            )
        raise BadInput(
            f"learner {name}: importing {module} failed with {type(error).__name__}: {error}.{hint}"
        ) from None
    if not inspect.isclass(learner_class):
        classes = [key for key, _ in inspect.getmembers(found, inspect.isclass)]
        near = difflib.get_close_matches(class_name, classes, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BadInput(f"learner {name}: {module} has no class {class_name!r}.{hint}")
    fields_of(learner_class)  # refuses what cannot be configured
    missing = [
        method for method in ("init", "train", "predict") if not hasattr(learner_class, method)
    ]
    built = hasattr(learner_class, "build") or _path(learner_class) in BUILDERS
    if missing and not built:
        raise BadInput(
            f"learner {name}: the class has no method {', '.join(missing)}. A learner has init,"
            " train and predict, or a method build that returns a learner."
        )
    return learner_class


def build(config: Any) -> Learner:
    """Returns the learner of a configuration, an instance of a class that `class_of` returns.

    The configurations of this package are data: the table says what builds their learners. A class
    of the user's has a method `build`, or is the learner itself.
    """
    if builder := BUILDERS.get(_path(type(config))):
        module, _, name = builder.partition(":")
        return getattr(importlib.import_module(module), name)(config)
    return config.build() if hasattr(config, "build") else config


def _path(config_class: type) -> str:
    return f"{config_class.__module__}:{config_class.__qualname__}"


if __name__ == "learners":  # imported from a checkout under its former name
    user_code.adopt(__name__)
