"""Evaluates new models and samples at a fraction of the cost: dynamic evaluation with caches of
models × samples.

A new model is evaluated on --budget samples and its values on the others are predicted; the cache
keeps observed and predicted values apart. A checkpoint runs on exactly the chosen samples, on the
accelerator if there is one, and its FLOPs are counted. `python -m launch.report runs/* caches/*`
shows the results.
"""

import functools
from pathlib import Path

from nevis_stream.errors import NevisStreamError
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import find_offered, make_subcommand, start
from nevis_stream.launch.evaluate_commands.flags import define_flags, list_methods

_subcommand = functools.partial(make_subcommand, "launch.evaluate_commands")


_OWN = (
    _subcommand(
        "fill.import_all",
        "import",
        "Adds files of models × samples (npz, csv, parquet), evaluation logs or runs to a cache.",
        "import outcomes.npz --cache=caches/mine",
        "import runs/indep runs/b --cache=caches",
        "import lm_eval_results/ --metrics=acc_norm,acc --cache=caches/mine",
        words="FILE_OR_RUN_DIR ...",
        needs=("cache",),
        details="A run is added to one cache for each data set, CACHE/DATASET. What is already in"
        " the cache costs nothing.",
    ),
    _subcommand(
        "caches.print_stats",
        "stats",
        "Prints what is in a cache, with the means of each data set and class.",
        "stats --cache=caches/mine",
        needs=("cache",),
    ),
    _subcommand(
        "board.show_board",
        "board",
        "Prints the models of a cache, ranked, with intervals and ties.",
        "board caches/mine",
        "board caches/mine --csv=board.csv --out=leaderboard",
        words="CACHE",
        details="Scores are means over the samples that a model was observed on, or the estimate of"
        " its addition, with 95% intervals; data sets are columns.",
    ),
    _subcommand(
        "caches.verify",
        "verify",
        "Checks every byte of a cache and reports what is damaged.",
        "verify --cache=caches/mine",
        needs=("cache",),
    ),
    _subcommand(
        "correct.remove",
        "remove",
        "Removes cells that were wrong: of models, of samples, or of models on samples.",
        "remove --cache=caches/mine --samples=q3 --reason='its key was wrong'",
        needs=("cache", "reason"),
        details="Recorded with time and reason; merging applies the record, whatever the order, and"
        " later imports do not bring these cells back.",
    ),
    _subcommand(
        "correct.amend",
        "amend",
        "Gives cells of a cache the values of a file.",
        "amend corrected.csv --cache=caches/mine --reason='judged again'",
        words="FILE",
        needs=("cache", "reason"),
        details="Recorded with time and reason; merging applies the record, whatever the order.",
    ),
    _subcommand(
        "fill.repair",
        "repair",
        "Copies the undamaged parts of a cache to a new one.",
        "repair --cache=caches/mine --out=caches/new",
        needs=("cache", "out"),
    ),
    _subcommand(
        "fill.merge",
        "merge",
        "Adds caches to a cache, or directories of caches to a directory of caches.",
        "merge caches/b --cache=caches/a",
        words="CACHE ...",
        needs=("cache",),
    ),
    _subcommand(
        "fill.export",
        "export",
        "Writes a cache as one npz file, which import reads.",
        "export all.npz --cache=caches/mine",
        words="FILE",
        needs=("cache",),
    ),
    _subcommand(
        "add.add_model",
        "add-model",
        "Evaluates new models on a few samples each.",
        "add-model --model=new.csv --budget=256 --cache=caches/mine",
        "add-model --model=runs/new/checkpoints/0010-pico_digits --budget=64"
        " --cache=caches/pico_digits",
        "add-model --model=runs/new --budget=5% --cache=caches",
        needs=("cache", "model", "budget"),
        details="Predicts their other values and prints the estimated mean and rank with intervals,"
        " the means of each data set and class, and the cost.",
        lists=list_methods,
    ),
    _subcommand(
        "sessions.start",
        "start",
        "Begins a session in which new models are evaluated live: ask, run them, tell.",
        "start leaderboard.csv --model=new --out=sessions/new --budget=64",
        "start leaderboard.csv --model=new --out=sessions/until --until=0.1",
        "start leaderboard.csv --model=a --model=b --out=sessions/best --until_decided=best",
        "start lm_eval_results --model=a --out=sessions/lm --budget=5%",
        words="LEADERBOARD",
        needs=("model", "out"),
        details="The leaderboard is a file, a folder of logs or a cache. The method is chosen and"
        " fitted now. Each model is evaluated as if it were the only one.",
        lists=list_methods,
    ),
    _subcommand(
        "sessions.ask",
        "ask",
        "Prints the samples to run a new model on next, those that wait first.",
        "ask sessions/new --count=20",
        "ask sessions/lm --format=lm_eval",
        words="DIR",
        details="lm_eval: what lm-evaluation-harness takes as --samples. inspect: what inspect_ai"
        " takes as --sample-id.",
    ),
    _subcommand(
        "sessions.tell",
        "tell",
        "Records the values of the samples: all of a file, or none if one is wrong.",
        "tell sessions/new answers.csv",
        words="DIR ANSWERS ...",
        details="ANSWERS: a csv with the columns sample and value (? where the model gave none), a"
        " json object of values by sample, or logs of the two harnesses.",
    ),
    *(
        _subcommand(
            f"harnesses.{name.replace('-', '_')}",
            name,
            f"Runs {harness} on what a session asks, and tells it the logs, until it has ended.",
            f"{name} {example}",
            words="DIR -- COMMAND ...",
            details=f"{added} and a folder for the logs of each start are added to the command. It"
            " is started once a round.",
        )
        for name, harness, added, example in (
            (
                "with-lm-eval",
                "lm-evaluation-harness",
                "--tasks, --samples, --log_samples",
                "sessions/lm -- lm_eval run --model hf --model_args pretrained=org/new"
                " --output_path out",
            ),
            (
                "with-inspect",
                "inspect_ai",
                "--sample-id",
                "sessions/in -- inspect eval quiz.py --model openai/new --log-dir logs",
            ),
        )
    ),
    _subcommand(
        "sessions.plan",
        "plan",
        "Prints how many answers a new model needs: for which error and interval, and to tell it"
        " from others; measured on the known models, each left out in turn.",
        "plan leaderboard.csv",
        words="BOARD",
        details="BOARD: as of start.",
    ),
    _subcommand(
        "sessions.print_status",
        "status",
        "Prints the estimates with their intervals; the exit status is 0 when the session has"
        " ended, else 1.",
        "status sessions/new",
        words="DIR",
    ),
    _subcommand(
        "sessions.compare",
        "compare",
        "Prints which of a session's new models is the best, or how much one is better than another"
        " one, or than a known model.",
        "compare sessions/best",
        "compare sessions/until new gpt-4",
        words="DIR ...",
        details="DIR, of a session with --until_decided; or DIR NEW OTHER, two models.",
    ),
    _subcommand(
        "sessions.report",
        "report",
        "Writes a page: the estimates, and how they came.",
        "report sessions/new",
        words="DIR",
    ),
    _subcommand(
        "add.fit",
        "fit",
        "Fits a method to a cache's known models, for later additions.",
        "fit --budget=256 --cache=caches/mine",
        "fit --method=linear_gaussian --budget=5% --cache=caches/mine",
        needs=("cache", "budget"),
        details="The fit is stored with the cache and used until the known models change. What was"
        " fitted before, or before a kill, is not fitted again.",
        lists=list_methods,
    ),
    _subcommand(
        "add.add_samples",
        "add-samples",
        "Evaluates a few of the known models on each new sample.",
        "add-samples --samples=new.npz --budget=64 --cache=caches/mine",
        "add-samples --splits=test --budget=2 --cache=caches/pico_digits",
        needs=("cache", "budget"),
        details="Predicts the other models' values.",
        lists=list_methods,
    ),
)
define_flags(_OWN)
SUBCOMMANDS = (*_OWN, *find_offered("evaluate"))


def _fail_at_damage(error: Exception) -> None:
    """Names what is damaged in the cache instead of an error that the damage may have caused."""
    from nevis_stream.launch.evaluate_commands.caches import find_damage

    # the errors that the values of a damaged index can cause; messages for people stay
    caused = isinstance(error, IndexError | KeyError | TypeError | ValueError | ArithmeticError)
    if not caused or isinstance(error, NevisStreamError):
        return

    for each in SUBCOMMANDS:
        cache = each.flags["cache"].value if "cache" in each.flags else None
        if cache and (message := find_damage(Path(cache))):
            entry.fail(message)


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS, _fail_at_damage)
