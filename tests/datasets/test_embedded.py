"""Embedded data sets: deterministic, as documented, split honestly, not trivial, never online."""

import itertools
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import pico_contact_sheet
from nevis_stream import catalogue
from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.datasets.embedded import DATASETS, packaged, patches, rendered
from nevis_stream.datasets.sources import build_embedded
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput
from tests import forked

NAMES = tuple(DATASETS)
LABELLED = {
    "pico_scenes": patches.label_scenes,
    "pico_textures": patches.label_textures,
    "pico_tissue": patches.label_tissue,
}
WITH_BOXES = ("pico_coins", "pico_mosaic", *LABELLED)
DOCUMENT = Path(__file__).parents[2] / "docs" / "pico.md"


def boxes_of(name):
    """The boxes of each part that a data set is cut from."""
    if name == "pico_coins":
        return rendered.find_coin_boxes()
    if name == "pico_mosaic":
        return {
            part: [box for four in plan for box in four] for part, plan in patches.plan_mosaics()
        }
    return {part: [box for box, _ in pairs] for part, pairs in LABELLED[name]().items()}


@pytest.fixture(scope="module")
def built():
    """All data sets, built while every attempt to reach the network is an error."""

    def refuse(*_, **__):
        raise AssertionError("an embedded data set reached for the network")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("socket", "create_connection", "getaddrinfo"):
            patch.setattr(socket, name, refuse)
        return {name: build_embedded(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_two_builds_are_equal(built, name):
    assert build_embedded(name).fingerprint() == built[name].fingerprint()


def test_a_fresh_process_builds_the_same_and_imports_no_carrier(built):
    code = (
        "import sys\n"
        "from nevis_stream.datasets.embedded import DATASETS\n"
        "from nevis_stream.datasets.sources import build_embedded\n"
        "print(*[build_embedded(n).fingerprint() for n in DATASETS])\n"
        "heavy = ('sklearn', 'skimage', 'matplotlib', 'scipy', 'jax')\n"
        "print(*[m for m in heavy if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    prints, loaded = shown.split("\n")[:2]
    assert prints.split() == [built[name].fingerprint() for name in NAMES]
    assert loaded == ""


def test_commands_of_tests_find_them_built(tmp_path):
    """Without them, and where what is forked cannot start, each test of a command takes seconds."""
    program = tmp_path / "program.py"
    program.write_text(
        "from nevis_stream.datasets import sources\n"
        "print(sources.build_embedded.cache_info().currsize)\n"
    )
    assert forked.run("tests.program", program).stdout == f"{len(NAMES)}\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_function_states_what_is_real_and_what_is_in_test(name):
    about = DATASETS[name].__doc__
    assert about.startswith(f"{name}: ")
    assert re.search(r"\b(Real|Rendered)\b", about) and re.search(r"(?i)test", about)


def documented_rows():
    """Cells of the table of docs/pico.md that the contact sheet's script prints, by data set."""
    lines = (
        DOCUMENT.read_text()
        .split(pico_contact_sheet.HEADER)[1]
        .strip()
        .split("\n\n")[0]
        .splitlines()[1:]
    )
    return {(cells := [c.strip() for c in line.strip("|").split("|")])[0]: cells for line in lines}


def test_the_document_describes_every_data_set():
    assert set(documented_rows()) == set(NAMES)
    text = DOCUMENT.read_text()
    assert all(f"`{name}`" in text for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_counts_classes_sizes_and_baselines_are_as_documented(built, name):
    now = [c.strip() for c in pico_contact_sheet.format_row(built[name]).strip("|").split("|")]
    then = documented_rows()[name]
    assert now[:5] == then[:5]
    # Rendering may differ a little between versions of Pillow and FreeType.
    assert [float(v) for v in now[5:]] == pytest.approx([float(v) for v in then[5:]], abs=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_nearest_neighbours_beat_a_constant(built, name):
    nearest, constant = pico_contact_sheet.measure_baselines(built[name])
    assert nearest > constant


def test_most_tasks_are_not_trivial(built):
    nearest = [pico_contact_sheet.measure_baselines(built[name])[0] for name in NAMES]
    assert np.median(nearest) < 0.8 and max(nearest) < 1


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_small(built, name):
    dataset = built[name]
    sides = np.concatenate([part.images.sizes for part in dataset.parts.values()])
    assert 200 <= sum(map(len, dataset.parts.values())) <= 2000
    assert sides.min() >= 8 and sides.max() <= 64


@pytest.mark.parametrize("name", NAMES)
def test_no_image_occurs_twice(built, name):
    hashes = [h for part in built[name].parts.values() for h in part.images.content_hashes()]
    assert len(set(hashes)) == len(hashes)


def test_no_test_image_is_a_train_image_of_another_task(built):
    test, train = set(), set()
    for dataset in built.values():
        splits = divide(dataset)
        test |= set(splits["test"].images.content_hashes())
        train |= set(splits["train"].images.content_hashes())
    assert not test & train


def boxes(part):
    return [box for name in WITH_BOXES for box in boxes_of(name)[part]]


def test_train_and_test_regions_share_no_pixel_even_between_data_sets():
    masks = {}
    for part in ("train", "test"):
        for box in boxes(part):
            mask = masks.setdefault((part, box.image), np.zeros((1000, 1000), bool))
            box.cut(mask)[:] = True
    images = {image for _, image in masks}
    assert images == {p for part, p in masks if part == "test"}
    for image in images:
        assert not (masks["train", image] & masks["test", image]).any(), image


@pytest.mark.parametrize("name", [n for n in WITH_BOXES if n != "pico_mosaic"])
def test_boxes_of_a_part_do_not_overlap(name):
    for part in boxes_of(name).values():
        assert not any(a.overlaps(b) for a, b in itertools.combinations(part, 2))


@pytest.mark.parametrize("name", WITH_BOXES)
def test_boxes_lie_inside_their_images(name):
    shapes = {}
    for part in boxes_of(name).values():
        for box in part:
            if box.image not in shapes:
                shrink = 3 if box.image == "retina" else 1
                shapes[box.image] = packaged.read_image(box.image, shrink=shrink).shape
            height, width = shapes[box.image][:2]
            assert box.top >= 0 and box.left >= 0
            assert box.top + box.height <= height and box.left + box.width <= width


@pytest.mark.parametrize("name", ["pico_scenes", "pico_textures", "pico_tissue"])
def test_boxes_are_those_of_the_images(built, name):
    for part, result in boxes_of(name).items():
        sizes = [[box.height, box.width] for box in result]
        assert built[name].parts[part].images.sizes.tolist() == sizes


def test_fonts_of_train_and_test_are_disjoint():
    families = {
        part: {
            "dejavu" if f.startswith("DejaVu") else "stix" if f.startswith("STIX") else "cm"
            for f in fonts
        }
        for part, fonts in rendered.FONTS.items()
    }
    assert families == {"train": {"dejavu"}, "test": {"stix", "cm"}}
    assert not set(rendered.FONTS["train"]) & set(rendered.FONTS["test"])


@pytest.mark.parametrize("name", NAMES)
def test_every_class_is_in_every_part(built, name):
    dataset = built[name]
    for part in dataset.parts.values():
        if dataset.kind == MULTI_LABEL:
            assert set(np.unique(part.labels)) == {0, 1}
            assert (part.labels.mean(axis=0) > 0).all() and (part.labels.mean(axis=0) < 1).all()
        else:
            assert set(part.labels.tolist()) == set(range(dataset.num_classes))


def test_the_faces_are_the_first_half(built):
    part = built["pico_faces"].parts["train"]
    assert part.labels.tolist() == [1] * packaged.TRAIN_FACES + [0] * packaged.TRAIN_FACES


def test_region_leaves_a_gap_and_grid_stays_inside():
    for shape in ((100, 120), (100, 200, 3)):
        train, test = (patches.find_region("any", shape, part) for part in ("train", "test"))
        apart = max(test.top - train.height, test.left - train.width)
        assert apart == patches.GAP and not train.overlaps(test)
        assert 0.28 < test.height * test.width / (shape[0] * shape[1]) < 0.32
        tiles = patches.tile_box(test, 10)
        assert len(tiles) == (test.height // 10) * (test.width // 10)
        assert all(tile.overlaps(test) and not tile.overlaps(train) for tile in tiles)


def test_shelves_fill_without_overlap():
    area = patches.Box("any", 5, 7, 90, 110)
    result = patches.fill_with_boxes(area, 12, 30, np.random.RandomState(0))
    assert not any(a.overlaps(b) for a, b in itertools.combinations(result, 2))
    assert all(12 <= side <= 30 for box in result for side in (box.height, box.width))
    assert sum(box.height * box.width for box in result) > 0.6 * area.height * area.width


def test_levelled_gives_the_wanted_mean_and_spread():
    patch = np.random.RandomState(0).randint(90, 110, (40, 40)).astype(np.uint8)
    out = patches.standardise_grey(patch, 128, 30)
    assert out.mean() == pytest.approx(128, abs=1) and out.std() == pytest.approx(30, abs=1)
    assert set(patches.standardise_grey(np.full((4, 4), 9, np.uint8), 128, 30).ravel()) == {128}


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(BadInput, match="'pico_digits'.*pico_textures"):
        build_embedded("pico_digit")
    with pytest.raises(BadInput, match="'bricks'.*'brick'"):
        packaged.read_image("bricks")


def test_a_missing_file_names_package_file_and_version():
    with pytest.raises(
        BadInput, match=r"scikit-image has no file data/gone.png.*0\.26\.0.*pip install"
    ):
        packaged.find("skimage", "data/gone.png")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(packaged.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match="scikit-learn is not installed.*digits"):
        packaged.find("sklearn", "datasets/data/digits.csv.gz")


def test_a_file_that_cannot_be_decoded_is_named(monkeypatch, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not an image")
    monkeypatch.setattr(packaged, "find", lambda *_: broken)
    with pytest.raises(BadInput, match="broken.png"):
        packaged.read_image("brick")


def read(name):
    return catalogue.read_csv(catalogue.find_stream_path(name))


def test_the_stream_meets_its_plan(built):
    rows, table = read("pico"), catalogue.read_datasets()
    ids = [row["dataset_id"] for row in rows]
    assert 8 <= len(rows) <= 10 and set(ids) == set(NAMES)
    assert all(row["task_id"].startswith("pico_") for row in rows)
    assert len({table[i]["domain"] for i in ids}) >= 5
    assert any(table[i]["kind"] == MULTI_LABEL for i in ids)
    repeats = [row for row in rows if row["task_id"] != row["dataset_id"]]
    assert [row["task_id"] for row in repeats] == [row["dataset_id"] + "_2" for row in repeats]
    first = {i: int(rows[ids.index(i)]["year"]) for i in ids}
    assert len(repeats) == 1 and len(ids) - len(set(ids)) == 1
    assert all(int(r["year"]) - first[r["dataset_id"]] >= 10 for r in repeats)
    assert all(r["meta_split"] == "test" for r in repeats)
    assert sum(row["meta_split"] == "test" for row in rows) >= 3


@pytest.mark.parametrize("stream", ["pico", "pico_plus"])
def test_rows_are_in_order(stream):
    rows = read(stream)
    years = [int(row["year"]) for row in rows]
    assert years == sorted(years)
    assert [int(row["order"]) for row in rows] == list(range(1, len(rows) + 1))
    assert [row["meta_split"] for row in rows] == [
        "test" if year >= 2019 else "train" for year in years
    ]
    assert {row["dataset_id"] for row in rows} <= set(catalogue.read_datasets())


def test_pico_plus_contains_pico():
    def key(row):
        return row["year"], row["task_id"], row["dataset_id"], row["meta_split"]

    plus = [key(row) for row in read("pico_plus")]
    assert [row for row in plus if row[1].startswith("pico_")] == [key(row) for row in read("pico")]
    assert {row[1] for row in plus if not row[1].startswith("pico_")} == {
        "mnist", "usps", "semeion", "coil20", "fashion_mnist", "voc2007"
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_catalogue_describes_the_data_set(built, name):
    row = catalogue.read_datasets()[name]
    assert (row["kind"], int(row["num_classes"])) == (built[name].kind, built[name].num_classes)
    assert row["source"] == f"embedded:{name}"
