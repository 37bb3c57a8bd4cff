"""The words `--config=NAME` and `--config.KEY=VALUE` of a command, and the config they describe."""

import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_collections
from absl import flags

from nevis_stream import extensions, user_code
from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput, unknown
from nevis_stream.launch import entry
from nevis_stream.learners import Field, find_config_class
from nevis_stream.learners.table import TABLE
from nevis_stream.storage.reading import explain_absence

_PREFIX = "config."


@dataclass(frozen=True)
class ConfigWords:
    """The words of a command that describe its config.

    Attributes:
      source: value of --config: the name of a learner, PATH.py or PATH.py:ARGUMENT; empty if the
        command has no --config.
      values: VALUE, as text, of each --config.KEY=VALUE.
      rest: the other words.
    """

    source: str
    values: Mapping[str, str]
    rest: Sequence[str]

    def config(self) -> ml_collections.ConfigDict:
        """Returns the config; without --config, that of the learner in --config.learner.

        Raises:
          BadInput: no config, an unknown name or key, a file that fails, or a value of the wrong
            type.
        """
        learner = self.values.get("learner")
        if self.source:
            config = _named_or_loaded(self.source)
            config = config if learner is None else run_config.with_learner(config, learner)
        elif learner:
            config = run_config.make_default(learner)
        else:
            raise BadInput(f"--config is missing; {_choices()}.")
        for key, text in self.values.items():
            if key != "learner":
                run_config.put(config, key, text, f"--config.{key}={text}")
        return config


def split_words(command_words: Sequence[str]) -> ConfigWords:
    """Separates the words about the config from a command's other words; those after `--` stay.

    Raises:
      BadInput: a --flagfile that cannot be read.
    """
    source, values, rest = "", {}, []
    try:
        waiting = flags.FlagValues().read_flags_from_files(list(command_words), force_gnu=False)
    except (flags.Error, OSError) as error:
        raise BadInput(str(error).removeprefix("ERROR:: ")) from None
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not (name == "config" or name.startswith(_PREFIX)):
            rest.append(word)
            continue
        if not equals:
            bare = not waiting or waiting[0].startswith("--")
            value = "true" if bare else waiting.pop(0)
        if name == "config":
            source = value
        else:
            values[name.removeprefix(_PREFIX)] = value
    return ConfigWords(source, values, [*rest, *waiting])


_words = ConfigWords("", {}, ())


def get_words() -> ConfigWords:
    """Returns the words that describe the config of this process's command."""
    return _words


def start(main, lists: Callable[[], str] | None = None) -> None:
    """Starts a command that has --config, as `entry.start` does; its help lists the configs."""

    def take(command_words: Sequence[str]) -> Sequence[str]:
        global _words
        _words = split_words(command_words)
        return _words.rest

    entry.start(main, take, lists=lists or format_help)


def _choices() -> str:
    return (
        f"give the name of a learner ({', '.join(TABLE)}), a config file (PATH.py), or"
        " --config.learner=package.module:Class"
    )


def _named_or_loaded(source: str) -> ml_collections.ConfigDict:
    if source in TABLE:
        return run_config.make_default(source)
    path, _, argument = source.partition(":")
    if Path(path).is_file():
        return _load(path, argument)
    # as files, studies were experiments/studies/NAME.py
    study = path.removeprefix("experiments/").removeprefix("studies/").removesuffix(".py")
    if study in extensions.list_offered(extensions.CONFIGS):
        return extensions.load(extensions.CONFIGS, study)()
    if path.endswith(".py"):
        raise BadInput(f"--config={source}: {explain_absence(path)}. You can also {_choices()}.")
    if argument and "/" not in path:
        raise BadInput(
            f"--config={source}: no such file. A learner's class is given as"
            f" --config.learner={source}"
        )
    raise BadInput(
        f"--config={source}: {unknown('config', source, TABLE)} A config file (PATH.py) is valid"
        f" too.{extensions.explain_absence(extensions.CONFIGS)}"
    )


def _load(path: str, argument: str) -> ml_collections.ConfigDict:
    """Returns the config that a file's get_config returns; an error names the line."""
    user_code.look_in([str(Path(path).resolve().parent)])
    try:
        get_config = runpy.run_path(path, run_name=user_code.CONFIG_FILE).get("get_config")
        config = get_config(*([argument] if argument else [])) if callable(get_config) else None
    except Exception as error:  # a user's file may raise anything
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == path
        ]
        message = str(error)
        if isinstance(error, SyntaxError) and error.filename == path:
            lines, message = [error.lineno], error.msg
        place = f"{path}, line {lines[-1]}" if lines else path
        raise BadInput(f"{place}: {type(error).__name__}: {message}") from None
    if not callable(get_config):
        raise BadInput(f"{path}: has no function get_config (docs/learners.md shows one).")
    if not isinstance(config, ml_collections.ConfigDict):
        result = "nothing" if config is None else f"a {type(config).__name__}"
        raise BadInput(
            f"{path}: its get_config returns {result}; it must return"
            " run_config.make_default(NAME), with the changes you want (docs/learners.md)."
        )
    return config


def check_run_dir(run_dir: str) -> None:
    """Checks that a run directory can be created.

    Raises:
      BadInput: there is a file in its place, or in that of a directory above it.
    """
    for path in (Path(run_dir), *Path(run_dir).parents):
        if path.exists() and not path.is_dir():
            raise BadInput(
                f"--run_dir={run_dir}: {path} is a file; a directory is expected, for example"
                " runs/my-run."
            )


def format_help() -> str:
    """Returns the part of --help about configs: their names, and the keys of a learner."""
    config_words = split_words(entry.get_arguments())
    has_config = config_words.source or config_words.values
    try:
        learner = config_words.config().learner if has_config else "ft_prev"
        presets = run_config.get_presets(find_config_class(learner)) or {}
        fields = run_config.list_fields(learner).values()
        keys = "\n".join(_key(field, presets) for field in fields)
    except BadInput as error:
        return f"\n{error}\n"
    width = max(map(len, TABLE))
    rows = "\n".join(f"  {name:{width}}  {row.meaning}" for name, row in TABLE.items())
    return (
        f"\nNames for --config:\n{rows}\nStudies, whose commands are in docs/studies.md:"
        f" {', '.join(f'studies/{name}' for name in extensions.list_offered(extensions.CONFIGS))}\n"
        f"Keys of {learner} (for another learner: --config=NAME --help), each with its type,"
        f" default, and range or choices:\n{keys}\n"
    )


def _key(field: Field, presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the lines of a key: its meaning, type, default and range or choices."""
    kind = field.type.__name__
    kind = f"{kind} of {field.element.__name__}" if field.element else kind
    default = repr(field.default)
    if field.default is None:
        sets = [
            f"{name} {values[field.name]}"
            for name, values in presets.items()
            if field.name in values
        ]
        default = "set by the learner or the budget" + f" ({', '.join(sets)})" * bool(sets)
    limits = f"; {field.range[0]} to {field.range[1]}" if field.range else ""
    limits = f"; {', '.join(field.choices)}" if field.choices else limits
    return f"  --config.{field.name}: {field.help}\n      {kind}; default: {default}{limits}"
