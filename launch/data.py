"""Lists, prepares, imports, verifies and shows data sets.

Prepared data are in --data_dir, else in NEVIS_STREAM_DATA, else in the user's cache directory.
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from launch import entry, shared_flags
from launch.subcommands import Subcommand, define, start
from nevis_stream.vocabulary import TASK_KINDS


def _list(_: Sequence[str]) -> None:
    from launch.data_commands.listing import show_list

    values = _LIST.flags
    only = {"domain": values.domain, "kind": values.kind, "state": values.state}
    show_list(values.stream, values.format, only)


def _prepare(_: Sequence[str]) -> None:
    from launch.data_commands.preparing import prepare

    values = _PREPARE.flags
    for place in values["from"].value:
        if not Path(place).exists():
            entry.fail(f"--from={place}: no such file or directory.")
    places = [Path(place).absolute() for place in values["from"].value]
    options = {
        "places": [place if place.is_dir() else place.parent for place in places],
        "form": values.store,
        "download": not values.offline,
        "verified": not values.unverified,
        "force": values.force,
    }
    prepare(values.stream, values.task, options, values.jobs)


def _import(words: Sequence[str]) -> None:
    from launch.data_commands.preparing import import_file

    values = _IMPORT.flags
    file = Path(words[0])
    import_file(file, values.task, values.kind, values.year, values.domain, values.store)


def _verify(_: Sequence[str]) -> None:
    from launch.data_commands.inspecting import verify

    verify(_VERIFY.flags.task)


def _show(words: Sequence[str]) -> None:
    from launch.data_commands.inspecting import show

    show(words[0], Path(_SHOW.flags.out))


def _overlap(_: Sequence[str]) -> None:
    from launch.data_commands.inspecting import overlap

    overlap(_OVERLAP.flags.stream, _OVERLAP.flags.format)


_LIST = Subcommand(
    "list",
    _list,
    "Shows the tasks of a stream and the state of each data set on this machine.",
    ("list --stream=full", "list --stream=full --format=csv", "list --state=downloadable"),
)
_PREPARE = Subcommand(
    "prepare",
    _prepare,
    "Downloads, verifies, splits and stores data sets, without duplicates.",
    ("prepare --stream=short", "prepare --task=mnist,usps", "prepare --task=voc2007 --from=FOLDER"),
    details="Continues what was interrupted, skips what is ready, and ends with what to do for each"
    " data set that is not.",
)
_IMPORT = Subcommand(
    "import",
    _import,
    "Imports a file of your own as a task.",
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
    "Checks prepared data against their recorded fingerprints.",
    ("verify", "verify --task=mnist"),
)
_SHOW = Subcommand(
    "show",
    _show,
    "Prints counts and histograms of a task and writes a contact sheet (PNG).",
    ("show mnist --out=sheets",),
    words="TASK",
)
_OVERLAP = Subcommand(
    "overlap",
    _overlap,
    "Lists the test images of a stream that earlier tasks train on.",
    ("overlap --stream=local25", "overlap --stream=local25 --format=csv"),
    needs=("stream",),
)
SUBCOMMANDS = (_LIST, _PREPARE, _IMPORT, _VERIFY, _SHOW, _OVERLAP)
_STORES = ["array_record", "raw"]

for _each in SUBCOMMANDS:
    shared_flags.data_dir(_each.flags)
define(flags.DEFINE_string, [_LIST], "stream", "full", "Name or csv of a stream.")
define(flags.DEFINE_string, [_PREPARE, _OVERLAP], "stream", None, "Name or csv of a stream.")
define(flags.DEFINE_enum, [_LIST, _OVERLAP], "format", "table", ["table", "csv"], "Output format.")
define(flags.DEFINE_list, [_PREPARE, _VERIFY], "task", [], "Data sets, separated by commas.")
define(flags.DEFINE_string, [_IMPORT], "task", None, "Name of the task, new or known.")
define(flags.DEFINE_string, [_LIST], "domain", None, "Only tasks of this domain.")
define(flags.DEFINE_string, [_IMPORT], "domain", None, "Domain of a new task.")
define(flags.DEFINE_enum, [_LIST], "kind", None, TASK_KINDS, "Only tasks of this kind.")
define(flags.DEFINE_enum, [_IMPORT], "kind", None, TASK_KINDS, "Kind of the task.")
define(flags.DEFINE_integer, [_IMPORT], "year", None, "Year of a new task.")
define(
    flags.DEFINE_string,
    [_LIST],
    "state",
    None,
    "Only data sets in this state, for example ready or downloadable.",
)
define(
    flags.DEFINE_enum,
    [_PREPARE, _IMPORT],
    "store",
    "array_record",
    _STORES,
    "How images are stored: for TFDS, or (if of one size) as an array.",
)
define(
    flags.DEFINE_multi_string,
    [_PREPARE],
    "from",
    [],
    "A file or directory that you downloaded; may be repeated.",
)
define(
    flags.DEFINE_integer,
    [_PREPARE],
    "jobs",
    None,
    "Number of data sets prepared at the same time; default: the number of cores.",
    lower_bound=1,
)
define(flags.DEFINE_bool, [_PREPARE], "force", False, "Prepare data sets again that are ready.")
define(flags.DEFINE_bool, [_PREPARE], "offline", False, "Download nothing.")
define(flags.DEFINE_bool, [_PREPARE], "unverified", False, "Skip the published checksums.")
define(flags.DEFINE_string, [_SHOW], "out", ".", "Directory of the contact sheet.")


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS)
