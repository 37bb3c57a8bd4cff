"""Data sets: list, prepare, import, verify, inspect.

  python -m launch.data list --stream=full                     the stream as a table, with the state of each data set here
  python -m launch.data list --stream=full --format=csv        the same for programs
  python -m launch.data prepare --stream=short                 fetch, verify, read, split, remove duplicates, write
  python -m launch.data prepare --task=voc2007 --from=FOLDER   from files that you have
  python -m launch.data import FILE --task=mnist               an .npz, an image folder or a zip with labels.csv, as a task
  python -m launch.data import FILE --task=new --year=2024 --domain=object
  python -m launch.data verify                                 prepared data against their recorded fingerprints
  python -m launch.data show mnist --out=sheets                counts, histograms and a contact sheet (PNG)
  python -m launch.data overlap --stream=local25               test pictures that earlier tasks train on

Prepared data are kept in --data_dir, else NEVIS_STREAM_DATA, else the user's cache folder. `prepare`
continues an interrupted preparation, skips what is ready, and ends with what to do for each data set
that is not.
"""  # noqa: E501

import os
from pathlib import Path

from absl import flags

from launch import entry
from nevis_stream.vocabulary import TASK_KINDS

COMMANDS = ("list", "prepare", "import", "verify", "show", "overlap")

_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Root of prepared data; default: NEVIS_STREAM_DATA, else the cache folder."
)
_STREAM = flags.DEFINE_string(
    "stream", None, "Name or csv of a stream (list, prepare, overlap; default of list: full)."
)
_TASK = flags.DEFINE_list(
    "task", [], "Ids of data sets or tasks, separated by commas (prepare, import, verify)."
)
_FORMAT = flags.DEFINE_enum("format", "table", ["table", "csv"], "How `list` and `overlap` print.")
_STORE = flags.DEFINE_enum(
    "store",
    "array_record",
    ["array_record", "raw"],
    "How pictures are stored: for TFDS, or (of one size) as an array.",
)
_FROM = flags.DEFINE_multi_string(
    "from", [], "A file or folder with downloaded files (prepare); may be repeated."
)
_JOBS = flags.DEFINE_integer(
    "jobs",
    None,
    "Data sets prepared at the same time; default: the number of cores.",
    lower_bound=1,
)
_FORCE = flags.DEFINE_bool("force", False, "Prepare data sets again that are ready.")
_OFFLINE = flags.DEFINE_bool("offline", False, "Download nothing (prepare).")
_UNVERIFIED = flags.DEFINE_bool(
    "unverified", False, "Skip the published checksums of files (prepare)."
)
_YEAR = flags.DEFINE_integer("year", None, "Year of a new task (import).")
_DOMAIN = flags.DEFINE_string(
    "domain", None, "Domain of a new task (import); only this domain (list)."
)
_KIND = flags.DEFINE_enum(
    "kind",
    None,
    TASK_KINDS,
    "Kind of an imported task; only this kind (list).",
)
_STATE = flags.DEFINE_string(
    "state", None, "Only data sets in this state: ready, downloadable, … (list)."
)
_OUT = flags.DEFINE_string("out", ".", "Folder of the contact sheet (show).")


def main(argv):
    """Runs one command."""
    from nevis_stream.errors import unknown

    if not argv:
        entry.fail(f"name a command: {', '.join(COMMANDS)}. See: python -m launch.data --help")
    if argv[0] not in COMMANDS:
        entry.fail(unknown("command", argv[0], COMMANDS))
    if _DATA_DIR.value:
        os.environ["NEVIS_STREAM_DATA"] = str(Path(_DATA_DIR.value).absolute())
    command, words = argv[0], argv[1:]
    if words and command not in ("import", "show"):
        entry.fail(
            f"{command} takes flags only, not {words[0]!r}. See: python -m launch.data --help"
        )
    from launch.data_commands import inspecting, listing, preparing

    if command == "list":
        listing.show_list(
            _STREAM.value or "full",
            _FORMAT.value,
            {"domain": _DOMAIN.value, "kind": _KIND.value, "state": _STATE.value},
        )
    elif command == "prepare":
        for place in _FROM.value:
            if not Path(place).exists():
                entry.fail(f"--from={place}: no such file or folder.")
        places = [Path(place).absolute() for place in _FROM.value]
        options = {
            "places": [place if place.is_dir() else place.parent for place in places],
            "form": _STORE.value,
            "download": not _OFFLINE.value,
            "verified": not _UNVERIFIED.value,
            "force": _FORCE.value,
        }
        preparing.prepare(_STREAM.value, _TASK.value, options, _JOBS.value)
    elif command == "import":
        if len(words) != 1 or len(_TASK.value) != 1:
            entry.fail(
                "import takes one file and one task: python -m launch.data import FILE --task=ID"
            )
        preparing.import_file(
            Path(words[0]), _TASK.value[0], _KIND.value, _YEAR.value, _DOMAIN.value, _STORE.value
        )
    elif command == "verify":
        inspecting.verify(_TASK.value)
    elif command == "show":
        if len(words) != 1:
            entry.fail("show takes one task: python -m launch.data show mnist --out=FOLDER")
        inspecting.show(words[0], Path(_OUT.value))
    else:
        if not _STREAM.value:
            entry.fail("overlap needs a stream: python -m launch.data overlap --stream=local25")
        inspecting.overlap(_STREAM.value, _FORMAT.value)


if __name__ == "__main__":
    entry.start(main)
