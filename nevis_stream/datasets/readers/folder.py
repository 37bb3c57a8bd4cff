"""A directory with one folder of images per class, below `train/` and `test/` or directly."""

from pathlib import Path

from nevis_stream.datasets.arrangement import Arrangement, arrange, make_from_arrangement
from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.files import check_special, is_image, walk
from nevis_stream.datasets.images import EncodedImages, SourceImage
from nevis_stream.datasets.reading import HIDDEN_IMAGES, NO_IMAGES, Choices, describe_left_out
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_bytes, resolve_path

DESCRIPTION = (
    "a directory with one folder of images per class (below train/ and test/, or directly)"
)


def accepts(path: Path) -> bool:
    """Whether `path` is a directory."""
    return path.is_dir()


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads the images; class ids follow the sorted folder names of all parts together."""
    found = walk(path)
    check_special(path, found.special)
    names = [name for name in found.files if is_image(name)]
    arranged = arrange(str(path), names, found.folders, choices)
    if found.linked:
        _refuse_repeated(path, arranged)

    def images(part_names: list[str]) -> EncodedImages:
        files = [path / name for name in part_names]
        ground = choices.ground()
        return EncodedImages(SourceImage(read_bytes(f), str(f), ground) for f in files)

    others = [name for name in found.files if not is_image(name)]
    hidden = [name for name in found.hidden if is_image(name)]
    outside = [
        *describe_left_out(HIDDEN_IMAGES, hidden),
        *describe_left_out(NO_IMAGES, others),
        *describe_left_out("links that lead nowhere, pipes and devices", list(found.special)),
    ]
    return make_from_arrangement(str(path), dataset_id, arranged, choices, images, outside)


def _refuse_repeated(path: Path, arranged: Arrangement) -> None:
    """Refuses a file that is in two places, through a link."""
    first: dict[Path, Path] = {}
    for part in arranged.images.values():
        for name, _ in part:
            file = path / name
            before = first.setdefault(resolve_path(file), file)
            if before != file:
                raise BadInput(
                    f"{file}: is the same file as {before}, through a link. An image belongs to one"
                    " class of one part: remove one of the two."
                )
