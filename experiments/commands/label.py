"""The subcommand `simulate` of `launch.label`."""

from nevis_stream.launch.command_line import define_list, define_text, define_whole, make_subcommand
from nevis_stream.launch.label_commands.flags import (
    define_subject_flags,
    list_estimators,
    list_surrogates,
)

SIMULATE = make_subcommand(
    "experiments.commands",
    "simulate.simulate",
    "simulate",
    "Repeats the loop on a pool with known labels, and compares it with random labels.",
    "simulate --model=runs/a/checkpoints/0010-pico_digits --pool=pico_digits:test"
    " --out=studies/digits",
    needs=("model", "pool", "out"),
    details="Continues where it was stopped; a later call with more --repetitions adds to them. It"
    " prints squared errors over those of random labels (0.5: random labels need about twice as"
    " many), how many 95% intervals contain the true loss, and their widths over random labels'.",
    lists=lambda: list_surrogates() + list_estimators(),
)
SUBCOMMANDS = (SIMULATE,)

define_subject_flags(SIMULATE, ".")
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
