"""COCO json: one example for each annotated box, or for each image."""

import json
from collections.abc import Iterator, Mapping, Sequence

from nevis_stream.datasets.layouts.tree import Example, FileTree, fill
from nevis_stream.datasets.source_images import Crop, FileImage
from nevis_stream.errors import BadInput


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
    """
    for entry in sets:
        file = tree.path(entry["annotations"])
        try:
            content = json.loads(file.read_bytes())
            images = {image["id"]: image for image in content["images"]}
            annotations = content["annotations"]
        except (ValueError, KeyError) as error:
            raise BadInput(f"{file}: cannot be read as COCO json ({error!r}).") from None
        names = {category["id"]: category["name"] for category in content["categories"]}
        labels: dict[str, str] = {}
        for annotation in annotations:
            name = fill(entry["images"], images[annotation["image_id"]])
            if not crop:
                labels[name] = names[annotation["category_id"]]
                continue
            left, top, width, height = annotation["bbox"]
            if width < min_side or height < min_side:
                continue
            box = (round(left), round(top), round(left + width), round(top + height))
            label = annotation["category_id"] - 1
            yield Example(
                entry["part"], f"{name}#{annotation['id']:012d}", Crop(tree.path(name), box), label
            )
        for name, label in labels.items():
            yield Example(entry["part"], name, FileImage(tree.path(name)), label)


READERS = {"coco": coco}
