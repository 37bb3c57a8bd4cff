"""Annotated images: PASCAL VOC's classes of objects, lists of one class each and crops of acting
people; and COCO json, one example for each annotated box, or for each image.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nevis_stream.datasets.files import Example, FileTree, fill
from nevis_stream.datasets.images import SourceImage
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_json

MIN_CROP = 2  # pixels


def _corners(box: ElementTree.Element, place: str) -> list[int]:
    """Returns left, top, right and bottom of a box."""
    texts = [box.findtext(side) for side in ("xmin", "ymin", "xmax", "ymax")]
    try:
        return [round(float(text or "")) for text in texts]
    except (ValueError, OverflowError):
        raise BadInput(f"{place}: its box is {texts}, not four numbers of pixels.") from None


def _objects(path: Path) -> list[ElementTree.Element]:
    try:
        return ElementTree.parse(path).getroot().findall("object")
    except ElementTree.ParseError as error:
        raise BadInput(f"{path}: cannot be read as xml ({error}).") from None


def read_voc_objects(
    tree: FileTree, *, images: str, sets: Sequence[Mapping[str, str]]
) -> Iterator[Example]:
    """Reads images with the set of classes of their annotated objects.

    Args:
      tree: the folder.
      images: template of an image's name below the root, with `{id}`.
      sets: {part, root, list}: a file lists the ids of a part, one per line.
    """
    for entry in sets:
        for line in tree.lines(f"{entry['root']}/{entry['list']}"):
            image_id = line.split()[0]
            path = tree.path(f"{entry['root']}/{fill(images, {'id': image_id})}")
            annotation = tree.path(f"{entry['root']}/Annotations/{image_id}.xml")
            names = [each.findtext("name") for each in _objects(annotation)]
            if None in names:
                place = f"{annotation}, object {names.index(None) + 1}"
                raise BadInput(f"{place}: has no name, so that its class is unknown.")
            yield Example(entry["part"], image_id, SourceImage(path), frozenset(names))


def read_voc_lists(
    tree: FileTree, *, images: str, sets: Sequence[Mapping[str, str]], kind: str
) -> Iterator[Example]:
    """Reads images from one list per class, with 1, 0 or -1 after each id.

    Args:
      tree: the folder.
      images: template of an image's name below the root, with `{id}`.
      sets: {part, root, lists}: `lists` is a regular expression with the group `label`.
      kind: "last": of several classes the last by name; "all": all of them.
    """
    for entry in sets:
        labels: dict[str, set[str]] = {}
        for name in tree.names:
            match = re.fullmatch(re.escape(entry["root"]) + "/" + entry["lists"], name)
            for line in tree.lines(name) if match else ():
                image_id, present = line.split()[:2]
                if present == "1":
                    labels.setdefault(image_id, set()).add(match["label"])
        for image_id in sorted(labels):
            path = tree.path(f"{entry['root']}/{fill(images, {'id': image_id})}")
            label = max(labels[image_id]) if kind == "last" else frozenset(labels[image_id])
            yield Example(entry["part"], image_id, SourceImage(path), label)


def read_voc_actions(tree: FileTree, *, root: str, list: str) -> Iterator[Example]:
    """Reads one crop for each person whose actions are annotated, with the set of those actions.

    Args:
      tree: the folder.
      root: folder of the development kit's year.
      list: file with the images' ids.
    """
    for image_id in sorted({line.split()[0] for line in tree.lines(f"{root}/{list}")}):
        path = tree.path(f"{root}/JPEGImages/{image_id}.jpg")
        annotation = tree.path(f"{root}/Annotations/{image_id}.xml")
        for position, person in enumerate(_objects(annotation)):
            actions, box = person.find("actions"), person.find("bndbox")
            if actions is None or box is None:
                continue
            place = f"{annotation}, object {position + 1}"
            left, top, right, bottom = _corners(box, place)
            if right - left < MIN_CROP or bottom - top < MIN_CROP:
                continue
            active = frozenset(action.tag for action in actions if float(action.text) == 1)
            crop = SourceImage(path, f"{place}, image {path}", box=(left, top, right, bottom))
            yield Example("all", f"{image_id}#{position:03d}", crop, active)


def read_coco(
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
