"""Tests trained models on a pool of images without labels, with as few labels as possible.

`start` begins a session, `next` chooses samples and writes a page on which a person labels them,
`record` takes their labels, `status` and `report` say what the models' loss is and how sure that
is. `simulate` runs the same loop on a pool with known labels (docs/label-efficient-testing.md).
"""

import functools

from nevis_stream.launch.command_line import (
    define_list,
    define_number,
    define_switch,
    define_text,
    define_whole,
    find_offered,
    make_subcommand,
    start,
)
from nevis_stream.launch.label_commands.flags import (
    define_subject_flags,
    list_estimators,
    list_surrogates,
)

_subcommand = functools.partial(make_subcommand, "launch.label_commands")


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
    lists=list_surrogates,
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
    lists=list_estimators,
)
REPORT = _subcommand(
    "sessions.report",
    "report",
    "Writes a page: estimates by labels, hardest samples, calibration of the surrogate.",
    "report sessions/photos",
    words="DIR",
    lists=list_estimators,
)
SUBCOMMANDS = (START, NEXT, RECORD, STATUS, REPORT, *find_offered("label"))
_WITH_ESTIMATOR = (STATUS, REPORT)


define_subject_flags(START, "; may be given several times.")
define_text((START,), "rule", "rms_loss", "Which samples are worth most.")
define_list((START,), "classes", [], "Names of the classes, in order.")
define_switch(
    (START,),
    "continue",
    False,
    "Add the samples of --pool to the session; its labels keep their probabilities.",
)
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


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
