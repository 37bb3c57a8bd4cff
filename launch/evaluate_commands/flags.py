"""The flags of the subcommands of `launch.evaluate`, and what they name: caches by their
directories, numbers of samples, how files are read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import CELLS, INDEX, EvaluationCache
from nevis_stream.evaluation_cache.files import ERRORS
from nevis_stream.evaluation_cache.index import refuse_copy
from nevis_stream.evaluation_cache.values import NONE, ValueRange
from nevis_stream.launch import command_line
from nevis_stream.launch.command_line import Subcommand
from nevis_stream.queries.prices import parse_budget
from nevis_stream.vocabulary import ASSUMPTIONS, HELD_OUT_SPLITS, KEEP, POOL, POPULATIONS


class _Parser(flags.ArgumentParser):
    """Turns the text of a flag into its value; a `ValueError` becomes the flag's error."""

    def __init__(self, parse: Callable[[str], Any]):
        self.parse = parse


def get_reading_choices(values: flags.FlagValues) -> dict[str, Any]:
    """Returns how files of values are read, as arguments of `read_values` and its callers.

    Raises:
      BadInput: two ranges for one name.
    """
    ranges: dict[str, ValueRange] = {}
    for name, ends in values.range or ():
        if ranges.setdefault(name, ends) != ends:
            raise BadInput(f"--range: two ranges for {name or 'all values'}.")
    return {
        "value_range": ranges or None,
        "metrics": values.metrics,
        "grades": values.grades,
        "lower_is_better": values.lower_is_better,
        "ignored": values.ignore_columns,
        "tasks": values.tasks,
        "errors": values.errors,
    }


def find_cache_directories(directory: Path) -> list[Path]:
    """Returns the directory if it is a cache, else the caches in it.

    Raises:
      BadInput: there is no cache.
    """
    if directory.is_file():
        raise BadInput(f"--cache={directory}: is a file; the directory of a cache is expected.")
    # a damaged cache may have lost one of the two files
    is_cache = any((directory / name).is_file() for name in (INDEX, CELLS))
    paths = sorted(path.parent for path in directory.glob(f"*/{INDEX}"))
    if not is_cache and not paths:
        raise BadInput(
            f"{directory}: there is no evaluation cache here. To create one:"
            " python -m launch.evaluate import"
            f" FILE --cache={directory}"
        )
    return [directory] if is_cache else paths


def open_caches(directory: Path) -> list[EvaluationCache]:
    """Returns the cache in a directory, or all caches in a folder of caches.

    Raises:
      BadInput: there is no cache, or one cannot be opened.
    """
    return [EvaluationCache(path) for path in find_cache_directories(directory)]


def open_one_cache(
    directory: Path, dataset_id: str = "", to_change: bool = False
) -> EvaluationCache:
    """Returns the cache in a directory; in a folder of several caches, the one of a data set.

    Raises:
      BadInput: there is no cache, it is unclear which one is meant, or it is the copy of a session
        and it is opened to be changed.
    """
    caches = open_caches(directory)
    candidates = [cache for cache in caches if cache.directory.name == dataset_id] or caches
    if len(candidates) > 1:
        names = ", ".join(str(cache.directory) for cache in caches)
        raise BadInput(f"--cache={directory} holds {len(caches)} caches; name one: {names}.")
    if to_change:  # refused before anything is asked or computed
        refuse_copy(candidates[0].directory)
    return candidates[0]


def parse_sample_count(
    text: str, size: int | None = None, unit: str = "", cache: EvaluationCache | None = None
) -> int:
    """Returns the number of samples (or models) that --budget specifies.

    Args:
      text: a number, "64", or a percentage of `size`, "5%", which is rounded to at least 1.
      size: number of samples (or models) in total; None: only the form of the text is checked.
      unit: what is counted, for messages.
      cache: which has them, for messages.

    Raises:
      BadInput: the text is neither, or the number is larger than `size`.
    """
    is_fraction = text.endswith("%")
    try:
        value = float(text[:-1]) if is_fraction else int(text)
    except ValueError:
        value = math.nan
    if not (0 < value <= 100 if is_fraction else value >= 1):
        raise BadInput(
            f"--budget={text}: a whole number from 1 up, or a fraction above 0% and up to 100%, is"
            " expected."
        )
    if is_fraction:
        return max(1, round((size or 0) * value / 100))
    if size is not None and value > size:
        where = f"{cache.directory} has" if cache else "there are"
        raise BadInput(f"--budget={text}: {where} only {size:,} {unit}.")
    return int(value)


def parse_count_or_price(
    text: str, size: int | None = None, unit: str = "", cache: EvaluationCache | None = None
) -> int | str:
    """Returns the number of samples that --budget specifies, see `parse_sample_count`; or the text,
    where it is an amount with a unit of price. Arguments as of `parse_sample_count`.
    """
    if len(text.split()) > 1:
        parse_budget(text)
        return text
    return parse_sample_count(text, size, unit, cache)


def list_methods(bounds: bool = False) -> str:
    """Returns the methods, policies and predictors with a line for each.

    Args:
      bounds: whether to list bounds too, which look at every cell and so cannot be used to add.
    """
    from nevis_stream.dynamic_evaluation import methods

    usable = methods.list_methods()
    parts: dict[str, Mapping[str, Any]] = {
        "Methods": usable,
        "Or POLICY+PREDICTOR, with one of these policies": methods.list_usable(methods.POLICIES),
        "and one of these predictors": methods.list_usable(methods.PREDICTORS),
    }
    if bounds:
        parts["Bounds, which look at every cell regardless of the budget"] = {
            name: each
            for name, each in methods.list_methods(bounds=True).items()
            if name not in usable
        }
    return "".join(
        f"\n{title}:\n" + "".join(f"  {name}: {each.about}\n" for name, each in part.items())
        for title, part in parts.items()
    )


def parse_with(parse: Callable[[str], Any]) -> Callable:
    """Returns what defines a flag whose text `parse` turns into its value."""

    def define(name: str, default: Any, meaning: str, flag_values: flags.FlagValues) -> None:
        serializer = flags.ListSerializer(",")
        flags.DEFINE(_Parser(parse), name, default, meaning, flag_values, serializer)

    return define


def _repeated(parse: Callable[[str], Any]) -> Callable:
    """Returns what defines a flag that may be given several times, each with one value."""

    def define(name: str, default: Any, meaning: str, flag_values: flags.FlagValues) -> None:
        serializer = flags.ListSerializer(",")
        flags.DEFINE_multi(_Parser(parse), serializer, name, default, meaning, flag_values)

    return define


def _score_range(text: str) -> tuple[str, ValueRange]:
    """Returns the name of a task or metric, "" for all others, and its range."""
    name, sign, ends_text = text.rpartition("=")
    if ends_text == NONE:
        return name, NONE
    low, _, high = ends_text.partition(",")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = 0.0, 0.0
    if not ends[0] < ends[1] or (sign and not name):
        raise ValueError(
            "two numbers are expected, the lower one first, such as 0,100 or judge=1,5; or none."
        )
    return name, ends


def _weights(text: str) -> dict[str, float] | str:
    if text == "equal":
        return text
    weights = {}
    for word in text.split(","):
        name, _, weight = word.rpartition("=")
        if name in weights:
            raise ValueError(f"{name!r} has two weights.")
        try:
            weights[name] = float(weight)
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"{word!r} is not NAME=WEIGHT; or give just `equal`.")
    return weights


def _grades(text: str) -> dict[str, float]:
    grades = {}
    for word in text.split(","):
        name, _, number = word.rpartition("=")
        try:
            grades[name] = float(number)
        except ValueError:
            name = ""
        if not name or not math.isfinite(grades[name]):
            raise ValueError(f"{word!r} is not NAME=NUMBER; an example: A=1,B=0.75.")
    return grades


def define_table_flags(values: flags.FlagValues) -> None:
    """Defines the flags of a subcommand that takes whole tables of values."""
    meaning = "Counts a score as correct (1) if it is above this value; default: keep the scores."
    flags.DEFINE_float("threshold", None, meaning, flag_values=values)
    meaning = (
        "Weights of the data sets, NAME=WEIGHT,..., or `equal`; default: all samples weigh the"
        " same."
    )
    parse_with(_weights)("dataset_weights", None, meaning, values)


def define_reading_flags(values: flags.FlagValues) -> None:
    """Defines the flags of a subcommand that reads files of values (`get_reading_choices`)."""
    words = partial(flags.DEFINE_list, flag_values=values)
    meaning = (
        "LOW,HIGH: the range of scores if the file does not state it; default: 0,1. Or `none`: the"
        " metric has no bounds. NAME=LOW,HIGH: that of a task or metric; may be repeated."
    )
    _repeated(_score_range)("range", None, meaning, values)
    meaning = "The only tasks (data sets) that are read; default: all."
    words("tasks", [], meaning)
    meaning = "What samples count that ended in an error: unknown, or wrong."
    flags.DEFINE_enum("errors", ERRORS[0], ERRORS, meaning, flag_values=values)
    meaning = (
        "Metrics (or data sets) of which lower values are better, such as wer,perplexity; or `all`."
        " Default: what the file states, or the metric's name says."
    )
    words("lower_is_better", [], meaning)
    meaning = (
        "Columns of a table with one row per model that are no samples, such as license,params;"
        " those of summaries (average, rank, …) are left out anyway."
    )
    words("ignore_columns", [], meaning)
    meaning = (
        "Metrics of logs: of each task the first of these that it has; a filter alone names the"
        " metric that has it. Default: the one that most models have. METRIC+METRIC reads each of"
        " them, as metrics of one prompt."
    )
    words("metrics", [], meaning)
    meaning = (
        "NAME=NUMBER,...: what grades of logs and tables count that are no numbers, such as"
        " A=1,B=0.75."
    )
    parse_with(_grades)("grades", None, meaning, values)


def define_flags(subcommands: Sequence[Subcommand]) -> None:
    """Defines the flags of each subcommand."""
    values_of = {each.name: each.flags for each in subcommands}

    def flag(names: str, kind: Callable, name: str, default: Any, meaning: str, **more) -> None:
        for subcommand in names.split():
            kind(name, default, meaning, flag_values=values_of[subcommand], **more)

    text, words, whole = flags.DEFINE_string, flags.DEFINE_list, flags.DEFINE_integer
    adding = "add-model add-samples"
    harnesses = "with-lm-eval with-inspect"
    reading = f"import {adding} start plan tell {harnesses} amend"
    several = "import stats verify merge add-model"
    flag("repair export add-samples fit remove amend", text, "cache", None, "Directory of a cache.")
    flag(several, text, "cache", None, "Directory of a cache, or of several caches.")

    for name in reading.split():
        define_reading_flags(values_of[name])
    define_table_flags(values_of["import"])
    meaning = (
        "Describes the samples. For files: FILE.npz with `features`, float[n, d], and optionally"
        " the samples' ids, `samples`. For runs: a checkpoint, RUN/checkpoints/EVENT-TASK, whose"
        " backbone is applied to the images."
    )
    flag("import", text, "features", None, meaning)
    meaning = "FILE.npy: numbers of the rows of a bare .npy matrix that are read; default: all."
    flag("import", text, "rows", None, meaning)
    meaning = "Which of a run's predictors are imported."
    flags.DEFINE_enum("models", "all", KEEP, meaning, flag_values=values_of["import"])
    meaning = f"Splits of a run's data set: {', '.join(HELD_OUT_SPLITS)}; default: all"
    meaning += f" of these. Or {POOL}, of an adaptive stream."
    flag("import", words, "splits", [], meaning)
    meaning = "Also keep the class probabilities of a run's predictors."
    flag("import", flags.DEFINE_bool, "probabilities", False, meaning)
    for name in f"import {adding}".split():
        command_line.define_recorded_stream(values_of[name])
        command_line.define_data_dir(values_of[name])
    meaning = "Modules outside this project whose learners may be imported and run."
    flag(f"import {adding}", words, "trust", [], meaning)

    meaning = "What to add: RUN/checkpoints/EVENT-TASK, a RUN (all its models), or a file."
    flag("add-model", text, "model", None, meaning)
    flag("add-model", whole, "trial", None, "Trial of the checkpoint; default: the chosen one.")
    meaning = (
        "How the samples on which a file has values were chosen: `random`, drawn at random from all"
        " samples; `other` (for example the first ones): then an estimate gets no interval that"
        " only random samples would justify."
    )
    ways = ["other", "random"]
    flags.DEFINE_enum("answered", "other", ways, meaning, flag_values=values_of["add-model"])
    flag("add-model", text, "name", None, "Model of the file to add; default: all of them.")
    meaning = "Number of samples on which each new model is evaluated: 64, or 5% of all samples."
    flag("fit", text, "budget", None, meaning)
    meaning += ' Or an amount that is not exceeded: "20000 tokens", "2.5 dollars", "600 seconds".'
    about = "csv for the samples on which the models most likely fail, with P(failure)."
    flag("add-model", text, "failures", None, about)
    flag("add-model start", text, "budget", None, meaning)
    meaning = (
        "What samples cost, in the unit of the budget: a csv with the columns sample and that unit,"
        " or a table or logs that have it. Default: the leaderboard's own."
    )
    flag("add-model start", text, "prices", None, meaning)
    meaning = (
        "Number of known models that are evaluated on each new sample: 64, or 5% of all models."
    )
    flag("add-samples", text, "budget", None, meaning)
    flag("add-samples", text, "samples", None, "A file of known models × new samples.")
    flag("add-samples", words, "splits", [], "Splits of the cache's data set.")
    meaning = "New directories of runs that were moved since their models were added to the cache."
    flag("add-samples", words, "run_dir", [], meaning)
    meaning = (
        "How the models to evaluate are chosen and the other values predicted. In the list below,"
        " models and samples change places."
    )
    flag("add-samples", text, "method", "recommended", meaning)
    meaning = "How samples are chosen and the other values predicted."
    meaning += " Default: informed_mean."
    flag("add-model fit start plan", text, "method", None, meaning)
    meaning = (
        "What is assumed of new models. With like_known the estimate is the known models' own, with"
        " an interval for models like them; without it, intervals hold for any model."
    )
    for command in ("add-model", "fit", "start"):
        define = flags.DEFINE_enum
        define("assume", None, list(ASSUMPTIONS), meaning, flag_values=values_of[command])
    ends = {"lower_bound": -(2**63), "upper_bound": 2**63 - 1}
    flag(
        f"{adding} fit start plan", whole, "seed", 0, "Seed of the method's random choices.", **ends
    )

    flag("remove", words, "models", [], "Models whose cells are removed; default: of all models.")
    flag("remove", words, "samples", [], "Samples on which they are removed; default: on all.")
    flag("remove amend", text, "reason", None, "Why, for those who meet the change.")
    flag(
        "plan", words, "budgets", [], "Numbers of answers. Default: from 20 to half of the samples."
    )
    flag("plan", text, "csv", None, "File for the budgets.")
    flag("board", text, "csv", None, "File for all models and data sets, with intervals.")
    flag("board", text, "out", None, "Directory for a page of all models and data sets.")
    flag("repair", text, "out", None, "Directory of the new cache.")

    meaning = "Name of a new model; may be given several times."
    flag("start", flags.DEFINE_multi_string, "model", [], meaning)
    flag(f"ask tell {harnesses}", text, "model", None, "The model, where the session has several.")
    flag("start", text, "out", None, "Directory of the session.")
    meaning = (
        "The session ends when the interval is at most that wide; the interval holds however often"
        " you look."
    )
    flag("start", flags.DEFINE_float, "until", None, meaning)
    meaning = "A known model; the session ends when the interval lies above, or below, its mean."
    flag("start", text, "until_better_than", None, meaning)
    meaning = (
        "best or order: the new models are asked the same samples, and the session ends when the"
        " best of them, or their order, is known; a model that is out is not asked any more, and"
        " what it does not need of --budget is left to the others."
    )
    flag("start", text, "until_decided", None, meaning)
    meaning = (
        "What the mean is over: these samples, or the superpopulation that they are drawn from at"
        " random, with a wider interval."
    )
    for name in ("add-model", "status", "report"):
        default, of_command = POPULATIONS[0], values_of[name]
        flags.DEFINE_enum("population", default, POPULATIONS, meaning, flag_values=of_command)
    meaning = (
        "A column of the samples' facts (such as cluster or category): with"
        " --population=superpopulation, those with the same value were drawn together."
    )
    flag("add-model status report", text, "clusters", None, meaning)
    meaning = "Most samples; default: all of the round."
    flag("ask", whole, "count", None, meaning, lower_bound=1)
    meaning = "Form of what is printed; json is a list of the ids exactly as they are."
    forms = ["ids", "json", "lm_eval", "inspect"]
    flags.DEFINE_enum("format", forms[0], forms, meaning, flag_values=values_of["ask"])
    meaning = "Your name, where several ask at the same time: each is given samples of its own."
    flag("ask", text, "worker", "", meaning)
    flag("tell", flags.DEFINE_bool, "correct", False, "Let answers replace earlier ones.")
