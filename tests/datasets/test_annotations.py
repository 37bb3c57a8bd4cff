"""Annotations that refer to nothing, or to a place outside of their image, are named."""

import json

import numpy as np
import pytest
from PIL import Image

from nevis_stream.datasets.files import FileTree
from nevis_stream.datasets.preparation.content import from_examples
from nevis_stream.datasets.raw_formats.annotations import (
    read_coco,
    read_voc_actions,
    read_voc_objects,
)
from nevis_stream.datasets.raw_formats.table import read_tables
from nevis_stream.errors import BadInput
from nevis_stream.progress import SILENT

SETS = [{"part": "train", "images": "{file_name}", "annotations": "a.json"}]


def picture(folder):
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(folder / "0.jpg")


def annotated(folder, mark=b"", **changes):
    picture(folder)
    one = {"id": 5, "image_id": 1, "category_id": 1, "bbox": [2, 2, 10, 10]} | changes
    content = {
        "images": [{"id": 1, "file_name": "0.jpg"}],
        "categories": [{"id": 1, "name": "x"}],
        "annotations": [one],
    }
    (folder / "a.json").write_bytes(mark + json.dumps(content).encode())
    return read_coco(FileTree(folder), sets=SETS, crop=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_id": 7}, r"a\.json, annotation 5: is of image 7, which the file does not list"),
        ({"category_id": 9}, r"a\.json, annotation 5: is of category 9, which"),
        ({"bbox": [1, 2, 3]}, r"a\.json, annotation 5: bbox is \[1, 2, 3\], not left, top"),
        ({"bbox": None}, "annotation 5: bbox is None"),
        ({"bbox": [1, 2, float("nan"), 3]}, "annotation 5: bbox is .*nan"),
    ],
)
def test_a_coco_annotation_of_nothing_is_named(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        list(annotated(tmp_path, **changes))


@pytest.mark.parametrize("box", [[40, 5, 10, 10], [5, 5, 0, 4], [30, 0, 5, 5], [-9, 0, 9, 5]])
def test_a_box_outside_of_its_image_is_named(tmp_path, box):
    examples = list(annotated(tmp_path, bbox=box))
    with pytest.raises(BadInput, match=r"a\.json, annotation 5, image .*0\.jpg: the box from"):
        from_examples("x", examples, {}, "single_label", 1, 3, "x", SILENT)


@pytest.mark.parametrize(
    ("box", "size"),
    [([2, 2, 10, 9], (10, 9)), ([25, 5, 20, 10], (5, 10)), ([-5, -5, 12, 12], (7, 7))],
)
def test_a_box_is_cut_to_its_image(tmp_path, box, size):
    (example,) = annotated(tmp_path, b"\xef\xbb\xbf", bbox=box)
    assert example.image.open().size == size


def test_voc_annotations_without_a_name_or_a_box(tmp_path):
    for folder in ("Annotations", "JPEGImages"):
        (tmp_path / "voc" / folder).mkdir(parents=True)
    picture(tmp_path / "voc" / "JPEGImages")
    (tmp_path / "voc" / "list.txt").write_text("0\n")
    xml = tmp_path / "voc" / "Annotations" / "0.xml"
    xml.write_text("<annotation><object><pose/></object></annotation>")
    sets = [{"part": "train", "root": "voc", "list": "list.txt"}]
    with pytest.raises(BadInput, match=r"0\.xml, object 1: has no name"):
        list(read_voc_objects(FileTree(tmp_path), images="JPEGImages/{id}.jpg", sets=sets))
    box = "<bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>{}</xmax><ymax>9</ymax></bndbox>"
    person = "<annotation><object><actions><run>1</run></actions>{}</object></annotation>"
    xml.write_text(person.format(box.format("", 9)))
    with pytest.raises(BadInput, match=r"0\.xml, object 1: its box is \['', '1', '9', '9'\]"):
        list(read_voc_actions(FileTree(tmp_path), root="voc", list="list.txt"))
    xml.write_text(person.format(box.format(40, 60)))
    (example,) = read_voc_actions(FileTree(tmp_path), root="voc", list="list.txt")
    with pytest.raises(BadInput, match=r"0\.xml, object 1, image .*0\.jpg: the box from \(40, 1\)"):
        example.image.open()


def test_a_table_with_an_unknown_part_or_image(tmp_path):
    picture(tmp_path)
    (tmp_path / "a.csv").write_text("image,set,label\n0.jpg,9,x\n")
    options = {"delimiter": ",", "image": "{image}", "label": "{label}", "header": True}
    tables = [{"file": "a.csv", "part": "train"}]
    with pytest.raises(BadInput, match=r"0\.jpg: part '9' is not listed"):
        list(
            read_tables(
                FileTree(tmp_path), tables=tables, part="{set}", parts={"1": "train"}, **options
            )
        )
    (tmp_path / "a.csv").write_text("image,set,label\n7.jpg,1,x\n")
    with pytest.raises(BadInput, match=r"no file '7\.jpg'"):
        list(read_tables(FileTree(tmp_path), tables=tables, **options))
    (tmp_path / "a.csv").write_text(f"image,set,label\n0.jpg,1,{'x' * 140_000}\n")
    with pytest.raises(BadInput, match=r"a\.csv, line 2: is not csv"):
        list(read_tables(FileTree(tmp_path), tables=tables, **options))
