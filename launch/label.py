"""Tests trained models on a pool of images without labels, with as few labels as possible.

`start` begins a session, `next` chooses samples and writes a page on which a person labels them,
`record` takes their labels, `status` and `report` say what the models' loss is and how sure that
is. `simulate` runs the same loop on a pool with known labels (docs/label-efficient-testing.md).
"""

import functools

from nevis_stream.launch import command_line
from nevis_stream.launch.command_line import (
    define_list,
    define_number,
    define_repeated,
    define_switch,
    define_text,
    define_whole,
    make_subcommand,
    start,
)

_subcommand = functools.partial(make_subcommand, "label_commands")


def _about(title: str, table) -> str:
    return f"\n{title}:\n" + "".join(f"  {name}: {each.about}\n" for name, each in table.items())


def _estimators() -> str:
    """Returns the estimators with a line for each."""
    from nevis_stream.active_testing.estimators import ESTIMATORS

    return _about("Estimators", ESTIMATORS)


def _surrogates() -> str:
    """Returns the surrogates, rules and losses, with a line for each."""
    from nevis_stream.active_testing.acquisition_functions import RULES
    from nevis_stream.active_testing.pool import LOSSES
    from nevis_stream.active_testing.surrogates import SURROGATES

    return _about("Surrogates", SURROGATES) + _about("Rules", RULES) + _about("Losses", LOSSES)


START = _subcommand(
    "sessions.begin",
    "start",
    "Begins a session, or adds samples to one with --continue.",
    "start --model=runs/a/checkpoints/0010-pico_digits --pool=photos --out=sessions/photos",
    "start --model=resnet.npz --model=vit.npz --pool=photos.npz --classes=cat,dog"
    " --out=sessions/two",
    "start --continue --pool=photos-of-may --out=sessions/photos",
    needs=("pool", "out"),
    details="Several models are compared on the same labels.",
    lists=_surrogates,
)
NEXT = _subcommand(
    "sessions.choose",
    "next",
    "Chooses samples to label; writes a csv, a contact sheet and a page for a browser.",
    "next sessions/photos --count=20",
    words="DIR",
    details="Samples that were chosen before and have no label come first.",
)
RECORD = _subcommand(
    "sessions.record",
    "record",
    "Takes the labels of a csv file: all of them, or none if one is wrong.",
    "record labels-s1234567-001.csv --session=sessions/photos",
    words="FILE ...",
    needs=("session",),
)
STATUS = _subcommand(
    "sessions.print_status",
    "status",
    "Prints the estimates with their intervals, and whether that is enough.",
    "status sessions/photos --until=0.05",
    words="DIR",
    details="With --until the exit status is 0 if every interval is at most that wide and there are"
    " at least 100 labels, else 1.",
    lists=_estimators,
)
REPORT = _subcommand(
    "sessions.report",
    "report",
    "Writes a page: estimates by labels, hardest samples, calibration of the surrogate.",
    "report sessions/photos",
    words="DIR",
    lists=_estimators,
)
SIMULATE = _subcommand(
    "simulate.simulate",
    "simulate",
    "Repeats the loop on a pool with known labels, and compares it with random labels.",
    "simulate --model=runs/a/checkpoints/0010-pico_digits --pool=pico_digits:test"
    " --out=studies/digits",
    needs=("model", "pool", "out"),
    details="Continues where it was stopped; a later call with more --repetitions adds to them. It"
    " prints squared errors over those of random labels (0.5: random labels need about twice as"
    " many), how many 95% intervals contain the true loss, and their widths over random labels'.",
    lists=lambda: _surrogates() + _estimators(),
)
SUBCOMMANDS = (START, NEXT, RECORD, STATUS, REPORT, SIMULATE)
_WITH_MODEL = (START, SIMULATE)
_WITH_ESTIMATOR = (STATUS, REPORT)


_MODEL_HELP = (
    "A checkpoint, RUN/checkpoints/EVENT-TASK, an .npz with `probabilities` [samples, classes] and"
    " `samples`, their ids, or a csv with a column `sample` and one for each class"
)
for _command, _times in ((START, "; may be given several times."), (SIMULATE, ".")):
    define_repeated((_command,), "model", [], _MODEL_HELP + _times)
define_text(
    _WITH_MODEL,
    "pool",
    None,
    "A folder of images, an .npz with `images`, or a split of a data set, for example mnist:test.",
)
define_text(
    (START, SIMULATE),
    "out",
    None,
    "Directory of the session or study. If it exists, the same session or study goes on.",
)
define_text(
    _WITH_MODEL, "loss", "zero_one", "Loss to estimate; the mean of zero_one is the error rate."
)
define_text(
    _WITH_MODEL,
    "surrogate",
    None,
    "What predicts the labels; default: heads for a checkpoint, tested_model for a file.",
)
define_text((START,), "rule", "rms_loss", "Which samples are worth most.")
define_number(
    _WITH_MODEL,
    "uniform",
    0.5,
    "Share of plain random draws; a smaller one makes intervals too short where the surrogate is"
    " sure of what is wrong.",
    lower_bound=0.0,
    upper_bound=1.0,
)
define_list((START,), "classes", [], "Names of the classes, in order.")
define_repeated(
    _WITH_MODEL, "run_dir", [], "Further runs of the same task, whose models join the ensemble."
)
define_text(
    _WITH_MODEL,
    "cache",
    None,
    "Directory of an evaluation cache that has outcomes of known models on the pool; the surrogates"
    " known_models and known_models_heads learn from it.",
)
define_switch(
    (START,),
    "continue",
    False,
    "Add the samples of --pool to the session; its labels keep their probabilities.",
)
define_whole(_WITH_MODEL, "seed", 0, "Seed of all draws.", lower_bound=0)
define_whole((NEXT,), "count", 20, "Number of samples.", lower_bound=1)
define_text((RECORD,), "session", None, "Directory of the session.")
define_switch((RECORD,), "correct", False, "Let labels replace earlier ones.")
define_text(_WITH_ESTIMATOR, "estimator", "tuned_difference", "How the loss is estimated.")
define_number(
    (STATUS,),
    "until",
    None,
    "Width of the intervals at which labelling may stop, in units of the loss.",
    lower_bound=0.0,
)
define_whole((SIMULATE,), "repetitions", 20, "Number of repetitions.", lower_bound=2)
define_whole((SIMULATE,), "labels", 200, "Labels of each repetition.", lower_bound=10)
define_list(
    (SIMULATE,),
    "rules",
    ["rms_loss", "xwed!", "uniform"],
    "Rules; a name that ends in ! takes the highest scores instead of drawing.",
)
define_text(
    (SIMULATE,), "executor", "inline", "How the repetitions are run: inline, threads or ray."
)
define_whole((SIMULATE,), "workers", None, "Number of threads (threads).", lower_bound=1)
for _each in _WITH_MODEL:
    command_line.define_recorded_stream(_each.flags)
    command_line.define_data_dir(_each.flags)
define_repeated(
    _WITH_MODEL,
    "trust",
    [],
    "Module outside this project that may be imported because a run's learner is defined in it;"
    " may be given several times.",
)


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
