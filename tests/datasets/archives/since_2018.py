"""Makers of tiny archives in the published raw layouts, tasks of 2018 to 2021; extras that readers
must leave out are among them."""

import bz2
import csv
import inspect
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import h5py
import numpy as np
import scipy.io

from tests.datasets.archives.making import (
    DrawnImages,
    Expected,
    idx,
    write_gz,
    write_tar,
    write_zip,
)


def _files(
    images: DrawnImages, names: Iterable[str], size: int = 8, channels: int = 3
) -> dict[str, bytes]:
    return {name: images.file(name.rsplit(".", 1)[1], size, size, channels) for name in names}


def _mat(**values: object) -> bytes:
    with io.BytesIO() as buffer:
        scipy.io.savemat(buffer, values)
        return buffer.getvalue()


def _lines(*rows: object, end: str = "\n") -> bytes:
    return "".join(f"{row}{end}" for row in rows).encode()


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    with io.StringIO() as buffer:
        csv.writer(buffer).writerows(rows)
        return buffer.getvalue().encode()


def _folder(folder: Path, members: dict[str, bytes]) -> None:
    """Writes what a .rar would hold, which cannot be written."""
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def tid2013(folder: Path) -> Expected:
    images, random = DrawnImages(), np.random.RandomState(0)
    names = [
        f"i{r:02d}_{t:02d}_{level}.bmp"
        for r in range(1, 26)
        for t in range(1, 25)
        for level in range(1, 6)
    ]
    members = {f"distorted_images/{name}": images.file("bmp", 4, 4) for name in names}
    members |= {f"reference_images/I{r:02d}.BMP": images.file("bmp", 4, 4) for r in range(1, 26)}
    members["metrics_values/MSSIM.txt"] = _lines(
        *(f"{v:.6f}" for v in random.permutation(3000) / 3000), end="\r\n"
    )
    members["metrics_values/SSIM.txt"] = _lines(*(f"{v:.6f}" for v in random.rand(3000)))
    _folder(folder / "tid2013", members)
    return Expected({"all": 3000}, 5)


def usps(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    for name, count in (("usps", 60), ("usps.t", 30)):
        values = random.uniform(-1, 1, (count, 256)).round(3)
        rows = [
            f"{1 + i % 10} " + " ".join(f"{k + 1}:{v:g}" for k, v in enumerate(row))
            for i, row in enumerate(values)
        ]
        (folder / f"{name}.bz2").write_bytes(bz2.compress(_lines(*rows)))
    return Expected({"train": 60, "test": 30}, 10)


def semeion(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    rows = []
    for i in range(60):
        pixels = " ".join(f"{v:.4f}" for v in random.randint(0, 2, 256))
        rows.append(f"{pixels} " + " ".join(str(int(k == i % 10)) for k in range(10)) + " ")
    (folder / "semeion.data").write_bytes(_lines(*rows))
    return Expected({"all": 60}, 10)


def mnist_m(folder: Path) -> Expected:
    images, members = DrawnImages(), {}
    for part, shift in (("train", 0), ("test", 3)):
        names = [f"{i:08d}.png" for i in range(30)]
        members |= _files(images, [f"mnist_m/mnist_m_{part}/{name}" for name in names])
        members[f"mnist_m/mnist_m_{part}_labels.txt"] = _lines(
            *(f"{n} {(i + shift) % 10}" for i, n in enumerate(names))
        )
    write_tar(folder / "mnist_m.tar.gz", members)
    return Expected({"all": 60}, 10)


def office_caltech(folder: Path) -> Expected:
    images = DrawnImages()
    shared = [
        "back_pack",
        "bike",
        "calculator",
        "headphones",
        "keyboard",
        "laptop_computer",
        "monitor",
        "mouse",
        "mug",
        "projector",
    ]
    names = [
        f"domain_adaptation_images/{domain}/images/{label}/frame_{i:04d}.jpg"
        for domain in ("amazon", "dslr", "webcam")
        for label in [*shared, "bike_helmet", "desk_lamp"]
        for i in (1, 2)
    ]
    write_tar(folder / "domain_adaptation_images.tar.gz", _files(images, names))
    calls = [
        "003.backpack",
        "224.touring-bike",
        "027.calculator",
        "101.head-phones",
        "045.computer-keyboard",
        "127.laptop-101",
    ]
    calls += [
        "046.computer-monitor",
        "047.computer-mouse",
        "041.coffee-mug",
        "238.video-projector",
        "146.mountain-bike",
    ]
    names = [
        f"256_ObjectCategories/{call}/{call[:3]}_{i:04d}.jpg" for call in calls for i in (1, 2)
    ]
    write_tar(folder / "256_ObjectCategories.tar", _files(images, names))
    return Expected({"train": 60, "test": 20}, 10)


def pacs(folder: Path) -> Expected:
    images = DrawnImages()
    for domain in ("art_painting", "cartoon", "photo", "sketch"):
        for part in ("train", "val", "test"):
            with h5py.File(folder / f"{domain}_{part}.hdf5", "w") as file:
                file["images"] = np.stack([images.array() for _ in range(7)])
                file["labels"] = np.arange(1, 8)
    return Expected({"train": 63, "test": 21}, 7)


def camera_traps(folder: Path) -> Expected:
    images, members, tables = DrawnImages(), {}, {}
    categories = [{"id": 3 * c + 1, "name": f"animal {c:02d}"} for c in range(16)]
    for part, count in (("train", 48), ("trans_val", 16), ("trans_test", 16)):
        ids = [f"{part}-{i:04d}" for i in range(count)]
        members |= _files(images, [f"eccv_18_all_images_sm/{name}.jpg" for name in ids])
        content = {
            "images": [{"id": name, "file_name": f"{name}.jpg"} for name in ids],
            "annotations": [
                {
                    "id": f"a{name}",
                    "image_id": name,
                    "category_id": 3 * (i % 16) + 1,
                    "bbox": [0, 0, 4, 4],
                }
                for i, name in enumerate(ids)
            ],
            "categories": categories,
        }
        tables[f"eccv_18_annotation_files/{part}_annotations.json"] = json.dumps(content).encode()
    tables["eccv_18_annotation_files/cis_val_annotations.json"] = b"{}"
    write_tar(folder / "eccv_18_all_images_sm.tar.gz", members)
    write_tar(folder / "eccv_18_annotations.tar.gz", tables)
    return Expected({"train": 48, "dev": 16, "test": 16}, 16)


def emnist_balanced(folder: Path) -> Expected:
    import gzip

    random, members = np.random.RandomState(0), {}
    for name, count, classes in (
        ("emnist-balanced-train", 141, 47),
        ("emnist-balanced-test", 94, 47),
        ("emnist-letters-train", 3, 2),
    ):
        for kind, array in (
            ("images-idx3", random.randint(0, 256, (count, 28, 28))),
            ("labels-idx1", np.arange(count) % classes),
        ):
            members[f"gzip/{name}-{kind}-ubyte.gz"] = gzip.compress(idx(array), 1)
    members["gzip/emnist-balanced-mapping.txt"] = b"0 48\n"
    write_zip(folder / "gzip.zip", members)
    return Expected({"train": 141, "test": 94}, 47)


def casia_hwdb(folder: Path) -> Expected:
    images = DrawnImages()
    codes = [bytes([high, low]) for high in range(0xB0, 0xD9) for low in range(0xA1, 0xFF)] + [
        bytes([33 + i, 0]) for i in range(94)
    ]
    codes = codes[:3926]

    def records(chosen):
        return b"".join(
            (10 + 20).to_bytes(4, "little") + code + (5).to_bytes(2, "little") + (4).to_bytes(2, "little")  # noqa: E501
            + images.array(4, 5, 1).tobytes()
            for code in chosen
        )  # fmt: skip

    half = len(codes) // 2
    write_zip(
        folder / "Gnt1.1TrainPart1.zip",
        {"1001-c.gnt": records(codes[:half]), "1002-c.gnt": records(codes[:9])},
    )
    write_zip(folder / "Gnt1.1TrainPart2.zip", {"1151-c.gnt": records(codes[half:])})
    write_zip(folder / "Gnt1.1Test.zip", {"1241-c.gnt": records(codes[::100])})
    return Expected({"train": 3926 + 9, "test": 40}, 3926)


def isic2017(folder: Path) -> Expected:
    images = DrawnImages()
    for part, count in (("Training", 30), ("Validation", 6), ("Test_v2", 9)):
        ids = [f"ISIC_{count:02d}{i:05d}" for i in range(count)]
        root = f"ISIC-2017_{part}_Data"
        extras = _files(images, [f"{root}/{ids[0]}_superpixels.png"]) | {
            f"{root}/{ids[0]}_metadata.csv": b"x"
        }
        write_zip(
            folder / f"{root}.zip",
            _files(images, [f"{root}/{name}.jpg" for name in ids]) | extras,
        )
        rows = [[name, float(i % 3 == 0), float(i % 3 == 1)] for i, name in enumerate(ids)]
        table = _csv([["image_id", "melanoma", "seborrheic_keratosis"], *rows])
        (folder / f"ISIC-2017_{part}_Part3_GroundTruth.csv").write_bytes(table)
    return Expected({"train": 30, "dev": 6, "test": 9}, 3)


def trancos(folder: Path) -> Expected:
    images, members = DrawnImages(), {}
    names = [f"image-{part}-{i:06d}" for part in (1, 2, 3) for i in range(1, 21)]
    for number, name in enumerate(names):
        members[f"TRANCOS_v3/images/{name}.jpg"] = images.file("jpg")
        members[f"TRANCOS_v3/images/{name}.txt"] = _lines(*(f"{i}\t{i + 1}" for i in range(number)))
        members[f"TRANCOS_v3/images/{name}mask.mat"] = b"x"
    for part, start in (("training", 0), ("validation", 20), ("test", 40)):
        members[f"TRANCOS_v3/image_sets/{part}.txt"] = _lines(
            *(f"{name}.jpg" for name in names[start : start + 20])
        )
    members["TRANCOS_v3/image_sets/trainval.txt"] = b"x\n"
    write_tar(folder / "TRANCOS_v3.tar.gz", members)
    return Expected({"train": 20, "dev": 20, "test": 20}, 10)


def mall(folder: Path) -> Expected:
    members = _files(
        DrawnImages(), [f"mall_dataset/frames/seq_{i:06d}.jpg" for i in range(1, 2001)], 4
    )
    counts = np.random.RandomState(0).permutation(2000) % 50 + 10
    members["mall_dataset/mall_gt.mat"] = _mat(count=counts[:, None].astype(float))
    members["mall_dataset/mall_feat.mat"] = b"x"
    write_zip(folder / "mall_dataset.zip", members)
    return Expected({"train": 800, "test": 1200}, 10)


def fashion_mnist(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    for stem, count in (("train", 60), ("t10k", 30)):
        write_gz(
            folder / f"{stem}-images-idx3-ubyte.gz", idx(random.randint(0, 256, (count, 28, 28)))
        )
        write_gz(folder / f"{stem}-labels-idx1-ubyte.gz", idx(np.arange(count) % 10))
    return Expected({"train": 60, "test": 30}, 10)


mnist_rot = fashion_mnist


def not_mnist(folder: Path) -> Expected:
    names = [
        f"notMNIST_small/notMNIST_small/{c}/image{c}{i}.png" for c in "ABCDEFGHIJ" for i in range(5)
    ]
    broken = {f"notMNIST_small/notMNIST_small/{c}/broken.png": b"" for c in "AF"}
    write_zip(folder / "notmnist.zip", _files(DrawnImages(), names, 8, 1) | broken)
    return Expected({"all": 50}, 10)


def tiny_imagenet(folder: Path) -> Expected:
    wnids, root = [f"n{1_000_000 + 11 * c:08d}" for c in range(200)], "tiny-imagenet-200"
    members = _files(
        DrawnImages(), [f"{root}/train/{w}/images/{w}_{i}.JPEG" for w in wnids for i in (0, 1)], 4
    )
    members |= _files(DrawnImages(1), [f"{root}/val/images/val_{i}.JPEG" for i in range(20)], 4)
    members |= _files(DrawnImages(2), [f"{root}/test/images/test_{i}.JPEG" for i in range(4)], 4)
    members[f"{root}/val/val_annotations.txt"] = _lines(
        *(f"val_{i}.JPEG\t{wnids[9 * i]}\t0\t0\t3\t3" for i in range(20))
    )
    members[f"{root}/wnids.txt"] = _lines(*wnids[::-1])
    members[f"{root}/train/{wnids[0]}/{wnids[0]}_boxes.txt"] = b"x"
    write_zip(folder / "tiny-imagenet-200.zip", members)
    return Expected({"train": 400, "test": 20}, 200)


def stl10(folder: Path) -> Expected:
    random, members = np.random.RandomState(0), {}
    for part, count in (("train", 30), ("test", 20)):
        members[f"stl10_binary/{part}_X.bin"] = random.randint(
            0, 256, (count, 3, 96, 96), dtype=np.uint8
        ).tobytes()
        members[f"stl10_binary/{part}_y.bin"] = bytes(1 + i % 10 for i in range(count))
    members |= {"stl10_binary/unlabeled_X.bin": b"x", "stl10_binary/fold_indices.txt": b"0\n"}
    write_tar(folder / "stl10_binary.tar.gz", members)
    return Expected({"train": 30, "test": 20}, 10)


def food101(folder: Path) -> Expected:
    classes = [f"dish_{c:03d}" for c in range(101)]
    ids = {
        "train": [f"{c}/{100 + i}" for c in classes for i in range(3)],
        "test": [f"{c}/{900 + i}" for c in classes for i in (0,)],
    }
    members = _files(
        DrawnImages(),
        [f"food-101/images/{name}.jpg" for names in ids.values() for name in names],
        4,
    )
    members |= {f"food-101/meta/{part}.txt": _lines(*names) for part, names in ids.items()}
    members |= {"food-101/meta/classes.txt": _lines(*classes), "food-101/meta/train.json": b"{}"}
    write_tar(folder / "food-101.tar.gz", members)
    return Expected({"train": 303, "test": 101}, 101)


def awa2(folder: Path) -> Expected:
    animals, root = [f"animal+{c:02d}" for c in range(50)], "Animals_with_Attributes2"
    names = [f"{root}/JPEGImages/{a}/{a}_{10001 + i}.jpg" for a in animals for i in range(2)]
    matrix = [[int((c + k) % 3 == 0) for k in range(85)] for c in range(50)]
    members = _files(DrawnImages(), names) | {
        f"{root}/classes.txt": _lines(*(f"{i + 1:6d}\t{a}" for i, a in enumerate(animals))),
        f"{root}/predicates.txt": _lines(*(f"{k + 1:6d}\tpredicate{k}" for k in range(85))),
        f"{root}/predicate-matrix-binary.txt": _lines(*(" ".join(map(str, row)) for row in matrix)),
        f"{root}/predicate-matrix-continuous.txt": b"x",
        f"{root}/trainclasses.txt": _lines(*animals[:40]),
        f"{root}/testclasses.txt": _lines(*animals[40:]),
    }
    write_zip(folder / "AwA2-data.zip", members)
    return Expected({"train": 80, "test": 20}, 85)


def food101n(folder: Path) -> Expected:
    classes, root = [f"dish_{c:03d}" for c in range(101)], "Food-101N_release"
    members = {}
    images = DrawnImages()
    for part, count in (("train", 2), ("val", 1)):
        names = [f"{c}/{part}{i}.jpg" for c in classes for i in range(count)]
        members |= _files(images, [f"{root}/images/{name}" for name in names], 4)
        rows = [f"{name}\t{i % 2}" for i, name in enumerate(names)]
        members[f"{root}/meta/verified_{part}.tsv"] = _lines(
            "class_name/key\tverification_label", *rows
        )
    members |= _files(images, [f"{root}/images/{classes[0]}/unverified.jpg"], 4)
    write_zip(folder / "Food-101N_release.zip", members)
    return Expected({"train": 202, "test": 101}, 101)


def shanghaitech(folder: Path) -> Expected:
    images, members, count = DrawnImages(), {}, 0
    for letter in "AB":
        for part, pairs in (("train", 12), ("test", 8)):
            root = f"ShanghaiTech/part_{letter}/{part}_data"
            for i in range(1, pairs + 1):
                count += 3
                points = np.empty((1, 1), object)
                points[0, 0] = {"location": np.ones((count, 2)), "number": count}
                members[f"{root}/images/IMG_{i}.jpg"] = images.file("jpg")
                members[f"{root}/ground-truth/GT_IMG_{i}.mat"] = _mat(image_info=points)
    write_zip(folder / "shanghaitech.zip", members)
    return Expected({"train": 24, "test": 16}, 10)


def animal_web(folder: Path) -> Expected:
    species = [f"species{c}" for c in range(352)]
    _folder(
        folder / "animal_web",
        _files(DrawnImages(), [f"animal_dataset/{s}_{i}.jpg" for s in species for i in (1, 2)], 4),
    )
    return Expected({"all": 704}, 352)


def biwi(folder: Path) -> Expected:
    images, members, random = DrawnImages(), {}, np.random.RandomState(0)
    for subject in range(1, 25):
        for frame in range(3, 6):
            z, x, y = random.uniform(-1, 1, 3)
            rotations = [np.eye(3)] * 3
            rotations[0] = np.asarray(
                [[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]]
            )
            rotations[1] = np.asarray(
                [[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]]
            )
            rotations[2] = np.asarray(
                [[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]]
            )
            matrix = rotations[0] @ rotations[1] @ rotations[2]
            stem = f"faces_0/{subject:02d}/frame_{frame:05d}"
            members[f"{stem}_rgb.png"] = images.file("png")
            rows = [" ".join(f"{v:.6f}" for v in row) + " " for row in matrix]
            members[f"{stem}_pose.txt"] = _lines(*rows, "", "10.1 20.2 900.3 ")
            members[f"{stem}_depth.bin"] = b"x"
    members["faces_0/01/rgb.cal"] = b"x"
    write_zip(folder / "biwi-kinect-head-pose-database.zip", members)
    return Expected({"test": 12, "dev_test": 6, "dev": 6, "train": 48}, 15)


def domainnet(folder: Path) -> Expected:
    images = DrawnImages()
    for domain in ("real", "painting", "clipart", "quickdraw", "infograph", "sketch"):
        names = {
            part: [f"{domain}/thing_{c:03d}/{domain}_{part}{c}.png" for c in range(345)]
            for part in ("train", "test")
        }
        write_zip(folder / f"{domain}.zip", _files(images, names["train"] + names["test"], 4))
        for part, listed in names.items():
            (folder / f"{domain}_{part}.txt").write_bytes(
                _lines(*(f"{name} {c}" for c, name in enumerate(listed)))
            )
    return Expected({"train": 5 * 345, "dev": 5 * 345, "dev_test": 345, "test": 345}, 345)


def pneumonia_xray(folder: Path) -> Expected:
    counts = {"train": 10, "val": 2, "test": 4}
    names = [
        f"chest_xray/chest_xray/{p}/{c}/{c}{i}.jpeg"
        for p, n in counts.items()
        for c in ("NORMAL", "PNEUMONIA")
        for i in range(n)
    ]
    extras = {
        "chest_xray/chest_xray/.DS_Store": b"x",
        f"chest_xray/__MACOSX/chest_xray/train/NORMAL/._{0}.jpeg": b"x",
    }
    write_zip(folder / "chest-xray-pneumonia.zip", _files(DrawnImages(), names, 8, 1) | extras)
    return Expected({"train": 20, "dev": 4, "test": 8}, 2)


def path_mnist(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    header = [*(f"pixel{i:04d}" for i in range(2352)), "label"]
    rows = [[*random.randint(0, 256, 2352), 1 + i % 8] for i in range(40)]
    others = {"hmnist_28_28_L.csv": b"x", "hmnist_64_64_L.csv": b"x"}
    write_zip(
        folder / "colorectal-histology-mnist.zip",
        {"hmnist_28_28_RGB.csv": _csv([header, *rows])} | others,
    )
    return Expected({"all": 40}, 8)


def nih_xray(folder: Path) -> Expected:
    findings = [f"Finding_{i:02d}" for i in range(14)] + ["No Finding"]
    names = [f"{i:08d}_{i % 3:03d}.png" for i in range(60)]
    members = _files(
        DrawnImages(),
        [f"images_{1 + i % 12:03d}/images/{name}" for i, name in enumerate(names)],
        8,
        1,
    )
    header = ["Image Index", "Finding Labels", "Follow-up #", "Patient ID"]
    rows = [
        [n, "|".join(sorted({findings[i % 15], findings[(i + i // 15) % 15]})), 0, i]
        for i, n in enumerate(names)
    ]
    members["Data_Entry_2017.csv"] = _csv([header, *rows])
    members["train_val_list.txt"] = _lines(*names[:40])
    members["test_list.txt"] = b"\n".join(name.encode() for name in names[40:])
    members["BBox_List_2017.csv"] = b"x"
    write_zip(folder / "data.zip", members)
    return Expected({"train": 40, "test": 20}, 15)


def tuberculosis_xray(folder: Path) -> Expected:
    root = "TB_Chest_Radiography_Database"
    names = [f"{root}/{c}/{c}-{i}.png" for c in ("Normal", "Tuberculosis") for i in range(1, 11)]
    write_zip(
        folder / "tuberculosis-tb-chest-xray-dataset.zip",
        _files(DrawnImages(), names) | {f"{root}/Normal.metadata.xlsx": b"x"},
    )
    return Expected({"all": 20}, 2)


def covid19_xray(folder: Path) -> Expected:
    root = "COVID-19_Radiography_Dataset"
    classes = ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")
    names = [f"{root}/{c}/images/{c}-{i}.png" for c in classes for i in range(1, 6)]
    extras = _files(DrawnImages(3), [f"{root}/{c}/masks/{c}-1.png" for c in classes]) | {
        f"{root}/COVID.metadata.xlsx": b"x"
    }
    write_zip(
        folder / "covid19-radiography-database.zip", _files(DrawnImages(), names, 8, 1) | extras
    )
    return Expected({"all": 20}, 4)


def patch_camelyon(folder: Path) -> Expected:
    images = DrawnImages()
    for part, count in (("train", 20), ("valid", 6), ("test", 6)):
        for kind in "xy":
            with io.BytesIO() as buffer:
                with h5py.File(buffer, "w") as file:
                    if kind == "x":
                        file["x"] = np.stack([images.array() for _ in range(count)])
                    else:
                        file["y"] = (np.arange(count) % 2).astype(np.uint8).reshape(-1, 1, 1, 1)
                write_gz(
                    folder / f"camelyonpatch_level_2_split_{part}_{kind}.h5.gz", buffer.getvalue()
                )
    return Expected({"train": 20, "dev": 6, "test": 6}, 2)


def ddsm(folder: Path) -> Expected:
    images, members, infos = DrawnImages(), {}, []
    kinds = ("BENIGN", "MALIGNANT", "BENIGN_WITHOUT_CALLBACK")
    for abnormality in ("calc", "mass"):
        for part, count in (("train", 12), ("test", 6)):
            rows = []
            for i in range(count):
                case = f"{abnormality.title()}-{'Training' if part == 'train' else 'Test'}_P_{i:05d}_LEFT_CC"  # noqa: E501
                series = f"1.3.6.1.{abnormality}.{part}.{i}"
                path = f"{case}/1.3.6.99.{i}/{series}/000000.dcm"
                rows += [[f"P_{i:05d}", 1, "LEFT", kinds[i % 3], path]] * (2 if i % 4 == 0 else 1)
                for name, seen in (
                    ("1-001.jpg", "full mammogram images"),
                    ("1-002.jpg", "ROI mask images"),
                    ("2-003.jpg", "cropped images"),
                ):
                    members[f"jpeg/{series}/{name}"] = images.file("jpg", 8, 8, 1)
                    infos.append(
                        [
                            f"CBIS-DDSM/dicom/{series}.dcm",
                            f"CBIS-DDSM/jpeg/{series}/{name}",
                            case,
                            seen,
                        ]
                    )
            header = [
                "patient_id",
                "abnormality id",
                "left or right breast",
                "pathology",
                "image file path",
            ]
            members[f"csv/{abnormality}_case_description_{part}_set.csv"] = _csv([header, *rows])
    members["csv/dicom_info.csv"] = _csv(
        [["file_path", "image_path", "PatientID", "SeriesDescription"], *infos]
    )
    members["csv/meta.csv"] = b"x"
    write_zip(folder / "cbis-ddsm-breast-cancer-image-dataset.zip", members)
    return Expected({"train": 24, "test": 12}, 3)


def synthetic_covid19_xray(folder: Path) -> Expected:
    images = DrawnImages()
    for archive, label in (("G_NC", "G1"), ("G_PC", "G2")):
        write_zip(
            folder / f"{archive}.zip", _files(images, [f"{label}/{i}.png" for i in range(10)])
        )
    return Expected({"all": 20}, 2)


MAKERS: dict[str, Callable[[Path], Expected]] = {
    name: value
    for name, value in globals().items()
    if inspect.isfunction(value) and value.__module__ == __name__ and name[0] != "_"
}
