"""The words `--config=NAME` and `--config.KEY=VALUE` of a command, and the config they give."""

import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_collections
from absl import flags

from experiments import grid, run_config
from launch import entry
from learners.fields import Field
from learners.table import TABLE
from nevis_stream.errors import BadInput, unknown

_STUDIES = Path(__file__).resolve().parents[1] / "experiments" / "studies"
_PREFIX = "config."


@dataclass(frozen=True)
class ConfigWords:
    """What the words of a command say about its config.

    Attributes:
      source: of --config: a name of the table, or PATH.py or PATH.py:ARGUMENT; empty: not given.
      values: of --config.KEY=VALUE, as text by key.
      rest: the other words.
    """

    source: str
    values: Mapping[str, str]
    rest: Sequence[str]

    def config(self) -> ml_collections.ConfigDict:
        """Returns the config; for `--config.learner=NAME` alone that learner's.

        Raises:
          BadInput: no config, an unknown name or key, a file that fails, or a value of another
            type.
        """
        learner = self.values.get("learner")
        if self.source:
            config = _named_or_loaded(self.source)
            config = config if learner is None else run_config.with_learner(config, learner)
        elif learner:
            config = run_config.default(learner)
        else:
            raise BadInput(f"--config is missing; {_choices()}.")
        for key, text in self.values.items():
            grid.put(config, key, text, f"--config.{key}={text}")
        return config


def split(words: Sequence[str]) -> ConfigWords:
    """Takes the words about the config out of a command's words; what follows `--` stays.

    Raises:
      BadInput: a --flagfile that cannot be read.
    """
    source, values, rest = "", {}, []
    try:
        waiting = flags.FlagValues().read_flags_from_files(list(words), force_gnu=False)
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


_given = ConfigWords("", {}, ())


def given() -> ConfigWords:
    """Returns what this command's words say about its config."""
    return _given


def start(main, lists: Callable[[], str] | None = None) -> None:
    """Starts a command that has --config; see `entry.start`. Its help ends with the configs."""

    def take(words: Sequence[str]) -> Sequence[str]:
        global _given
        _given = split(words)
        return _given.rest

    entry.start(main, take, lists=lists or help_text)


def studies() -> list[str]:
    """Paths of the studies' configs."""
    return sorted(f"experiments/studies/{path.name}" for path in _STUDIES.glob("[!_]*.py"))


def _choices() -> str:
    return (
        f"give a name ({', '.join(TABLE)}), a file of your own (PATH.py), or"
        " --config.learner=package.module:Class"
    )


def _named_or_loaded(source: str) -> ml_collections.ConfigDict:
    if source in TABLE:
        return run_config.default(source)
    path, _, argument = source.partition(":")
    if Path(path).is_file():
        return _load(path, argument)
    if path.endswith(".py"):
        raise BadInput(f"--config={source}: no such file. Or {_choices()}.")
    raise BadInput(f"--config={source}: {unknown('config', source, TABLE)} Or a file, PATH.py.")


def _load(path: str, argument: str) -> ml_collections.ConfigDict:
    """Returns the config that a file makes; errors name the line."""
    entry.find_modules(Path(path).resolve().parent)
    try:
        get_config = runpy.run_path(path).get("get_config")
        made = get_config(*([argument] if argument else [])) if callable(get_config) else None
    except Exception as error:  # a user's file may raise anything
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == path
        ]
        what = str(error)
        if isinstance(error, SyntaxError) and error.filename == path:
            lines, what = [error.lineno], error.msg
        where = f"{path}, line {lines[-1]}" if lines else path
        raise BadInput(f"{where}: {type(error).__name__}: {what}") from None
    if not callable(get_config):
        raise BadInput(f"{path}: it has no function get_config (docs/learners.md shows one).")
    if not isinstance(made, ml_collections.ConfigDict):
        what = "nothing" if made is None else f"a {type(made).__name__}"
        raise BadInput(
            f"{path}: its get_config returns {what}; return run_config.default(NAME), changed as"
            " you like (docs/learners.md)."
        )
    return made


def check_run_dir(run_dir: str) -> None:
    """Raises: BadInput: there is a file where the directory of a run is to be."""
    for place in (Path(run_dir), *Path(run_dir).parents):
        if place.exists() and not place.is_dir():
            raise BadInput(
                f"--run_dir={run_dir}: {place} is a file; a directory is expected, for example"
                " runs/my-run."
            )


def help_text() -> str:
    """Returns the part of --help about configs: names, and the keys of the chosen learner."""
    known = split(entry.arguments())
    try:
        learner = known.config().learner if known.source or known.values else "ft_prev"
        keys = "\n".join(map(_key, run_config.fields_of(learner).values()))
    except BadInput as error:
        return f"\n{error}\n"
    width = max(map(len, TABLE))
    rows = "\n".join(f"  {name:{width}}  {row.meaning}" for name, row in TABLE.items())
    return (
        f"\nNames for --config:\n{rows}\nStudies, each with its commands: {', '.join(studies())}\n"
        f"Keys of {learner} (another learner's: --config=NAME --help), each with type, default, and"
        f" range or choices:\n{keys}\n"
    )


def _key(field: Field) -> str:
    kind = field.type.__name__
    kind = f"{kind} of {field.element.__name__}" if field.element else kind
    default = "as the learner or the budget says" if field.default is None else repr(field.default)
    limits = f"; {field.range[0]} to {field.range[1]}" if field.range else ""
    limits = f"; {', '.join(field.choices)}" if field.choices else limits
    return f"  --config.{field.name}: {field.help}\n      {kind}; {default}{limits}"
