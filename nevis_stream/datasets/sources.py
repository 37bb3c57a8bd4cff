"""Sources: where the bytes of a data set come from, as one string.

`embedded:NAME` is built from images that installed packages carry; `shared:PATH` lies below the folder of shared data sets
(the environment's NEVIS_STREAM_SHARED, else `shared` beside the project); `file:PATH` is a file or directory of the user's.
"""

import os
from pathlib import Path

from nevis_stream.datasets.dataset import DataSet
from nevis_stream.errors import BadInput, unknown

SCHEMES = ("embedded", "shared", "file")


def shared_directory() -> Path:
    """Returns the folder of shared data sets; it need not exist."""
    named = os.environ.get("NEVIS_STREAM_SHARED")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared"


def load(dataset_id: str, source: str, kind: str | None = None, num_classes: int | None = None) -> DataSet:
    """Loads a data set.

    Args:
      dataset_id: the name that the sample ids will start with.
      source: a string as the module says.
      kind: "single_label", "multi_label", or None to infer it from a file.
      num_classes: number of classes, or None to infer it from a file.

    Raises:
      BadInput: unknown scheme, missing file (with the way to get it), or wrong content.
    """
    scheme, _, rest = source.partition(":")
    if scheme == "embedded":
        from nevis_stream.datasets import embedded

        return embedded.build(rest)
    from nevis_stream.datasets.readers import read

    if scheme == "shared":
        path = shared_directory() / rest
        if not path.exists():
            raise BadInput(
                f"data set {dataset_id!r}: {path} is not there. Put the file there, or name the folder of shared data "
                "sets in the environment variable NEVIS_STREAM_SHARED."
            )
        return read(path, dataset_id, kind, num_classes)
    if scheme == "file":
        return read(Path(rest), dataset_id, kind, num_classes)
    raise BadInput(f"data set {dataset_id!r}: {unknown('source scheme', scheme, SCHEMES)}")
