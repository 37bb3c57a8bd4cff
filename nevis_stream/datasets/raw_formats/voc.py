"""PASCAL VOC: the classes of annotated objects, lists of one class each, crops of acting people."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.tree import Example, FileTree, fill
from nevis_stream.errors import BadInput

MIN_CROP = 2


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


def voc_objects(
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
            number = line.split()[0]
            path = tree.path(f"{entry['root']}/{fill(images, {'id': number})}")
            annotation = tree.path(f"{entry['root']}/Annotations/{number}.xml")
            names = [each.findtext("name") for each in _objects(annotation)]
            if None in names:
                place = f"{annotation}, object {names.index(None) + 1}"
                raise BadInput(f"{place}: has no name, so that its class is unknown.")
            yield Example(entry["part"], number, SourceImage(path), frozenset(names))


def voc_lists(
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
                number, present = line.split()[:2]
                if present == "1":
                    labels.setdefault(number, set()).add(match["label"])
        for number in sorted(labels):
            path = tree.path(f"{entry['root']}/{fill(images, {'id': number})}")
            label = max(labels[number]) if kind == "last" else frozenset(labels[number])
            yield Example(entry["part"], number, SourceImage(path), label)


def voc_actions(tree: FileTree, *, root: str, list: str) -> Iterator[Example]:
    """Reads one crop for each person whose actions are annotated, with the set of those actions.

    Args:
      tree: the folder.
      root: folder of the development kit's year.
      list: file with the images' ids.
    """
    for number in sorted({line.split()[0] for line in tree.lines(f"{root}/{list}")}):
        path = tree.path(f"{root}/JPEGImages/{number}.jpg")
        annotation = tree.path(f"{root}/Annotations/{number}.xml")
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
            yield Example("all", f"{number}#{position:03d}", crop, active)
