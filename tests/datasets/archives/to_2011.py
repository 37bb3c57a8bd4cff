"""Makers of tiny archives in the published raw layouts, tasks of 1992 to 2011; extras that readers must leave out are among
them."""

import inspect
import io
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy.io

from tests.datasets.archives.making import Expected, Pictures, idx, tar_bytes, write_gz, write_tar, write_zip


def _files(pictures: Pictures, names: Iterable[str], size: int = 8, channels: int = 3) -> dict[str, bytes]:
    return {name: pictures.file(name.rsplit(".", 1)[1], size, size, channels) for name in names}


def _mat(**values: object) -> bytes:
    with io.BytesIO() as buffer:
        scipy.io.savemat(buffer, values)
        return buffer.getvalue()


def _lines(*rows: object) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def magellan_venus(folder: Path) -> Expected:
    members = {"package/README": b"x", "package/FOAs/exp_A": b"x"}
    pictures = Pictures()
    for number in range(1, 11):
        members[f"package/Images/img{number}.sdt"] = pictures.array(1024, 1024, 1).tobytes()
        members[f"package/Images/img{number}.spr"] = b"2\n1024 0 0\n1024 0 0\n0\n"
        volcanoes = [f" {1 + (number + i) % 4} {10.5 * i} {20 + i} 14.9" for i in range(number % 4)]
        members[f"package/GroundTruths/img{number}.lxyr"] = _lines(*volcanoes) if volcanoes else b""
    write_tar(folder / "volcanoes.tar.gz", members)
    return Expected({"all": 10}, 2)


def aberdeen(folder: Path) -> Expected:
    alias = ["marieg", "heatherg", "kayg", "neilg", "graemeg", "dhawleyg", "clean_adrian", "jsheenang"]
    people = (
        alias
        + ["marie", "heather", "kay", "neil", "graeme", "dhawley", "adrian", "jsheenan"]
        + [f"p{c}x" for c in "abcdefghijklmnopqrstuvwxyz"]
    )
    people += [f"q{c}_y" for c in "abcdefghijklmnopqrstuvwxyz"] + [f"r{c}{d}" for c in "abcdefghij" for d in "klmn"][:31]
    names = [f"{person}{i}.jpg" for person in people for i in (1, 2)]
    write_zip(folder / "Aberdeen.zip", _files(Pictures(), names))
    return Expected({"all": len(names)}, len(people) - 8)


def landsat(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    for name, count in (("sat.trn", 60), ("sat.tst", 24)):
        rows = [" ".join(map(str, [*random.randint(0, 256, 36), (1, 2, 3, 4, 5, 7)[i % 6]])) for i in range(count)]
        (folder / name).write_bytes(_lines(*rows))
    return Expected({"train": 60, "test": 24}, 6)


def brodatz(folder: Path) -> Expected:
    pictures = Pictures()
    for number in range(1, 113):
        if number != 14:
            (folder / f"D{number}.gif").write_bytes(pictures.file("gif", 10, 11, 1))
    return Expected({"all": 111 * 9}, 111)


def olivetti(folder: Path) -> Expected:
    names = [f"{sample}_{subject}.jpg" for subject in range(1, 42) for sample in range(1, 4)]
    write_zip(folder / "the-orl-database-for-training-and-testing.zip", _files(Pictures(), names, 8, 1))
    return Expected({"all": 123}, 41)


def coil20(folder: Path) -> Expected:
    names = [f"coil-20-proc/obj{o}__{v}.png" for o in range(1, 21) for v in range(4)]
    write_zip(folder / "coil-20-proc.zip", _files(Pictures(), names, 8, 1))
    return Expected({"all": 80}, 20)


def coil100(folder: Path) -> Expected:
    names = [f"coil-100/obj{o}__{5 * v}.png" for o in range(1, 101) for v in range(0, 72, 2)]
    write_zip(folder / "coil-100.zip", _files(Pictures(), names, 4) | {"coil-100/convertGroupppm2png.pl": b"x"})
    views = {"train": {70, 71, 0, 1, 2}, "dev": set(range(16, 21)), "dev_test": set(range(50, 55))}
    counts = {part: 100 * sum(v in numbers for v in range(0, 72, 2)) for part, numbers in views.items()}
    return Expected(counts | {"test": 3600 - sum(counts.values())}, 100)


def mpeg7(folder: Path) -> Expected:
    classes = [f"class_{c:02d}" for c in range(66)] + ["device0", "device1", "Bone", "Comma"]
    names = [f"original/{c}-{i}.gif" for c in classes for i in range(1, 5)]
    extras = {"original/confusions.gif": Pictures(9).file("gif"), "original/shapedata.gif": Pictures(8).file("gif")}
    write_zip(folder / "MPEG7dataset.zip", _files(Pictures(), names, 8, 1) | extras)
    return Expected({"all": 280}, 70)


def butterflies(folder: Path) -> Expected:
    listed = {
        "admiral": ("adm", [14, 103, 41]), "black_swallowtail": ("swa", [25, 41, 2]), "machaon": ("mch", [12, 24, 20]),
        "monarch_closed": ("mnc", [29, 9, 58]), "monarch_open": ("mno", [46, 35, 58]), "peacock": ("pea", [1, 96, 131]),
        "zebra": ("zeb", [57, 18, 21]),
    }  # fmt: skip
    names = [f"{c}/{p}{n:03d}.jpg" for c, (p, numbers) in listed.items() for n in [*numbers, 200, 201, 202]]
    write_zip(folder / "butterflies.zip", _files(Pictures(), names))
    return Expected({"train": 21, "test": 21}, 7)


def mnist(folder: Path) -> Expected:
    random = np.random.RandomState(0)
    for stem, count in (("train", 60), ("t10k", 30)):
        write_gz(folder / f"{stem}-images-idx3-ubyte.gz", idx(random.randint(0, 256, (count, 28, 28))))
        write_gz(folder / f"{stem}-labels-idx1-ubyte.gz", idx(np.arange(count) % 10))
    return Expected({"train": 60, "test": 30}, 10)


def caltech101(folder: Path) -> Expected:
    classes = ["BACKGROUND_Google", *[f"object_{c:03d}" for c in range(101)]]
    names = [f"101_ObjectCategories/{c}/image_{i:04d}.jpg" for c in classes for i in range(1, 33)]
    inner = tar_bytes(_files(Pictures(), names, 4) | {"101_ObjectCategories/Faces/tmp": b"x"}, "w:gz")
    write_zip(
        folder / "caltech-101.zip", {"caltech-101/101_ObjectCategories.tar.gz": inner, "caltech-101/Annotations.tar": b"x"}
    )
    return Expected({"train": 30 * 102, "test": 2 * 102}, 102)


def umist(folder: Path) -> Expected:
    names = [f"face/1{c}/face/1{c}{i:03d}.pgm" for c in "abcdefghijklmnopqrst" for i in range(4)]
    write_tar(folder / "face.tar.gz", _files(Pictures(), names, 8, 1) | {"face/README": b"x"})
    return Expected({"all": 80}, 20)


def cmu_amp(folder: Path) -> Expected:
    names = [f"{c}{i:02d}.bmp" for c in "ABCDEFGHIJKLM" for i in range(25)]
    write_zip(folder / "faceExpressionDatabase.zip", _files(Pictures(), names, 8, 1))
    return Expected({"all": 325}, 13)


def voc2005(folder: Path) -> Expected:
    pictures = Pictures()
    training = ["Caltech_cars", "ETHZ_sideviews-cars", "TUGraz_cars", "TUGraz_bike", "Caltech_motorbikes_side", "TUGraz_person"]
    test = [
        "car",
        "voiture",
        "bicycle",
        "bike",
        "velo",
        "motocyclette",
        "motorbike",
        "motorcycle",
        "INRIA_graz-person-test",
        "INRIA_inria-person-test",
    ]
    for number, places in ((1, training), (2, [*test, "pedestrian", "pieton"])):
        names = [f"VOC2005_{number}/PNGImages/{place}/{i:03d}.png" for place in places for i in range(5)]
        extras = _files(pictures, [f"VOC2005_{number}/GTMasks/{places[0]}/000.png"])
        write_tar(folder / f"voc2005_{number}.tar.gz", _files(pictures, names) | extras)
    return Expected({"train": 30, "test": 60}, 4)


def caltech_categories(folder: Path) -> Expected:
    pictures = Pictures()
    for archive, stem in (("Cars_2001", "cars_brad"), ("Cars_1999", "cars_markus"), ("motorbikes_side", "motorbikes_side")):
        names = [f"image_{i:04d}.jpg" for i in range(1, 9)]
        inner = _files(pictures, names) | {"README": b"x", "ImageData.mat": b"x"}
        write_zip(folder / f"{archive}.zip", {f"{archive}/{stem}.tar": tar_bytes(inner)})
    return Expected({"all": 24}, 2)


def uiuc_cars(folder: Path) -> Expected:
    names = [f"CarData/TrainImages/{c}-{i}.pgm" for c in ("pos", "neg") for i in range(8)]
    extras = [f"CarData/{place}/test-{i}.pgm" for place in ("TestImages", "TestImages_Scale") for i in range(4)]
    files = _files(Pictures(), [*names, *extras], 8, 1) | {"CarData/trueLocations.txt": b"0: (1,2)"}
    write_tar(folder / "uiuc.tar.gz", files)
    return Expected({"all": 16}, 2)


def aloi(folder: Path) -> Expected:
    pictures = Pictures()
    for kind, places in {"ill": ["l1c1"], "col": ["i110"], "view": ["r0"], "stereo": ["c"]}.items():
        names = [f"png4/{o}/{o}_{place}.png" for o in range(1, 1001) for place in places]
        write_tar(folder / f"aloi_red4_{kind}.tar", _files(pictures, names, 4))
    return Expected({"train": 2000, "test": 1000}, 1000)


def scenes8(folder: Path) -> Expected:
    classes = ["coast", "forest", "highway", "insidecity", "mountain", "opencountry", "street", "tallbuilding"]
    root = "spatial_envelope_256x256_static_8outdoorcategories"
    names = [f"{root}/{c}_{c[:3]}{i}.jpg" for c in classes for i in range(4)]
    write_zip(folder / f"{root}.zip", _files(Pictures(), names) | {f"{root}/Thumbs.db": b"x"})
    return Expected({"all": 32}, 8)


def scenes15(folder: Path) -> Expected:
    classes = ["MITcoast", "CALsuburb", "PARoffice", *[f"MITclass{c}" for c in range(12)]]
    names = [f"{c}/image_{i:04d}.jpg" for c in classes for i in range(1, 5)]
    write_zip(folder / "scene_categories.zip", _files(Pictures(), names, 8, 1) | {"scene_readme.txt": b"x"})
    return Expected({"all": 60}, 15)


def voc2006(folder: Path) -> Expected:
    classes = ["bicycle", "bus", "car", "cat", "cow", "dog", "horse", "motorbike", "person", "sheep"]
    pictures = Pictures()
    for part, stem in (("trainval", "voc2006_trainval"), ("test", "voc2006_test")):
        root = "VOCdevkit/VOC2006"
        names = [f"{i:06d}" for i in range(1, 41)]
        files = _files(pictures, [f"{root}/PNGImages/{name}.png" for name in names])
        for number, label in enumerate(classes):
            marks = [1 if i % 10 == number or (i % 20 == 0 and number == 3) else -1 for i in range(40)]
            files[f"{root}/ImageSets/{label}_{part}.txt"] = _lines(*(f"{n} {m:2d}" for n, m in zip(names, marks, strict=True)))
            if part == "trainval":
                files[f"{root}/ImageSets/{label}_train.txt"] = _lines(f"{names[0]}  1")
        write_tar(folder / f"{stem}.tar", files)
    return Expected({"train": 40, "test": 40}, 10)


def extended_yaleb(folder: Path) -> Expected:
    subjects = [s for s in range(11, 40) if s != 14]
    names = [f"ExtendedYaleB/yaleB{s}/yaleB{s}_P{p:02d}A+000E+00.pgm" for s in subjects for p in range(9)]
    extras = _files(Pictures(5), [f"ExtendedYaleB/yaleB{s}/yaleB{s}_P00_Ambient.pgm" for s in subjects], 8, 1)
    extras["ExtendedYaleB/yaleB11/yaleB11_P00.info"] = b"x"
    write_zip(folder / "extended-yale-dataset-b.zip", _files(Pictures(), names, 8, 1) | extras)
    return Expected({"train": 28 * 5, "dev": 28, "dev_test": 28, "test": 28 * 2}, 28)


def voc2007(folder: Path) -> Expected:
    classes = [f"class{c:02d}" for c in range(20)]
    pictures = Pictures()
    for archive, parts in (("VOCtrainval_06-Nov-2007", ("train", "val")), ("VOCtest_06-Nov-2007", ("test",))):
        root, files = "VOCdevkit/VOC2007", {}
        for number, part in enumerate(parts):
            names = [f"{1000 * number + i:06d}" for i in range(40)]
            files |= _files(pictures, [f"{root}/JPEGImages/{name}.jpg" for name in names])
            for i, name in enumerate(names):
                objects = "".join(f"<object><name>{classes[c % 20]}</name></object>" for c in (i, i, i + 3))
                files[f"{root}/Annotations/{name}.xml"] = f"<annotation>{objects}</annotation>".encode()
            files[f"{root}/ImageSets/Main/{part}.txt"] = _lines(*names)
            files[f"{root}/ImageSets/Main/aeroplane_{part}.txt"] = _lines(f"{names[0]} -1")
        write_tar(folder / f"{archive}.tar", files)
    return Expected({"train": 40, "dev": 40, "test": 40}, 20)


def graz02(folder: Path) -> Expected:
    pictures = Pictures()
    for label in ("bikes", "cars", "people"):
        names = [f"{label}/{label}_{i:03d}.image.png" for i in range(10)]
        extras = _files(pictures, [f"{label}/{label}_000.mask.0.png"]) | {f"{label}/{label}_train.txt": b"x"}
        write_zip(folder / f"ig02-v1.0-{label}.zip", _files(pictures, names) | extras)
    return Expected({"all": 30}, 3)


def ppmi(folder: Path) -> Expected:
    instruments = [f"instrument{i}" for i in range(12)]
    names = [
        f"{way}_instrument/{name}/{part}/{name}{i}.jpg"
        for way in ("play", "with")
        for name in instruments
        for part, count in (("train", 3), ("test", 2))
        for i in range(count)
    ]
    write_zip(folder / "norm_ppmi_12class.zip", _files(Pictures(), names) | {"README.txt": b"x"})
    return Expected({"train": 72, "test": 48}, 24)


def caltech256(folder: Path) -> Expected:
    classes = [f"{c:03d}.thing-{c}" for c in range(1, 257)] + ["257.clutter"]
    names = [f"256_ObjectCategories/{c}/{c[:3]}_{i:04d}.jpg" for c in classes for i in (1, 2)]
    extras = {"256_ObjectCategories/198.spider/RENAME2": b"x"}
    write_tar(folder / "256_ObjectCategories.tar", _files(Pictures(), names, 4) | extras)
    return Expected({"all": 514}, 257)


def imagenet(folder: Path) -> Expected:
    pictures, wnids = Pictures(), [f"n{1_000_000 + 37 * c:08d}" for c in range(1000)]
    training = {f"{w}.tar": tar_bytes({f"{w}_{i}.JPEG": pictures.file("jpg", 4, 4)}) for w in wnids for i in (7,)}
    write_tar(folder / "ILSVRC2012_img_train.tar", training)
    names = [f"ILSVRC2012_val_{i:08d}.JPEG" for i in range(1, 51)]
    write_tar(folder / "ILSVRC2012_img_val.tar", {name: pictures.file("jpg", 4, 4) for name in names})
    synsets = np.zeros((1002, 1), [("ILSVRC2012_ID", object), ("WNID", object), ("num_children", object)])
    order = np.random.RandomState(0).permutation(1000)  # the kit's numbers are not in the order of the names
    for row, c in enumerate(order):
        synsets[row, 0] = (float(row + 1), wnids[c], 0.0)
    synsets[1000, 0], synsets[1001, 0] = (1001.0, "n99999998", 2.0), (1002.0, "n99999999", 2.0)
    kit = "ILSVRC2012_devkit_t12/data"
    files = {f"{kit}/meta.mat": _mat(synsets=synsets), f"{kit}/ILSVRC2012_validation_ground_truth.txt": _lines(*range(1, 51))}
    write_tar(folder / "ILSVRC2012_devkit_t12.tar.gz", files)
    return Expected({"train": 1000, "test": 50}, 1000)


def lfw(folder: Path) -> Expected:
    counts = {f"Person_{p:03d}": 6 for p in range(423)} | {"Rare_One": 1, "Rare_Two": 4}
    names = [f"lfw/{person}/{person}_{i:04d}.jpg" for person, count in counts.items() for i in range(1, count + 1)]
    write_tar(folder / "lfw.tgz", _files(Pictures(), names, 4))
    return Expected({"test": 846, "dev_test": 423, "dev": 423, "train": 846}, 423)


def flowers17(folder: Path) -> Expected:
    names = [f"jpg/image_{i:04d}.jpg" for i in range(1, 1361)]
    write_tar(folder / "17flowers.tgz", _files(Pictures(), names, 4) | {"jpg/files.txt": b"x"})
    order = np.random.RandomState(0).permutation(1360) + 1
    splits = {"trn1": order[None, :680], "val1": order[None, 680:1020], "tst1": order[None, 1020:]}
    (folder / "datasplits.mat").write_bytes(_mat(**splits, trn2=order[None, :680]))
    return Expected({"train": 680, "dev": 340, "test": 340}, 17)


def fmd(folder: Path) -> Expected:
    classes = ["fabric", "foliage", "glass", "leather", "metal", "paper", "plastic", "stone", "water", "wood"]
    names = [f"image/{c}/{c}_moderate_{i:03d}_new.jpg" for c in classes for i in range(4)]
    extras = _files(Pictures(7), [f"mask/{c}/{c}_moderate_000_new.jpg" for c in classes]) | {
        "image/fabric/Thumbs.db": b"x",
        "a.m": b"x",
    }
    write_zip(folder / "FMD.zip", _files(Pictures(), names) | extras)
    return Expected({"all": 40}, 10)


def flowers102(folder: Path) -> Expected:
    names = [f"jpg/image_{i:05d}.jpg" for i in range(1, 409)]
    write_tar(folder / "102flowers.tgz", _files(Pictures(), names, 4))
    order = np.random.RandomState(0).permutation(408) + 1
    (folder / "imagelabels.mat").write_bytes(_mat(labels=np.arange(408)[None] % 102 + 1))
    (folder / "setid.mat").write_bytes(_mat(trnid=order[None, :120], valid=order[None, 120:240], tstid=order[None, 240:]))
    return Expected({"train": 120, "dev": 120, "test": 168}, 102)


def belgium_ts(folder: Path) -> Expected:
    pictures = Pictures()
    (folder / "reducedSetTS.txt").write_bytes(_lines("header", *range(62)))
    for part, count in (("Training", 3), ("Testing", 2)):
        names = [f"{part}/{c:05d}/{i:05d}_00000.ppm" for c in range(62) for i in range(count)]
        extras = {f"{part}/00000/GT-00000.csv": b"x", f"{part}/Readme.txt": b"x"}
        write_zip(folder / f"BelgiumTSC_{part}.zip", _files(pictures, names) | extras)
    return Expected({"train": 186, "test": 124}, 62)


def gtsrb(folder: Path) -> Expected:
    pictures = Pictures()
    names = [f"GTSRB/Final_Training/Images/{c:05d}/{i:05d}_00000.ppm" for c in range(43) for i in range(3)]
    extras = {"GTSRB/Final_Training/Images/00000/GT-00000.csv": b"x", "GTSRB/Readme-Images.txt": b"x"}
    write_zip(folder / "GTSRB_Final_Training_Images.zip", _files(pictures, names) | extras)
    tests = [f"{i:05d}.ppm" for i in range(43)]
    files = _files(pictures, [f"GTSRB/Final_Test/Images/{name}" for name in tests])
    write_zip(folder / "GTSRB_Final_Test_Images.zip", files | {"GTSRB/Final_Test/Images/GT-final_test.test.csv": b"x"})
    rows = [f"{name};8;8;1;1;7;7;{(5 * i) % 43}" for i, name in enumerate(tests)]
    table = _lines("Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId", *rows)
    write_zip(folder / "GTSRB_Final_Test_GT.zip", {"GT-final_test.csv": table})
    return Expected({"train": 129, "test": 43}, 43)


def _lzw(data: bytes) -> bytes:
    """compress's format (.Z): every byte a code of 9 bits, and a code that clears the table before it needs a tenth."""
    codes = []
    for start in range(0, len(data), 247):
        codes += [*data[start : start + 247], 256]  # 248 codes fill whole groups of eight, which a clearing ends
    packed = np.unpackbits(np.asarray(codes, "<u2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")[:, :9]
    return b"\x1f\x9d\x90" + np.packbits(packed.ravel(), bitorder="little").tobytes()


def vistex(folder: Path) -> Expected:
    classes = [f"Class{c}" for c in range(19)]
    pictures, members = Pictures(), {}
    for number, place in enumerate(("128x128", "512x512")):
        names = [f"VisTex/Images/Reference/{c}/{c}.{number}{i:03d}.ppm" for c in classes for i in range(3)]
        inner = tar_bytes(_files(pictures, names, 4) | _files(pictures, [f"VisTex/Images/TextureScenes/City.{number}.ppm"], 4))
        members[f"VisTex/{place}.tar.Z"] = _lzw(inner)
    write_tar(folder / "VisTex.tar.gz", members)
    return Expected({"all": 114}, 19)


MAKERS: dict[str, Callable[[Path], Expected]] = {
    name: value
    for name, value in globals().items()
    if inspect.isfunction(value) and value.__module__ == __name__ and name[0] != "_"
}
