"""Makers of tiny archives in the published raw layouts, second part; extras that readers must leave
out are among them.
"""

import functools
import inspect
import io
import json
import pickle
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy.io

from tests.datasets.archives.making import (
    DrawnImages,
    Expected,
    tar_bytes,
    write_gz,
    write_tar,
    write_zip,
)


def _files(
    pictures: DrawnImages, names: Iterable[str], size: int = 8, channels: int = 3
) -> dict[str, bytes]:
    return {name: pictures.file(name.rsplit(".", 1)[1], size, size, channels) for name in names}


def _lines(*rows: object) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _cells(items: Iterable, row: bool = False) -> np.ndarray:
    items = list(items)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array[None] if row else array[:, None]


def _mat(**values: object) -> bytes:
    with io.BytesIO() as buffer:
        scipy.io.savemat(buffer, values)
        return buffer.getvalue()


class _Python2Pickler(pickle._Pickler):
    """Writes text and bytes as Python 2 strings, as the published CIFAR pickles have them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        data = value.encode() if isinstance(value, str) else value
        self.write(
            (b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data)))
            + data
        )
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def _pickle(value: object) -> bytes:
    with io.BytesIO() as buffer:
        _Python2Pickler(buffer, 2).dump(value)
        return buffer.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def umd(folder: Path) -> Expected:
    pictures = DrawnImages()
    for part, classes in enumerate((range(1, 13), range(13, 26)), 1):
        names = [f"{c}/{c}-{i:02d}.jpg" for c in classes for i in range(1, 5)]
        write_zip(
            folder / f"textures-{part}.zip",
            _files(pictures, names, 8, 1) | {f"{classes[0]}/Thumbs.db": b"x"},
        )
    return Expected({"all": 100}, 25)


def _kth(folder: Path, stem: str, root: str, classes: str, samples: str) -> Expected:
    names = [
        f"{root}/{name}/"
        + (f"sample_{s}/" if s else "")
        + f"{15 + c}{s or ''}-scale_{scale}_im_{scale}_col.png"
        for c, name in enumerate(classes.split())
        for s in samples or [""]
        for scale in ((2, 10) if samples else (1, 5, 9))
    ]
    write_tar(
        folder / f"{stem}_col_200x200.tar",
        {f"{root}/README.txt": b"readme"} | _files(DrawnImages(), names, 72),
    )
    return Expected({"all": len(names)}, len(classes.split()))


_KTH = (
    "aluminium_foil brown_bread corduroy cotton cracker linen orange_peel sandpaper sponge"
    " styrofoam"
)
_KTH2 = (
    "aluminium_foil brown_bread corduroy cork cotton cracker lettuce_leaf linen white_bread wood"
    " wool"
)
_KTH_MAKERS = {
    "kth_tips": functools.partial(_kth, stem="kth_tips", root="KTH_TIPS", classes=_KTH, samples=""),
    "kth_tips2a": functools.partial(
        _kth, stem="kth-tips2-a", root="KTH-TIPS2-a", classes=_KTH2, samples="abd"
    ),
    "kth_tips2b": functools.partial(
        _kth, stem="kth-tips2-b", root="KTH-TIPS2-b", classes=_KTH2, samples="abd"
    ),
}


def uiuc_texture(folder: Path) -> Expected:
    pictures = DrawnImages()
    for first in range(1, 26, 5):
        names = [
            f"T{c:02d}/T{c:02d}_{i:02d}.jpg" for c in range(first, first + 5) for i in range(1, 4)
        ]
        dirs = {f"T{c:02d}/": b"" for c in range(first, first + 5)}
        write_zip(
            folder / f"T{first:02d}-T{first + 4:02d}.zip", dirs | _files(pictures, names, 72, 1)
        )
    return Expected({"all": 75}, 25)


def cvc_muscima(folder: Path) -> Expected:
    pages = [f"w-{w:02d}/p{p:03d}.png" for w in range(1, 51) for p in range(1, 6)]
    kinds = ("PNG_GT_BW", "PNG_GT_Gray")
    names = [f"CVCMUSCIMA_WI/{kind}/{page}" for kind in kinds for page in pages]
    write_zip(folder / "CVCMUSCIMA_WI.zip", _files(DrawnImages(), names, 8, 1))
    lists = {}
    for fold in (1, 2):
        chosen = {"training": [(fold + i) % 5 for i in range(3)], "testing": [(fold + 3) % 5]}
        for part, columns in chosen.items():
            rows = [page for i, page in enumerate(pages) if i % 5 in columns]
            lists[f"Partitions_Set/set_2_Independent/set_2_{part}_{fold:02d}.txt"] = _lines(*rows)
            lists[f"Partitions_Set/set_1_Dependent/set_1_{part}_{fold:02d}.txt"] = _lines(
                *rows[::2]
            )
    write_zip(folder / "Partitions_Set.zip", lists)
    return Expected({"train": 150, "test": 50}, 50)


def iaprtc12(folder: Path) -> Expected:
    pictures, random = DrawnImages(), np.random.RandomState(0)
    members, ids = {}, {"training": [], "validation": [], "testing": []}
    used = 0
    for number in range(41):
        place = f"benchmark/saiapr_tc-12/{number:02d}"
        rows = []
        for i in range(5):
            image = 1000 * number + i + 1
            part = ("training", "training", "training", "validation", "testing")[i]
            ids[part].append(image)
            labels = [*random.randint(1, 277, 2)]
            if part != "testing":
                labels = [2 * used % 276 + 1, 2 * used % 276 + 2, labels[0], 2 * used % 276 + 1]
                used += 1
            rows += [f"{image}\t{region}\t{label}" for region, label in enumerate(labels, 1)]
            data = pictures.file("jpg")
            members[f"{place}/images/{image}.jpg"] = members[
                f"saiaprtc12ok/{place}/images/{image}.jpg"
            ] = data
            members[f"saiaprtc12ok/{place}/segmented_images/{image}.jpg"] = pictures.file("jpg")
        members[f"saiaprtc12ok/{place}/labels.txt"] = _lines(*rows)
    names = [f"{i}\t{'' if i == 1 else f'label-{i}'}" for i in range(1, 277)]
    members["saiaprtc12ok/benchmark/wlist.txt"] = _lines(*names)
    for part, values in ids.items():
        members[f"saiaprtc12ok/matlab/matlab/{part}.mat"] = _mat(
            **{part: np.array(values, dtype=np.float64)[:, None]}
        )
    write_zip(folder / "iapr-tc12.zip", members)
    return Expected({"all": used}, 276)


def sketch(folder: Path) -> Expected:
    classes = [f"{'bear (animal) ' if c % 9 == 0 else 't-shirt '}{c}" for c in range(250)]
    files = _files(
        DrawnImages(),
        [f"png/{name}/{2 * c + i + 1}.png" for c, name in enumerate(classes) for i in (0, 1)],
        4,
        1,
    )
    write_zip(
        folder / "sketches_png.zip",
        files | {"png/filelist.txt": _lines(*[name[4:] for name in files])},
    )
    return Expected({"all": 500}, 250)


_VOC = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike"
    " person pottedplant sheep sofa"
)
_VOC_CLASSES = [*_VOC.split(), "train", "tvmonitor"]
_ACTIONS = (
    "jumping other phoning playinginstrument reading ridingbike ridinghorse running takingphoto"
    " usingcomputer walking"
)
_BOXES = ((2, 1, 20, 30), (9.6, 3, 31, 28.4))


def _voc_object(name: str, box: tuple, actions: Iterable[str] | None) -> str:
    flags = (
        "".join(f"<{a}>{int(a in actions)}</{a}>" for a in _ACTIONS.split())
        if actions is not None
        else ""
    )
    corners = "".join(
        f"<{side}>{value}</{side}>"
        for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    part = "<part><name>head</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>7</xmax><ymax>7</ymax></bndbox></part>"  # noqa: E501
    extra = (
        f"<actions>{flags}</actions><point><x>5</x><y>6</y></point>"
        if flags
        else part
        if name == "person"
        else ""
    )
    return f"<object><name>{name}</name><difficult>0</difficult><bndbox>{corners}</bndbox>{extra}</object>"  # noqa: E501


def _voc() -> dict[str, bytes]:
    """VOC 2012 trainval: 40 training and 21 validation images of 20 classes, and 30 images of 2
    people each in 11 actions.
    """
    root, pictures, members, lists = "VOCdevkit/VOC2012", DrawnImages(), {}, {}

    def add(image, objects):
        members[f"{root}/JPEGImages/{image}.jpg"] = pictures.file("jpg", 32, 32)
        head = f"<folder>VOC2012</folder><filename>{image}.jpg</filename><source><image>flickr</image></source>"  # noqa: E501
        members[f"{root}/Annotations/{image}.xml"] = (
            f"<annotation>{head}{''.join(objects)}</annotation>".encode()
        )

    for i in range(61):
        image, part = f"2008_{i * 3 + 2:06d}", "train" if i < 40 else "val"
        present = {_VOC_CLASSES[i % 20], _VOC_CLASSES[(7 * i + 3) % 20]}
        add(
            image,
            [
                _voc_object(name, box, None)
                for name, box in zip(sorted(present), _BOXES, strict=True)
            ],
        )
        members[f"{root}/SegmentationClass/{image}.png"] = pictures.file("png", 8, 8, 1)
        for each in (part, "trainval"):
            lists.setdefault(f"Main/{each}", []).append(image)
            lists.setdefault(f"Segmentation/{each}", []).append(image)
            for name in _VOC_CLASSES:
                lists.setdefault(f"Main/{name}_{each}", []).append(
                    f"{image} {1 if name in present else -1:2d}"
                )
    for i in range(30):
        image, objects, actions = f"2010_{i * 5 + 1:06d}", [], _ACTIONS.split()
        for person, box in enumerate(_BOXES, 1):
            j = 2 * i + person
            active = {actions[j % 11]} | ({actions[j // 4 % 9 + 2]} if j % 4 == 0 else set())
            objects.append(_voc_object("person", box, active))
            for each in ("train" if i % 2 else "val", "trainval"):
                lists.setdefault(f"Action/{each}", []).append(f"{image}  {person}")
                for name in actions:
                    if name != "other":
                        row = f"{image}  {person} {1 if name in active else -1:2d}"
                        lists.setdefault(f"Action/{name}_{each}", []).append(row)
        add(image, objects)
    return members | {f"{root}/ImageSets/{name}.txt": _lines(*rows) for name, rows in lists.items()}


def voc2012(folder: Path) -> Expected:
    write_tar(folder / "VOCtrainval_11-May-2012.tar", _voc())
    return Expected({"train": 40, "validation": 21}, 20)


def voc_actions(folder: Path) -> Expected:
    write_tar(folder / "VOCtrainval_11-May-2012.tar", _voc())
    test = {"VOCdevkit/VOC2012/ImageSets/Action/jumping_test.txt": _lines("2011_000001  1")}
    write_tar(
        folder / "VOC2012test.tar",
        test | _files(DrawnImages(1), ["VOCdevkit/VOC2012/JPEGImages/2011_000001.jpg"]),
    )
    return Expected({"all": 60}, 11)


def small_norb(folder: Path) -> Expected:
    random = np.random.RandomState(0)

    def matrix(array):
        kind = 0x1E3D4C55 if array.dtype == np.uint8 else 0x1E3D4C54
        dims = [*array.shape, *[1] * (3 - array.ndim)]
        return np.array([kind, array.ndim, *dims], "<i4").tobytes() + array.tobytes()

    stems = {
        "5x46789x9x18x6x2x96x96-training": (4, 6, 7, 8, 9),
        "5x01235x9x18x6x2x96x96-testing": (0, 1, 2, 3, 5),
    }
    for stem, instances in stems.items():
        rows = random.permutation(
            [(c, i, e, 2 * e, e) for c in range(5) for i in instances for e in (0, 5)]
        ).astype("<i4")
        dat = random.randint(0, 256, (len(rows), 2, 96, 96), dtype=np.uint8)
        for kind, array in {"dat": dat, "cat": rows[:, 0], "info": rows[:, 1:]}.items():
            write_gz(folder / f"smallnorb-{stem}-{kind}.mat.gz", matrix(array))
    return Expected({"train": 30, "dev": 10, "dev_test": 10, "test": 50}, 5)


def wikipaintings(folder: Path) -> Expected:
    names = [f"Style_{c:02d}/artist-{i}_a-title-{c}.jpg" for c in range(27) for i in range(4)]
    members = _files(DrawnImages(), [f"wikiart/{name}" for name in names])
    members |= {
        "wikiart/Style_00/unreadable.jpg": b"UNREADABLE!",
        "wikiart/Style_00/unlisted.jpg": DrawnImages(1).file("jpg"),
    }
    write_zip(folder / "wikiart.zip", members)
    rows = {"train": [], "val": []}
    for i, name in enumerate(names):
        rows["val" if i % 4 == 3 else "train"].append(f"{name},{int(name[6:8])}")
    rows["train"].insert(40, "Style_00/unreadable.jpg,0")
    lists = {f"style_{part}.csv": _lines(*values) for part, values in rows.items()}
    lists |= {f"genre_{part}.csv": _lines(*values[:9]) for part, values in rows.items()}
    write_zip(
        folder / "wikiart_csv.zip",
        lists | {"style_class.txt": _lines(*[f"{c} Style_{c:02d}" for c in range(27)])},
    )
    return Expected({"train": 81, "test": 27}, 27)


def mit_scenes(folder: Path) -> Expected:
    names = [f"scene_{c}/scene_{c}_{i}_altavista.jpg" for c in range(67) for i in range(5)]
    members = _files(DrawnImages(), [f"indoorCVPR_09/Images/{name}" for name in names])
    members |= {
        f"indoorCVPR_09annotations/Annotations/{name[:-4]}.xml": b"<annotation/>"
        for name in names[::5]
    }
    for part, columns in {"Train": (0, 1, 3), "Test": (2,)}.items():
        members[f"{part}Images.txt"] = "\n".join(
            name for i, name in enumerate(names) if i % 5 in columns
        ).encode()
    write_zip(folder / "indoor-scenes-cvpr-2019.zip", members)
    return Expected({"train": 201, "test": 67}, 67)


def sun397(folder: Path) -> Expected:
    places = []
    for i in range(397):
        place = f"{chr(97 + i // 2 % 26)}/place_{i // 2}"
        places.append(
            place + (("/indoor", "/outdoor") if i // 2 % 3 == 0 else ("", "_room"))[i % 2]
        )
    names = [
        f"SUN397/{place}/sun_a{chr(97 + i)}{place[0]}{n:04d}.jpg"
        for n, place in enumerate(places)
        for i in (0, 1)
    ]
    listing = {
        "SUN397/ClassName.txt": _lines(*[f"/{place}" for place in places]),
        "SUN397/README.txt": b"readme",
    }
    write_tar(folder / "SUN397.tar.gz", listing | _files(DrawnImages(), names, 4))
    return Expected({"all": len(names)}, 397)


def _cifar(pictures: DrawnImages, name: str, labels: list[int], fine: bool) -> bytes:
    rows = np.stack([pictures.array(32, 32).transpose(2, 0, 1).reshape(-1) for _ in labels])
    keys = (
        {"fine_labels": labels, "coarse_labels": [label // 5 for label in labels]}
        if fine
        else {"labels": labels}
    )
    return _pickle(
        {
            "batch_label": name,
            **keys,
            "data": rows,
            "filenames": [f"x_s_{i:06d}.png" for i in range(len(labels))],
        }
    )


def cifar10(folder: Path) -> Expected:
    pictures, members = (
        DrawnImages(),
        {"readme.html": b"<html/>", "batches.meta": _pickle({"label_names": list("abcdefghij")})},
    )
    for i, name in enumerate([*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]):
        members[name] = _cifar(pictures, name, [(c + i) % 10 for c in range(10)], fine=False)
    write_tar(
        folder / "cifar-10-python.tar.gz",
        {f"cifar-10-batches-py/{name}": data for name, data in members.items()},
    )
    return Expected({"train": 50, "test": 10}, 10)


def cifar100(folder: Path) -> Expected:
    pictures, members = (
        DrawnImages(),
        {"file.txt~": b"", "meta": _pickle({"fine_label_names": [f"c{i}" for i in range(100)]})},
    )
    for name, count in {"train": 200, "test": 100}.items():
        members[name] = _cifar(pictures, name, [37 * i % 100 for i in range(count)], fine=True)
    write_tar(
        folder / "cifar-100-python.tar.gz",
        {f"cifar-100-python/{name}": data for name, data in members.items()},
    )
    return Expected({"train": 200, "test": 100}, 100)


def cub200(folder: Path) -> Expected:
    names = [
        f"{c:03d}.Some_Bird/Some_Bird_{i:04d}_{7 * c + i}.jpg"
        for c in range(1, 201)
        for i in range(1, 4)
    ]
    root, count = "CUB_200_2011", range(1, len(names) + 1)
    texts = {
        "images": [f"{i} {name}" for i, name in enumerate(names, 1)],
        "image_class_labels": [f"{i} {(i - 1) // 3 + 1}" for i in count],
        "train_test_split": [f"{i} {int(i % 3 != 1)}" for i in count],
        "bounding_boxes": [f"{i} 1.0 1.0 2.0 2.0" for i in count],
        "classes": [f"{c} {c:03d}.Some_Bird" for c in range(1, 201)],
    }
    members = {"attributes.txt": b"1 has_bill_shape::curved\n"} | _files(
        DrawnImages(), [f"{root}/images/{n}" for n in names], 4
    )
    # A few of the real ones are grey.
    members[f"{root}/images/{names[4]}"] = DrawnImages(1).file("jpg", 8, 8, 1)
    write_tar(
        folder / f"{root}.tgz",
        members | {f"{root}/{name}.txt": _lines(*rows) for name, rows in texts.items()},
    )
    return Expected({"train": 400, "test": 200}, 200)


def stanford_cars(folder: Path) -> Expected:
    fields = ["relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test"]
    rows = np.empty((1, 588), dtype=[(field, object) for field in fields])
    for i in range(588):
        rows[0, i] = (
            f"car_ims/{i + 1:06d}.jpg",
            1,
            1,
            3,
            3,
            np.uint8(i // 3 + 1),
            np.uint8(i % 3 == 1),
        )
    classes = _cells([f"Make Model {c}" for c in range(1, 197)], row=True)
    (folder / "cars_annos.mat").write_bytes(_mat(annotations=rows, class_names=classes))
    write_tar(
        folder / "car_ims.tgz",
        _files(DrawnImages(), [row["relative_im_path"] for row in rows[0]], 4),
    )
    return Expected({"train": 392, "test": 196}, 196)


def fgvc_aircraft(folder: Path) -> Expected:
    families = [
        "F/A-18",
        *[f"Boeing 7{c:02d}" for c in range(35)],
        *[f"DHC-{c}" for c in range(34)],
    ]
    root, lists = (
        "fgvc-aircraft-2013b/data",
        {"families": families, "manufacturers": ["Boeing"], "variants": ["707-320"]},
    )
    ids = [f"{20000 + 13 * i:07d}" for i in range(280)]
    for i, image in enumerate(ids):
        for part in (("train", "trainval"), ("val", "trainval"), ("test",), ("trainval", "train"))[
            i // 70
        ]:
            lists.setdefault(f"images_{part}", []).append(image)
            lists.setdefault(f"images_family_{part}", []).append(f"{image} {families[i * 3 % 70]}")
            lists.setdefault(f"images_manufacturer_{part}", []).append(f"{image} Boeing")
    members = _files(DrawnImages(), [f"{root}/images/{image}.jpg" for image in ids])
    members |= {f"{root}/{name}.txt": _lines(*rows) for name, rows in lists.items()}
    write_tar(folder / "fgvc-aircraft-2013b.tar.gz", members)
    return Expected({"train": 210, "test": 70}, 70)


def dtd(folder: Path) -> Expected:
    names = [f"texture{c:02d}/texture{c:02d}_{i:04d}.jpg" for c in range(47) for i in range(1, 7)]
    members = _files(DrawnImages(), [f"dtd/images/{name}" for name in names]) | {
        "dtd/images/texture09/.directory": b"[Dolphin]"
    }
    members |= {"dtd/labels/labels_joint_anno.txt": _lines(*names), "dtd/imdb/imdb.mat": b"x"}
    for i, part in enumerate(("train", "val", "test")):
        for fold in (1, 2, 10):
            rows = [name for n, name in enumerate(names) if (n + fold - 1) % 3 == i]
            members[f"dtd/labels/{part}{fold}.txt"] = _lines(*rows)
    write_tar(folder / "dtd-r1.0.1.tar.gz", members)
    return Expected({"train": 94, "dev": 94, "test": 94}, 47)


def coco(folder: Path) -> Expected:
    pictures, members = DrawnImages(), {}
    slots = [c for c in range(1, 91) if c not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
    for part, count in {"train": 80, "val": 40}.items():
        images, annotations = {}, []
        for i in range(count + 1):  # The last image has no box.
            name = f"{i * 11 + 9:012d}.jpg"
            images[name] = pictures.file("jpg", 64, 64, 1 if i == 3 else 3)
            boxes = (
                ((1.5, 2.25, 40.5, 30.1), (20, 16, 16, 40.75), (3, 3, 15.9, 40), (3, 9, 33, 8.0))
                if i < count
                else ()
            )
            for j, box in enumerate(boxes):
                slot = slots[(i * (160 // count) // 2 + j) % 80]
                crowd = i == 5 and j == 1
                segments = (
                    {"counts": [5, 9, 4082], "size": [64, 64]} if crowd else [[1, 2, 3, 4, 5, 6]]
                )
                row = {
                    "id": len(annotations) + 100,
                    "image_id": i * 11 + 9,
                    "category_id": slot,
                    "iscrowd": int(crowd),
                }
                annotations.append(
                    row | {"bbox": box, "area": box[2] * box[3], "segmentation": segments}
                )
        listed = [
            {"id": int(name[:12]), "file_name": name, "width": 64, "height": 64} for name in images
        ]
        categories = [
            {"id": slot, "name": f"thing {slot}", "supercategory": "thing"} for slot in slots
        ]
        everything = {
            "info": {},
            "licenses": [],
            "images": listed,
            "annotations": annotations,
            "categories": categories,
        }
        members[f"annotations/instances_{part}2017.json"] = json.dumps(everything).encode()
        members[f"annotations/captions_{part}2017.json"] = b'{"images": [], "annotations": []}'
        write_zip(
            folder / f"{part}2017.zip",
            {f"{part}2017/": b""} | {f"{part}2017/{n}": data for n, data in images.items()},
        )
    write_zip(folder / "annotations_trainval2017.zip", members)
    write_zip(folder / "test2017.zip", {"test2017/000000000001.jpg": pictures.file("jpg")})
    write_zip(
        folder / "image_info_test2017.zip",
        {"annotations/image_info_test2017.json": b'{"images": []}'},
    )
    return Expected({"train": 160, "test": 80}, 80)


def pets(folder: Path) -> Expected:
    breeds = [f"{'Cat_breed' if c % 3 == 0 else 'dog'}_{chr(97 + c % 26)}{c}" for c in range(37)]
    kinds = [
        (breed, f"{c + 1} {1 if c % 3 == 0 else 2} {c // 3 + 1}") for c, breed in enumerate(breeds)
    ]
    rows = [f"{breed}_{i} {ids}" for breed, ids in kinds for i in (1, 2, 10, 191)]
    files = _files(DrawnImages(), [f"images/{row.split()[0]}.jpg" for row in rows])
    write_tar(
        folder / "images.tar.gz", files | {f"images/{breeds[0]}_{i}.mat": b"x" for i in (1, 2)}
    )
    lists = {
        "trainval": [r for i, r in enumerate(rows) if i % 4],
        "test": rows[::4],
        "list": ["#Image CLASS-ID", *rows],
    }
    members = {f"annotations/{name}.txt": _lines(*values) for name, values in lists.items()}
    members |= {
        "annotations/README": b"x",
        f"annotations/trimaps/{breeds[0]}_1.png": DrawnImages(1).file("png", 8, 8, 1),
    }
    write_tar(
        folder / "annotations.tar.gz", members | {f"annotations/trimaps/._{breeds[0]}_1.png": b"x"}
    )
    return Expected({"train": 111, "test": 37}, 37)


def stanford_dogs(folder: Path) -> Expected:
    names = [
        f"n{2085620 + c:08d}-Some_breed-{c}/n{2085620 + c:08d}_{i}.jpg"
        for c in range(120)
        for i in (1, 20, 300)
    ]
    write_tar(folder / "images.tar", _files(DrawnImages(), [f"Images/{name}" for name in names], 4))
    lists = {}
    for part, chosen in {"file": (0, 1, 2), "train": (0, 2), "test": (1,)}.items():
        rows = [i for i in range(360) if i % 3 in chosen]
        lists[f"{part}_list.mat"] = _mat(
            file_list=_cells(names[i] for i in rows),
            annotation_list=_cells(names[i][:-4] for i in rows),
            labels=np.array([[i // 3 + 1] for i in rows], dtype=np.uint8),
        )
    (folder / "lists.tar").write_bytes(tar_bytes(lists))
    return Expected({"train": 240, "test": 120}, 120)


def animal(folder: Path) -> Expected:
    pictures = DrawnImages()
    for part in "AB":
        root = f"non_rigid_shape_{part}"
        names = [
            f"{root}/{part.lower()}nimal{c}/{part.lower()}nimal{c}{i}.tif"
            for c in range(10)
            for i in range(1, 6)
        ]
        dirs = {f"{root}/": b""} | {f"{name.rsplit('/', 1)[0]}/": b"" for name in names}
        write_zip(
            folder / f"{root}.zip",
            dirs | _files(pictures, names, 12, 1) | {f"{root}/Thumbs.db": b"x"},
        )
    return Expected({"all": 100}, 20)


def silhouettes(folder: Path) -> Expected:
    random, values = np.random.RandomState(0), {}
    for part, count in {"train": 202, "val": 101, "test": 101}.items():
        values[f"{part}_data"] = random.randint(0, 2, (count, 784)).astype(np.uint8)
        values[f"{part}_labels"] = (random.permutation(count)[:, None] % 101 + 1).astype(np.uint8)
    names = _cells([f"class {c}" for c in range(101)], row=True)
    whole = {
        "X": np.concatenate([v for k, v in values.items() if "data" in k]),
        "classnames": names,
    }
    whole["Y"] = np.concatenate([v for k, v in values.items() if "labels" in k]).T
    (folder / "caltech101_silhouettes_28_split1.mat").write_bytes(_mat(**values))
    (folder / "caltech101_silhouettes_28.mat").write_bytes(_mat(**whole))
    return Expected({"train": 202, "dev": 101, "test": 101}, 101)


def interact(folder: Path) -> Expected:
    pictures = DrawnImages()
    truncated = [
        "22TCSTMOFXRDFDVIK9PDTXJK5OZTQ6_20",
        "249YW2GTP9RAU1I25WX94SOKQN6OTI_16",
        "24PFCD45XCETAM5TCF9N9TGUNNTZXA_02",
    ]
    lists = {
        "stand-alone": "interact_final_dataset",
        "illustration_category": "interact_illustration_category_dataset",
    }
    for (kind, stem), count in zip(lists.items(), (9, 2), strict=True):
        rows = [
            (c, f"{kind[:3].upper()}{c:02d}X_{i:02d}.jpg")
            for c in range(1, 61)
            for i in range(count)
        ]
        files = _files(pictures, [f"imgs/{name}" for _, name in rows])
        if kind == "stand-alone":
            rows += [(c, f"{name}.jpg") for c, name in enumerate(truncated, 5)]
            files |= {f"imgs/{name}.jpg": pictures.file("jpg", 32, 32)[:700] for name in truncated}
        text = _lines(*[f"{c};{name};person {c} is near" for c, name in rows])
        write_zip(folder / f"interact_{kind}_dataset_images.zip", {"imgs/": b""} | files)
        write_zip(
            folder / f"interact_{kind}_dataset_annotations.zip",
            {f"{stem}_labels_and_images.txt": text},
        )
    return Expected({"all": 540, "illustrations": 120}, 60)


def svhn(folder: Path) -> Expected:
    pictures, counts = DrawnImages(), {"train": 50, "test": 20}
    for part, count in counts.items():
        images = np.stack([pictures.array(32, 32) for _ in range(count)], axis=-1)
        labels = np.array([[3 * i % 10 + 1] for i in range(count)], dtype=np.uint8)
        (folder / f"{part}_32x32.mat").write_bytes(_mat(X=images, y=labels))
    return Expected(counts, 10)


def chars74k(folder: Path) -> Expected:
    pictures, samples, files = DrawnImages(), range(1, 63), {}
    for kind, places in {
        "Img": ("GoodImg/Bmp", "BadImag/Bmp", "GoodImg/Msk"),
        "Hnd": ("Img",),
        "Fnt": ("",),
    }.items():
        roots = ["/".join(filter(None, ("English", kind, place))) for place in places]
        names = [
            f"{root}/Sample{c:03d}/img{c:03d}-{i + 1:05d}.png"
            for i, root in enumerate(roots)
            for c in samples
        ]
        files[kind] = _files(pictures, names, 8, 1 if kind == "Fnt" else 3)
    files["Hnd"]["English/Hnd/Trj/Sample001/img001-001.m"] = b"x"
    img = files["Img"]
    img["English/Img/BadImag/Bmp/Sample001/img001-00009.png"] = img[
        "English/Img/GoodImg/Bmp/Sample001/img001-00001.png"
    ]
    for kind, members in files.items():
        write_tar(folder / f"English{kind}.tgz", members)
    write_tar(folder / "Lists.tgz", {"Lists/English/Img/lists.mat": b"x", "Lists/README.txt": b"x"})
    return Expected({"all": 4 * 62 + 1}, 62)  # One image comes twice, masks do not count.


def celeba(folder: Path) -> Expected:
    names = [f"{i:06d}.jpg" for i in range(1, 121)]
    flags = np.random.RandomState(0).choice([-1, 1], size=(120, 40))
    files = _files(DrawnImages(), [f"img_align_celeba/{name}" for name in names])
    write_zip(folder / "img_align_celeba.zip", {"img_align_celeba/": b""} | files)
    rows = [
        f"{name} " + " ".join(f"{v:2d}" for v in values)
        for name, values in zip(names, flags, strict=True)
    ]
    attributes = " ".join(["5_o_Clock_Shadow", *[f"Attribute_{i:02d}" for i in range(1, 40)]])
    (folder / "list_attr_celeba.txt").write_bytes(_lines(120, f"{attributes} ", *rows))
    (folder / "list_eval_partition.txt").write_bytes(
        _lines(*[f"{name} {max(0, i // 20 - 3)}" for i, name in enumerate(names)])
    )
    return Expected({"train": 80, "dev": 20, "test": 20}, 40)


def lfwa(folder: Path) -> Expected:
    counts = {f"Person_{p}": 4 if p % 50 == 7 else 6 if p % 4 == 0 else 5 for p in range(432)}
    names = [
        f"lfw2/{person}/{person}_{i:04d}.jpg"
        for person, count in counts.items()
        for i in range(1, count + 1)
    ]
    write_zip(folder / "lfwa.zip", _files(DrawnImages(), names, 8, 1))
    remaining = [count for count in counts.values() if count > 4]
    drawn = {"dev": len(remaining), "dev_test": len(remaining), "test": 2 * len(remaining)}
    return Expected(drawn | {"train": sum(remaining) - 4 * len(remaining)}, len(remaining))


def sun_attributes(folder: Path) -> Expected:
    names = [
        f"{chr(97 + i % 26)}/place{i % 30}/" + ("indoor/" if i % 3 else "") + f"sun_aab{i:04d}.jpg"
        for i in range(102)
    ]
    votes = (
        np.where(np.random.RandomState(0).rand(102, 102) < 0.03, 2 / 3, 0) + np.eye(102)[::-1] / 3
    )
    names_mat = _mat(attributes=_cells(f"attribute {i}" for i in range(102)))
    tables = {
        "images.mat": _mat(images=_cells(names)),
        "attributeLabels_continuous.mat": _mat(labels_cv=votes),
    }
    tables = {
        f"SUNAttributeDB/{name}": data
        for name, data in (tables | {"attributes.mat": names_mat}).items()
    }
    write_tar(folder / "SUNAttributeDB.tar.gz", tables)
    files = _files(DrawnImages(), [f"images/{name}" for name in [*names, "a/place0/sun_extra.jpg"]])
    write_tar(folder / "SUNAttributeDB_Images.tar.gz", files)
    return Expected({"all": 102}, 102)


def tid2008(folder: Path) -> Expected:
    pictures, random = DrawnImages(), np.random.RandomState(0)
    nested = [(r, t, level) for r in range(1, 26) for t in range(1, 18) for level in range(1, 5)]
    names = [f"{'I' if r % 2 else 'i'}{r:02d}_{t:02d}_{level}.bmp" for r, t, level in nested]
    members = _files(pictures, [f"reference_images/I{r:02d}.BMP" for r in range(1, 26)])
    members |= _files(
        pictures, [f"distorted_images/{names[i]}" for i in random.permutation(len(names))], 4
    )
    scores = (random.permutation(len(names)) + 1) / 1701
    for metric, values in {"MSSIM": scores, "PSNR": random.rand(len(names)) * 40}.items():
        members[f"metrics_values/{metric}.TXT"] = b"".join(b"%.5f\r\n" % value for value in values)
    members["mos.txt"] = b"".join(b"%.4f\r\n" % value for value in random.rand(len(names)))
    for name, data in members.items():  # A .rar cannot be written; its folder stands for it.
        (folder / "tid2008" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tid2008" / name).write_bytes(data)
    return Expected({"all": 1700}, 5)


_OWN = {
    name: value
    for name, value in globals().items()
    if inspect.isfunction(value) and value.__module__ == __name__
}
MAKERS: dict[str, Callable[[Path], Expected]] = {
    name: value for name, value in _OWN.items() if name[0] != "_"
} | _KTH_MAKERS
