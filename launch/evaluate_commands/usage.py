"""What `launch.evaluate --help` says, as a whole and of each command."""

import textwrap
from dataclasses import dataclass

from absl import flags


@dataclass(frozen=True)
class Command:
    """A command of `launch.evaluate`.

    Attributes:
      about: what it does.
      flags: names of those that it takes.
      examples: arguments of commands that work.
      files: whether it takes files or directories as arguments.
      methods: whether its help lists the methods.
    """

    about: str
    flags: tuple[str, ...]
    examples: tuple[str, ...]
    files: bool = False
    methods: bool = False


_VALUES = ("threshold", "range", "dataset_weights")
_ASKING = ("cache", "budget", "method", "seed", "range", "stream", "trust")
_COMPARING = ("methods", "budgets", "known", "seeds")
COMMANDS = {
    "import": Command(
        "Adds files of models × samples (npz, csv, parquet) to a cache, or runs to one cache per"
        " data set, CACHE/DATASET; says what it found. What is in the cache already costs nothing.",
        ("cache", *_VALUES, "features", "models", "splits", "probabilities", "stream", "trust"),
        ("import outcomes.npz --cache=caches/mine", "import runs/indep runs/b --cache=caches"),
        files=True,
    ),
    "stats": Command(
        "Prints what is in a cache, or in each cache of a folder, and the means by data set.",
        ("cache",),
        ("stats --cache=caches/mine",),
    ),
    "verify": Command(
        "Checks whether every byte is what was written, and names what is not.",
        ("cache",),
        ("verify --cache=caches/mine",),
    ),
    "repair": Command(
        "Copies all that is sound of a damaged cache into a new one.",
        ("cache", "out"),
        ("repair --cache=caches/mine --out=caches/new",),
    ),
    "merge": Command(
        "Adds caches to a cache, or folders of caches to a folder.",
        ("cache",),
        ("merge caches/b --cache=caches/a",),
        files=True,
    ),
    "export": Command(
        "Writes a cache as one npz file, which import reads.",
        ("cache",),
        ("export all.npz --cache=caches/mine",),
        files=True,
    ),
    "add-model": Command(
        "Asks new models on few samples, predicts their other values, and prints the estimated mean"
        " and rank with intervals, and the cost.",
        (*_ASKING, "model", "trial", "name"),
        (
            "add-model --model=new.csv --budget=256 --cache=caches/mine",
            "add-model --model=runs/new/checkpoints/0004-mnist --budget=256 --cache=caches/mnist",
            "add-model --model=runs/new --budget=5% --cache=caches",
        ),
        methods=True,
    ),
    "add-samples": Command(
        "Asks few of the known models on new samples and predicts the others' values.",
        (*_ASKING, "samples", "splits", "run_dir"),
        (
            "add-samples --samples=new.npz --budget=64 --cache=caches/mine",
            "add-samples --splits=test --budget=8 --cache=caches/mnist",
        ),
        methods=True,
    ),
    "metrics": Command(
        "Tries how well methods would do on a cache: part of its models are treated as new. The"
        " report shows what this writes into the cache.",
        ("cache", *_COMPARING),
        ("metrics --cache=caches/mine",),
        methods=True,
    ),
    "study": Command(
        "Compares methods on files of models × samples; writes tables and figures, and continues"
        " where it was stopped.",
        ("out", *_COMPARING, *_VALUES),
        ("study a.npz b.npz --budgets=16,64,256 --known=0.6 --seeds=10 --out=study",),
        files=True,
        methods=True,
    ),
}


def overview() -> str:
    """Returns one line for each command, with examples."""
    lines = ["", "Commands, each with a --help of its own:"]
    for name, command in COMMANDS.items():
        lines += ["", f"{name}: {command.about}"]
        lines += [f"  python -m launch.evaluate {example}" for example in command.examples]
    return "\n".join(lines) + "\n" + _methods()


def usage(name: str) -> str:
    """Returns the help of one command: what it does, examples, and its flags."""
    command = COMMANDS[name]
    lines = [*textwrap.wrap(f"{name}: {command.about}", 100), ""]
    lines += [f"  python -m launch.evaluate {example}" for example in command.examples]
    lines += ["", "Flags:"]
    for flag in (flags.FLAGS[each] for each in command.flags):
        text = f"--{flag.name}: {flag.help}"
        if flag.default not in (None, [], False):
            text += f" (default: {flag.default_as_str})"
        lines += textwrap.wrap(text, 98, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines) + "\n" + (_methods() if command.methods else "")


def check_flags(name: str) -> str:
    """Returns what is wrong with the flags that were given to a command; "" if nothing is."""
    every = {flag for command in COMMANDS.values() for flag in command.flags}
    given = [flag for flag in sorted(every) if flags.FLAGS[flag].present]
    if not (wrong := [flag for flag in given if flag not in COMMANDS[name].flags]):
        return ""
    return f"{name} takes no --{wrong[0]}; it takes --{', --'.join(COMMANDS[name].flags)}."


def _methods() -> str:
    from nevis_stream.dynamic_evaluation import methods

    parts = {
        "Methods": methods.registry(),
        "Or POLICY+PREDICTOR, with one of these policies": methods.policy_registry(),
        "and one of these predictors": methods.predictor_registry(),
    }
    lines = (
        f"\n{title}:\n" + "".join(f"  {name}: {each.about}\n" for name, each in entries.items())
        for title, entries in parts.items()
    )
    return "".join(lines)
