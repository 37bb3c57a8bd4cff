"""Lists, prepares, imports, verifies and shows data sets.

Prepared data are kept in --data_dir, else in the directory that the environment variable
NEVIS_STREAM_DATA names, else in the user's cache directory.
"""

from collections.abc import Sequence
from pathlib import Path

from nevis_stream.datasets.reading import CLASS_LEVELS, HELP, Choices
from nevis_stream.launch import command_line, entry
from nevis_stream.launch.command_line import (
    Subcommand,
    define_choice,
    define_list,
    define_repeated,
    define_switch,
    define_text,
    define_whole,
    start,
)
from nevis_stream.storage.reading import explain_absence
from nevis_stream.vocabulary import MOST_CLASSES, TASK_KINDS, YEARS


def _list(_: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.show import show_list

    values = _LIST.flags
    only = {"domain": values.domain, "kind": values.kind, "state": values.state}
    show_list(values.stream, values.format, only)


def _prepare(_: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.prepare import prepare

    values = _PREPARE.flags
    paths = [Path(path) for path in values["from"].value]
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            entry.fail(f"--from={path}: {explain_absence(path)}.")
    options = {
        "places": [(path if path.is_dir() else path.parent).absolute() for path in paths],
        "form": values.store,
        "download": not values.offline,
        "verified": not values.unverified,
        "force": values.force,
    }
    prepare(values.stream, values.task, options, values.jobs)


def _import(words: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.prepare import import_file

    values = _IMPORT.flags
    given = {name: values[name].value or "" for name in HELP}
    choices = Choices(**given, num_classes=values.num_classes)
    import_file(
        Path(words[0]),
        values.task,
        choices,
        values.year,
        values.domain,
        values.store,
        values.data_dir,
    )


def _verify(_: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.show import verify

    verify(_VERIFY.flags.task)


def _show(words: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.show import show

    show(words[0], Path(_SHOW.flags.out))


def _overlap(_: Sequence[str]) -> None:
    from nevis_stream.launch.data_commands.show import print_overlap

    print_overlap(_OVERLAP.flags.stream, _OVERLAP.flags.format)


_LIST = Subcommand(
    "list",
    _list,
    "Lists the tasks of a stream, and whether the data set of each is ready on this machine.",
    ("list --stream=full", "list --stream=full --format=csv", "list --state=downloadable"),
)
_PREPARE = Subcommand(
    "prepare",
    _prepare,
    "Downloads, verifies and splits data sets, and stores them without duplicates.",
    ("prepare --stream=short", "prepare --task=mnist,usps", "prepare --task=voc2007 --from=FOLDER"),
    details="The same command continues an interrupted one and skips data sets that are ready. At"
    " the end it prints, for each data set that is not ready, what you can do about it.",
)
_IMPORT = Subcommand(
    "import",
    _import,
    "Imports your own file as a task.",
    (
        "import mnist.npz --task=mnist",
        "import shapes.zip --task=new --year=2024 --domain=object",
    ),
    words="FILE",
    needs=("task",),
    details="FILE is an .npz, a directory of images, or a zip with labels.csv.",
)
_VERIFY = Subcommand(
    "verify",
    _verify,
    "Checks that prepared data have not changed, by their recorded fingerprints.",
    ("verify", "verify --task=mnist"),
)
_SHOW = Subcommand(
    "show",
    _show,
    "Prints the samples of a task by class and resolution, and writes a contact sheet (PNG).",
    ("show mnist --out=sheets",),
    words="TASK",
)
_OVERLAP = Subcommand(
    "overlap",
    _overlap,
    "Counts the test images of each task that earlier tasks of the stream train on.",
    ("overlap --stream=local25", "overlap --stream=local25 --format=csv"),
    needs=("stream",),
)
SUBCOMMANDS = (_LIST, _PREPARE, _IMPORT, _VERIFY, _SHOW, _OVERLAP)
_STORES = ["array_record", "raw"]

for _each in SUBCOMMANDS:
    command_line.define_data_dir(_each.flags)
for _each in (_LIST, _PREPARE, _OVERLAP):
    command_line.define_stream("full" if _each is _LIST else None, _each.flags)
define_choice([_LIST, _OVERLAP], "format", "table", ["table", "csv"], "Output format.")
define_list([_PREPARE, _VERIFY], "task", [], "Data sets, separated by commas.")
define_text([_IMPORT], "task", None, "Name of the task: one of the catalogue, or a new one.")
define_text([_LIST], "domain", None, "Only tasks of this domain.")
define_text([_IMPORT], "domain", None, "Domain of a new task.")
define_choice([_LIST], "kind", None, TASK_KINDS, "Only tasks of this kind.")
define_choice([_IMPORT], "kind", None, TASK_KINDS, HELP["kind"])
define_text([_IMPORT], "parts", None, HELP["parts"])
define_choice([_IMPORT], "class_level", None, CLASS_LEVELS, HELP["class_level"])
define_text([_IMPORT], "leave_out", None, HELP["leave_out"])
define_text([_IMPORT], "background", None, HELP["background"])
define_whole(
    [_IMPORT],
    "num_classes",
    None,
    "Number of classes, where some of them have no sample.",
    lower_bound=2,
    upper_bound=MOST_CLASSES,
)
define_whole(
    [_IMPORT], "year", None, "Year of a new task.", lower_bound=YEARS[0], upper_bound=YEARS[1]
)
define_text(
    [_LIST], "state", None, "Only data sets in this state, for example ready or downloadable."
)
define_choice(
    [_PREPARE, _IMPORT],
    "store",
    "array_record",
    _STORES,
    "Format of the stored images: array_record, which TFDS reads, or raw, one array, for images of"
    " equal size.",
)
define_repeated(
    [_PREPARE],
    "from",
    [],
    "A file that you downloaded, or a folder of such files; may be repeated.",
)
define_whole(
    [_PREPARE],
    "jobs",
    None,
    "Number of data sets prepared at the same time; default: the number of cores.",
    lower_bound=1,
)
define_switch([_PREPARE], "force", False, "Prepare data sets again even if they are ready.")
define_switch(
    [_PREPARE], "offline", False, "Use only files that are on this machine; download nothing."
)
define_switch(
    [_PREPARE], "unverified", False, "Do not compare files with their published checksums."
)
define_text([_SHOW], "out", ".", "Directory of the contact sheet.")


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
