"""Readers: one raw format per module; the first that accepts a file or folder reads it.

A reader module has `DESCRIPTION` (one line for error messages), `accepts(path) -> bool` and
`read(path, dataset_id, choices) -> DataSet`: what nothing was chosen for is inferred.
`read_dataset` is for users; `read` takes the same choices in one value.
"""

from pathlib import Path

from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.readers import folder, npz, zip_csv
from nevis_stream.datasets.reading import Choices
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import explain_absence
from nevis_stream.storage.tables import check_name

READERS = (folder, npz, zip_csv)


def read(path: Path, dataset_id: str, choices: Choices | None = None) -> DataSet:
    """Reads a file or directory with the first reader that accepts it.

    Args:
      path: the file or directory.
      dataset_id: the name that the sample ids will start with.
      choices: what was chosen; None: nothing.

    Raises:
      BadInput: it does not exist, no reader accepts it, or its content is wrong.
    """
    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path}: {explain_absence(path)} (data set {dataset_id!r}).")
    for reader in READERS:
        if reader.accepts(path):
            return reader.read(path, dataset_id, choices or Choices())
    valid = "; ".join(reader.DESCRIPTION for reader in READERS)
    raise BadInput(f"{path}: not a format that can be read. Valid: {valid}.")


def read_dataset(
    path: str | Path,
    dataset_id: str,
    *,
    parts: str = "",
    class_level: str = "",
    leave_out: str = "",
    background: str = "",
    kind: str = "",
    num_classes: int | None = None,
) -> DataSet:
    """Returns the data set that a folder of images, a zip or an npz contains.

    It prints what was understood and what was left out; both are in `reading` of the data set.
    `Stream.from_datasets` makes a stream of data sets.

    Args:
      path: the file or folder.
      dataset_id: the name that the sample ids will start with.
      parts: which folders, or names of parts, are which part: "val=test", "NAME=PART,…" or "none".
      class_level: "top" or "deepest", where class folders contain folders of images.
      leave_out: folders and images that are left out, by name or pattern: "masks,*_mask.png".
      background: colour behind transparent pixels, a name or "#rrggbb"; "" for white.
      kind: "single_label" or "multi_label", where the labels alone leave it open.
      num_classes: number of classes, where some of them have no sample.

    Raises:
      BadInput: it cannot be read, or in more than one way; the message has the ways and the choice.
    """
    check_name(dataset_id, "dataset_id")
    choices = Choices(parts, class_level, leave_out, background, kind, num_classes)
    return read(Path(path), dataset_id, choices)
