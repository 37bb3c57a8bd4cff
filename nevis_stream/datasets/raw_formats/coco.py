"""COCO json: one example for each annotated box, or for each image."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.tree import Example, FileTree, fill
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_json


def coco(
    tree: FileTree, *, sets: Sequence[Mapping[str, str]], crop: bool = False, min_side: int = 0
) -> Iterator[Example]:
    """Reads annotations.

    Args:
      tree: the folder.
      sets: {part, images, annotations}: `images` is a template with the fields of an image's
        entry.
      crop: one example per box, its class id the category id - 1; else one per image, with the name
        of its last category.
      min_side: boxes narrower or lower than this are left out, in pixels.

    Raises:
      BadInput: an annotation of an image or a category that the file does not list, or with a box
        that is none. A box outside of its image is refused when the image is opened.
    """
    for entry in sets:
        file = tree.path(entry["annotations"])
        try:
            content = read_json(file)
            images = {image["id"]: image for image in content["images"]}
            annotations = content["annotations"]
            names = {category["id"]: category["name"] for category in content["categories"]}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{file}: cannot be read as COCO json ({error!r}).") from None
        labels: dict[str, str] = {}
        for position, annotation in enumerate(annotations):
            place = f"{file}, annotation {annotation.get('id', position)}"
            category = _entry(annotation, "category_id", names, place)
            name = fill(entry["images"], _entry(annotation, "image_id", images, place))
            if not crop:
                labels[name] = category
                continue
            left, top, width, height = _box(annotation.get("bbox"), place)
            if width < min_side or height < min_side:
                continue
            corners = (round(left), round(top), round(left + width), round(top + height))
            yield Example(
                entry["part"],
                f"{name}#{annotation['id']:012d}",
                SourceImage(path := tree.path(name), f"{place}, image {path}", box=corners),
                annotation["category_id"] - 1,
            )
        for name, label in labels.items():
            yield Example(entry["part"], name, SourceImage(tree.path(name)), label)


def _entry(annotation: Mapping[str, Any], key: str, known: Mapping[Any, Any], place: str) -> Any:
    """Returns the image or category that an annotation names.

    Raises:
      BadInput: the file has none of that number.
    """
    number = annotation.get(key)
    if number not in known:
        what = key.removesuffix("_id")
        raise BadInput(
            f"{place}: is of {what} {number!r}, which the file does not list. Correct the"
            f" annotation, or add the {what}."
        )
    return known[number]


def _box(box: Any, place: str) -> Sequence[float]:
    numbers = isinstance(box, list) and all(isinstance(n, int | float) for n in box)
    if not numbers or len(box) != 4 or not all(map(math.isfinite, box)):
        raise BadInput(f"{place}: bbox is {box!r}, not left, top, width and height in pixels.")
    return box
