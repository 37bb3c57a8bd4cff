"""Makers of tiny archives in the published raw layouts, tasks of 1992 to 2011; readers must leave
out the extras in them.
"""

import inspect
import io
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy.io

from tests.datasets.archives.making import (
    DrawnImages,
    Expected,
    idx,
    tar_bytes,
    write_gz,
    write_tar,
    write_zip,
)


def _words(text: str) -> list[str]:
    return text.split()


_ABERDEEN = _words("""
adrian alec alison alister amellanby andrew annanena anon_one barry bfegan blair blaw brian_ho caroline catherine
chris chris_harbron chris_pin dave_faquhar david david_imray dbell derek dhands dhawley dlow dougal_grant dpearson dsmith fiona
fiona_hogarth george gfindley ghall gillian gordon graeme graham_brown grant_cumming hack heather hin ian irene iroy itaylor
jenni jim joanna johannes john_mccal john_thom johnny_page jsheenan kay kieran kim kirsty lisa louise lynn lynn_james marie mark
martin meggan merilyn michael milly miranda mmanson mnicholson neil nick olive paol pat paul peter peter_macgeorge pkyle
richard_hardwick ruth scott simon stephen stewart terry_johnstone tock tracy trevor""")  # noqa: E501
_ALIASES = _words("marieg heatherg kayg neilg graemeg dhawleyg clean_adrian jsheenang")
_MPEG7 = _words("""
apple bat beetle bell bird Bone bottle brick butterfly camel car carriage cattle cellular_phone chicken children
chopper classic Comma crown cup deer dog elephant face fish flatfish fly fork fountain frog Glas guitar hammer hat HCircle Heart
horse horseshoe jar key lizzard lmfish Misk octopus pencil personal_car pocket rat ray sea_snake shoe spoon spring stef teddy
tree truck turtle watch""") + [f"device{i}" for i in range(10)]  # noqa: E501
_BUTTERFLIES = {
    "admiral": "adm 14 103 41 86 9 53 6 55 66 92",
    "black_swallowtail": "swa 25 41 2 22 31 15 28 35 4 27",
    "machaon": "mch 12 24 20 52 53 29 82 25 83 14",
    "monarch_closed": "mnc 29 9 58 72 23 44 67 36 27 28",
    "monarch_open": "mno 46 35 58 8 76 21 34 15 83 78",
    "peacock": "pea 1 96 131 124 22 59 126 52 20 86",
    "zebra": "zeb 57 18 21 26 43 78 31 90 6 75",
}
_CALTECH101 = _words("""
BACKGROUND_Google Faces Faces_easy Leopards Motorbikes accordion airplanes anchor ant barrel bass beaver binocular
bonsai brain brontosaurus buddha butterfly camera cannon car_side ceiling_fan cellphone chair chandelier cougar_body cougar_face
crab crayfish crocodile crocodile_head cup dalmatian dollar_bill dolphin dragonfly electric_guitar elephant emu euphonium ewer
ferry flamingo flamingo_head garfield gerenuk gramophone grand_piano hawksbill headphone hedgehog helicopter ibis inline_skate
joshua_tree kangaroo ketch lamp laptop llama lobster lotus mandolin mayfly menorah metronome minaret nautilus octopus okapi
pagoda panda pigeon pizza platypus pyramid revolver rhino rooster saxophone schooner scissors scorpion sea_horse snoopy
soccer_ball stapler starfish stegosaurus stop_sign strawberry sunflower tick trilobite umbrella watch water_lilly wheelchair
wild_cat windsor_chair wrench yin_yang""")  # noqa: E501
_VOC = _words(
    """aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant
sheep sofa train tvmonitor"""  # noqa: E501
)
_SCENES15 = _words(
    """bedroom CALsuburb industrial kitchen livingroom MITcoast MITforest MIThighway MITinsidecity MITmountain
MITopencountry MITstreet MITtallbuilding PARoffice store"""  # noqa: E501
)
_VISTEX = _words(
    """Bark Brick Buildings Clouds Fabric Flowers Food Grass Leaves Metal Misc Paintings Sand Stone Terrain Tile
Water WheresWaldo Wood"""  # noqa: E501
)


def _files(
    names: Iterable[str], size: int = 8, channels: int = 3, pictures: DrawnImages | None = None
) -> dict[str, bytes]:
    pictures = pictures or DrawnImages()
    return {name: pictures.file(name.rsplit(".", 1)[1], size, size, channels) for name in names}


def _lines(rows: Iterable[object]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _mat(**values: object) -> bytes:
    with io.BytesIO() as buffer:
        scipy.io.savemat(buffer, values)
        return buffer.getvalue()


def _compress(data: bytes) -> bytes:
    """Returns a .Z of literals: a clear code after each 247 keeps all codes at 9 bits, and clears
    at group ends.
    """
    codes = [code for i in range(0, len(data), 247) for code in (*data[i : i + 247], 256)]
    if len(data) % 247:
        codes.pop()  # A clear inside a group of eight codes would need padding.
    bits = (np.array(codes)[:, None] >> np.arange(9)) & 1
    return b"\x1f\x9d\x90" + np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def _names(pattern: str, *axes: Iterable) -> list[str]:
    return [pattern.format(*key) for key in itertools.product(*axes)]


def _plain(
    dataset_id: str,
    archive: str,
    classes: int,
    names: list[str],
    size: int = 8,
    channels: int = 3,
    extras="",
    **counts,
):
    """Adds the maker of an archive of nothing but images and `extras`; without counts, all
    images are samples.
    """

    def make(folder: Path) -> Expected:
        members = _files(names, size, channels) | dict.fromkeys(_words(extras), b"x")
        (write_zip if archive.endswith(".zip") else write_tar)(folder / archive, members)
        return Expected(counts or {"all": len(names)}, classes)

    MAKERS[dataset_id] = make


def magellan_venus(folder: Path) -> Expected:
    pictures, members = DrawnImages(), {"package/README": b"x"}
    for k in range(1, 10):  # Odd ones have a definite volcano, 4 has none at all.
        members[f"package/Images/img{k}.sdt"] = np.tile(
            pictures.array(8, 8, 1), (128, 128)
        ).tobytes()
        members[f"package/Images/img{k}.spr"] = b"2\n1024 0.0 1.0\n1024 0.0 1.0\n0\n"
        ranks = [] if k == 4 else [4, 2, 1, 3] if k % 2 else [3, 4, 2]
        members[f"package/GroundTruths/img{k}.lxyr"] = _lines(
            f"{c} {101 + c} {11 * k} 1{c}.00" for c in ranks
        )
    write_tar(folder / "volcanoes.tar.gz", members)
    return Expected({"all": 9}, 2)


def landsat(folder: Path) -> Expected:
    pictures = DrawnImages()
    for name, count in (("sat.trn", 36), ("sat.tst", 18)):
        rows = [[*pictures.array(1, 36, 1)[0], (1, 2, 3, 4, 5, 7)[i % 6]] for i in range(count)]
        (folder / name).write_bytes(_lines(" ".join(map(str, row)) for row in rows))
    return Expected({"train": 36, "test": 18}, 6)


def brodatz(folder: Path) -> Expected:
    for name, data in _files([f"D{i}.gif" for i in range(1, 113) if i != 14], 10, 1).items():
        (folder / name).write_bytes(data)
    return Expected({"all": 111 * 9}, 111)


def butterflies(folder: Path) -> Expected:
    names = []
    for name, numbers in _BUTTERFLIES.items():
        prefix, *test = numbers.split()
        train = [k for k in (3, 5, 7, 10, 11, 100) if str(k) not in test]
        names += [f"{name}/{prefix}{int(k):03d}.jpg" for k in [*train, *test]]
    write_zip(folder / "butterflies.zip", _files(names))
    return Expected({"train": 42, "test": 70}, 7)


def mnist(folder: Path) -> Expected:
    pictures = DrawnImages()
    for part, count in (("train", 40), ("t10k", 20)):
        images = np.stack([pictures.array(28, 28, 1) for _ in range(count)])
        write_gz(folder / f"{part}-images-idx3-ubyte.gz", idx(images))
        write_gz(folder / f"{part}-labels-idx1-ubyte.gz", idx(np.arange(count) * 7 % 10))
    return Expected({"train": 40, "test": 20}, 10)


def caltech101(folder: Path) -> Expected:
    root = "101_ObjectCategories"
    names = [
        f"{root}/{name}/image_{k:04d}.jpg"
        for i, name in enumerate(_CALTECH101)
        for k in range(1, 32 + i % 2)
    ]
    inner = tar_bytes(_files(names, 4) | {f"{root}/BACKGROUND_Google/tmp": b"x"}, "w:gz")
    notes = tar_bytes(
        {"Annotations/accordion/annotation_0001.mat": _mat(box_coord=np.ones((1, 4)))}
    )
    members = {
        f"caltech-101/{root}.tar.gz": inner,
        "caltech-101/Annotations.tar": notes,
        "caltech-101/show_annotation.m": b"x",
    }
    write_zip(folder / "caltech-101.zip", members)
    return Expected({"train": 30 * 102, "test": 51 + 2 * 51}, 102)


def voc2005(folder: Path) -> Expected:
    pictures = DrawnImages()
    train = _words(
        "Caltech_cars ETHZ_sideviews-cars TUGraz_cars TUGraz_bike Caltech_motorbikes_side"
        " TUGraz_person"
    )
    test = _words(
        """car voiture bicycle bike velo motocyclette motorbike motorcycle INRIA_graz-person-test
    INRIA_inria-person-test pedestrian pieton"""
    )
    # The ETHZ motorbikes are not used.
    for part, sources in ((1, [*train, "ETHZ_motorbike-testset"]), (2, test)):
        names = [
            f"VOC2005_{part}/PNGImages/{name}/{name}_{k:03d}.png"
            for name in sources
            for k in (1, 2, 3)
        ]
        members = _files(names, pictures=pictures)
        members |= {
            name.replace("PNGImages", "Annotations")[:-3] + "txt": b"# PASCAL\n" for name in names
        }
        members |= _files(
            [name.replace("PNGImages", "GTMasks") for name in names[:3]], pictures=pictures
        )
        write_tar(folder / f"voc2005_{part}.tar.gz", members)
    return Expected({"train": 18, "test": 36}, 4)


def caltech_categories(folder: Path) -> Expected:
    pictures = DrawnImages()
    for name, inner, count in (
        ("Cars_2001", "cars_brad", 5),
        ("Cars_1999", "cars_markus", 4),
        ("motorbikes_side",) * 2 + (9,),
    ):
        members = _files([f"image_{k:04d}.jpg" for k in range(1, count + 1)], pictures=pictures)
        members |= {"README": b"x", "ImageData.mat": _mat(SubDir_Data=np.ones((8, count)))}
        write_zip(
            folder / f"{name}.zip",
            {f"{name}/{inner}.tar": tar_bytes(members), f"{name}/README": b"x"},
        )
    write_tar(
        folder / "faces.tar", _files(["image_0001.jpg"], pictures=pictures) | {"README": b"x"}
    )
    return Expected({"all": 18}, 2)


def aloi(folder: Path) -> Expected:
    pictures = DrawnImages()
    for kind, suffix, last in (
        ("col", "i110", 1000),
        ("view", "r5", 1000),
        ("ill", "l1c1", 1000),
        ("stereo", "c", 3),
    ):
        names = [f"png4/{i}/{i}_{suffix}.png" for i in range(1, last + 1)]
        write_tar(folder / f"aloi_red4_{kind}.tar", _files(names, 4, pictures=pictures))
    return Expected({"train": 2000, "test": 1000}, 1000)


def voc2006(folder: Path) -> Expected:
    pictures, root = DrawnImages(), "VOCdevkit/VOC2006"
    classes = _words("bicycle bus car cat cow dog horse motorbike person sheep")
    for part, first in (("trainval", 1), ("test", 2)):
        ids = [f"{first + 2 * k:06d}" for k in range(24)]
        members = _files([f"{root}/PNGImages/{i}.png" for i in ids], pictures=pictures)
        members |= {
            f"{root}/Annotations/{i}.txt": b"# PASCAL Annotation Version 1.00\n" for i in ids
        }
        subsets = {part: ids} | (
            {"train": ids[::2], "val": ids[1::2]} if part == "trainval" else {}
        )
        for subset, chosen in subsets.items():
            members[f"{root}/ImageSets/{subset}.txt"] = _lines(chosen)
            for c, name in enumerate(classes):
                marks = [
                    1 if c in (k % 10, k // 20 + k % 10) else 0 if (c + k) % 7 == 0 else -1
                    for k in range(24)
                ]
                rows = (f"{i} {mark:2d}" for i, mark in zip(ids, marks, strict=True) if i in chosen)
                members[f"{root}/ImageSets/{name}_{subset}.txt"] = _lines(rows)
        write_tar(folder / f"voc2006_{part}.tar", members)
    return Expected({"train": 24, "test": 24}, 10)


def extended_yaleb(folder: Path) -> Expected:
    names, notes = [], {}
    for subject in (f"yaleB{i}" for i in range(11, 40) if i != 14):
        for pose in range(9):
            stem = f"ExtendedYaleB/{subject}/{subject}_P{pose:02d}"
            names += [f"{stem}A{light}.pgm" for light in ("+000E+00", "-035E+65")] + [
                f"{stem}_Ambient.pgm"
            ]
            notes[f"{stem}.info"] = _lines(f"{Path(name).name}" for name in names[-3:])
    write_zip(folder / "extended-yale-dataset-b.zip", _files(names, channels=1) | notes)
    return Expected({"train": 280, "dev": 56, "dev_test": 56, "test": 112}, 28)


def voc2007(folder: Path) -> Expected:
    pictures, root, subsets = DrawnImages(), "VOCdevkit/VOC2007", ("train", "val", "test")
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>7</xmax><ymax>7</ymax></bndbox>"
    archives = {"trainval": {}, "test": {}}
    for part, subset in enumerate(subsets):
        members = archives["test" if subset == "test" else "trainval"]
        labels = {
            f"{3 * k + part + 1:06d}": [k % 20, k % 20, *([(k + 7) % 20] if k % 2 else [])]
            for k in range(20)
        }
        for i, result in labels.items():
            name = f"<folder>VOC2007</folder><filename>{i}.jpg</filename><size><width>8</width><height>8</height></size>"  # noqa: E501
            objects = "".join(
                f"<object><name>{_VOC[c]}</name><difficult>{int(n == 1)}</difficult>{box}"
                + (f"<part><name>head</name>{box}</part>" if _VOC[c] == "person" else "")
                + "</object>"
                for n, c in enumerate(result)
            )
            members[f"{root}/Annotations/{i}.xml"] = (
                f"<annotation>{name}{objects}</annotation>\n".encode()
            )
        members |= _files([f"{root}/JPEGImages/{i}.jpg" for i in labels], pictures=pictures)
        members |= _files(
            [f"{root}/SegmentationClass/{i}.png" for i in list(labels)[:2]], pictures=pictures
        )
        members[f"{root}/ImageSets/Main/{subset}.txt"] = _lines(labels)
        members[f"{root}/ImageSets/Segmentation/{subset}.txt"] = _lines(list(labels)[:2])
        for c, name in enumerate(_VOC):
            rows = (f"{i} {1 if c in result else -1:2d}" for i, result in labels.items())
            members[f"{root}/ImageSets/Main/{name}_{subset}.txt"] = _lines(rows)
    main = f"{root}/ImageSets/Main"
    both = archives["trainval"][f"{main}/train.txt"] + archives["trainval"][f"{main}/val.txt"]
    archives["trainval"][f"{main}/trainval.txt"] = _lines(sorted(both.decode().split()))
    for part, members in archives.items():
        write_tar(folder / f"VOC{part}_06-Nov-2007.tar", members)
    return Expected({"train": 20, "dev": 20, "test": 20}, 20)


def graz02(folder: Path) -> Expected:
    pictures = DrawnImages()
    for name, stem in (("bikes", "bike"), ("cars", "carsgraz"), ("people", "person")):
        ids = [f"{stem}_{k:03d}" for k in range(1, 9)]
        members = _files(
            [f"{name}/{i}.{kind}.png" for i in ids for kind in ("image", "mask.0", "mask.1")],
            pictures=pictures,
        )
        members |= {f"{name}_train.txt": _lines(ids[::2]), f"{name}_test.txt": _lines(ids[1::2])}
        write_zip(
            folder / f"ig02-v1.0-{name}.zip",
            members | {f"{name}_info.txt": b"x", "readme.txt": b"x"},
        )
    return Expected({"all": 24}, 3)


def imagenet(folder: Path) -> Expected:
    pictures, order = DrawnImages(), np.random.RandomState(0).permutation(1000)
    # The last 20 are inner nodes of the tree.
    wnids = [f"n{1440764 + 13007 * n:08d}" for n in range(1020)]
    ids = [*(int(i) + 1 for i in order), *range(1001, 1021)]
    train = {}
    for n, wnid in enumerate(wnids[:1000]):
        train[f"{wnid}.tar"] = tar_bytes(
            _files([f"{wnid}_{k}.JPEG" for k in range(18, 19 + (n % 10 == 0))], pictures=pictures)
        )
    write_tar(folder / "ILSVRC2012_img_train.tar", train)
    names = [f"ILSVRC2012_val_{k:08d}.JPEG" for k in range(1, 1001)]
    write_tar(folder / "ILSVRC2012_img_val.tar", _files(names, pictures=pictures))
    fields = _words(
        "ILSVRC2012_ID WNID words gloss num_children children wordnet_height num_train_images"
    )
    synsets = np.empty((1020, 1), dtype=[(field, object) for field in fields])
    for row, (i, wnid) in enumerate(sorted(zip(ids, wnids, strict=True))):
        inner = i > 1000
        synsets[row, 0] = (
            float(i),
            wnid,
            f"word {i}",
            "gloss",
            float(inner),
            np.ones((1, int(inner))),
            float(inner),
            2.0,
        )
    root = "ILSVRC2012_devkit_t12"
    members = {f"{root}/readme.txt": b"x", f"{root}/data/meta.mat": _mat(synsets=synsets)}
    members[f"{root}/data/ILSVRC2012_validation_ground_truth.txt"] = _lines(order[::-1] + 1)
    write_tar(folder / f"{root}.tar.gz", members)
    return Expected({"train": 1100, "test": 1000}, 1000)


def lfw(folder: Path) -> Expected:
    names = []
    for n in range(431):  # 423 people with six or seven images; those with 1 to 4 are dropped.
        person = f"Jan_{chr(65 + n // 26)}{chr(97 + n % 26)}son"
        count = n // 54 % 4 + 1 if n % 54 == 0 else 7 if n % 54 == 1 else 6
        names += [f"lfw/{person}/{person}_{k:04d}.jpg" for k in range(1, count + 1)]
    write_tar(folder / "lfw.tgz", _files(names))
    return Expected({"train": 2 * 423 + 8, "dev": 423, "dev_test": 423, "test": 846}, 423)


def flowers17(folder: Path) -> Expected:
    ids = np.array([80 * c + k for c in range(17) for k in (1, 2, 3, 79, 80)]).reshape(17, 5)
    splits = {}
    for split in (1, 2, 3):
        turned = np.roll(ids, split - 1, axis=1)
        parts = {"trn": turned[:, [0, 2, 4]], "val": turned[:, 1], "tst": turned[:, 3]}
        splits |= {
            f"{name}{split}": part.reshape(1, -1).astype(np.uint16) for name, part in parts.items()
        }
    names = [f"jpg/image_{i:04d}.jpg" for i in ids.ravel()]
    write_tar(
        folder / "17flowers.tgz",
        _files(names) | {"jpg/files.txt": _lines(Path(name).name for name in names)},
    )
    (folder / "datasplits.mat").write_bytes(_mat(**splits))
    return Expected({"train": 51, "dev": 17, "test": 17}, 17)


def fmd(folder: Path) -> Expected:
    classes = _words("fabric foliage glass leather metal paper plastic stone water wood")
    stems = [
        f"{name}/{name}_{kind}_{k:03d}_new.jpg"
        for name in classes
        for kind in ("moderate", "object")
        for k in (1, 2)
    ]
    members = _files([f"image/{stem}" for stem in stems] + [f"mask/{stem}" for stem in stems])
    members |= {f"{kind}/{name}/Thumbs.db": b"x" for kind in ("image", "mask") for name in classes}
    write_zip(folder / "FMD.zip", members | {"demo.m": b"x", "image/demo.asv": b"x"})
    return Expected({"all": 40}, 10)


def flowers102(folder: Path) -> Expected:
    write_tar(folder / "102flowers.tgz", _files(f"jpg/image_{i:05d}.jpg" for i in range(1, 409)))
    # Each column has each class once.
    ids = np.random.RandomState(0).permutation(102)[:, None] + np.arange(1, 409, 102)
    (folder / "imagelabels.mat").write_bytes(
        _mat(labels=((np.arange(408) * 5) % 102 + 1).astype(np.uint8)[None])
    )
    parts = {"trnid": ids[:, 0], "valid": ids[:, 1], "tstid": ids[:, 2:].ravel()}
    (folder / "setid.mat").write_bytes(
        _mat(**{name: part[None].astype(np.uint16) for name, part in parts.items()})
    )
    return Expected({"train": 102, "dev": 102, "test": 204}, 102)


def belgium_ts(folder: Path) -> Expected:
    pictures = DrawnImages()
    for part, count in (("Training", 3), ("Testing", 2)):
        names = [
            f"{part}/{c:05d}/{100 + c:05d}_{k:05d}.ppm" for c in range(62) for k in range(count)
        ]
        header = b"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
        members = _files(names, pictures=pictures) | {
            f"{part}/{c:05d}/GT-{c:05d}.csv": header for c in range(62)
        }
        write_zip(folder / f"BelgiumTSC_{part}.zip", members | {f"{part}/Readme.txt": b"x"})
    (folder / "reducedSetTS.txt").write_bytes(
        _lines(["Traffic signs of the reduced set", *(f"A{c}" for c in range(62))])
    )
    return Expected({"train": 186, "test": 124}, 62)


def gtsrb(folder: Path) -> Expected:
    pictures, root = DrawnImages(), "GTSRB/Final_Training/Images"
    header = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2"
    members = _files(
        [f"{root}/{c:05d}/00000_{k:05d}.ppm" for c in range(43) for k in range(3)],
        pictures=pictures,
    )
    for c in range(43):
        rows = [f"{header};ClassId", *(f"00000_{k:05d}.ppm;8;8;1;1;7;7;{c}" for k in range(3))]
        members[f"{root}/{c:05d}/GT-{c:05d}.csv"] = _lines(rows)
    write_zip(
        folder / "GTSRB_Final_Training_Images.zip", members | {"GTSRB/Readme-Images.txt": b"x"}
    )
    names = [f"{k:05d}.ppm" for k in range(86)]
    members = _files([f"GTSRB/Final_Test/Images/{name}" for name in names], pictures=pictures)
    rows = [f"{name};8;8;1;1;7;7" for name in names]
    members["GTSRB/Final_Test/Images/GT-final_test.test.csv"] = _lines([header, *rows])
    write_zip(
        folder / "GTSRB_Final_Test_Images.zip",
        members | {"GTSRB/Readme-Images-Final-test.txt": b"x"},
    )
    truth = _lines([f"{header};ClassId", *(f"{row};{k * 5 % 43}" for k, row in enumerate(rows))])
    write_zip(folder / "GTSRB_Final_Test_GT.zip", {"GT-final_test.csv": truth})
    return Expected({"train": 129, "test": 86}, 43)


def vistex(folder: Path) -> Expected:
    pictures, root, members = (
        DrawnImages(),
        "VisTex/Images",
        {"VisionTexture/buildVisTex": b"#!/bin/sh\n"},
    )
    for part, letter in enumerate("ABCDEFGH"):
        names = [
            f"{root}/Reference/{name}/{name}.{k:04d}.ppm"
            for name in _VISTEX[part::8]
            for k in range(4)
        ]
        names += [
            f"{root}/Scenes/GroundWaterCity/Ground{letter}.0000.ppm",
            f"VisTex/FLAT/{_VISTEX[part]}.0000.ppm",
        ]
        data = tar_bytes(_files(names, pictures=pictures) | {f"VisTex/README.{letter}": b"x"})
        members[f"VisionTexture/vistex1.0a.{letter}.tar.Z"] = _compress(data)
    write_tar(folder / "VisTex.tar.gz", members)
    return Expected({"all": 76}, 19)


_OWN = {
    name: value
    for name, value in globals().items()
    if inspect.isfunction(value) and value.__module__ == __name__
}
MAKERS: dict[str, Callable[[Path], Expected]] = {
    name: value for name, value in _OWN.items() if name[0] != "_"
}

_people = _names("{}{}.jpg", _ABERDEEN, (1, 2, 13)) + _names("{}{}.jpg", _ALIASES, (3, 4))
_plain("aberdeen", "Aberdeen.zip", 91, _people)
_faces = [
    f"{10 * (subject - 1) + k}_{subject}.jpg" for subject in range(1, 42) for k in (1, 2, 9, 10)
]
_plain("olivetti", "the-orl-database-for-training-and-testing.zip", 41, _faces, channels=1)
_plain(
    "umist",
    "face.tar.gz",
    20,
    _names("1{0}/1{0}{1:03d}.pgm", "abcdefghijklmnopqrst", range(4)),
    channels=1,
)
_plain(
    "cmu_amp",
    "faceExpressionDatabase.zip",
    13,
    _names("{}{:02d}.bmp", "ABCDEFGHIJKLM", range(75)),
    channels=1,
)

_views = _names("coil-20-proc/obj{}__{}.png", range(1, 21), (0, 1, 35, 71))
_plain("coil20", "coil-20-proc.zip", 20, _views, channels=1)
# Ends of ranges.
_parts = {
    "train": (0, 2, 70, 71),
    "dev": (16, 20),
    "dev_test": (50, 54),
    "test": (3, 15, 21, 49, 55, 69),
}
_views = _names(
    "coil-100/obj{}__{}.png",
    range(1, 101),
    (5 * view for views in _parts.values() for view in views),
)
_counts = {part: 100 * len(views) for part, views in _parts.items()}
_plain(
    "coil100", "coil-100.zip", 100, _views, 4, extras="coil-100/convertGroupppm2png.pl", **_counts
)

_shapes = _names("original/{}-{}.gif", _MPEG7, (1, 2, 20)) + _names(
    "original/{}.gif", ("confusions", "shapedata")
)
_plain(
    "mpeg7",
    "MPEG7dataset.zip",
    70,
    _shapes,
    channels=1,
    extras="original/confusions.fig original/shapedata.eps",
    all=210,
)

_cars = _names("CarData/TrainImages/{}-{}.pgm", ("pos", "neg"), range(8))
# whole scenes
_cars += _names("CarData/{}/test-{}.pgm", ("TestImages", "TestImages_Scale"), range(4))
_plain(
    "uiuc_cars",
    "uiuc.tar.gz",
    2,
    _cars,
    channels=1,
    extras="CarData/README.txt CarData/trueLocations.txt",
    all=16,
)

_root = "spatial_envelope_256x256_static_8outdoorcategories"
_outdoor = _words("coast forest highway insidecity mountain opencountry street tallbuilding")
_plain(
    "scenes8",
    f"{_root}.zip",
    8,
    _names(f"{_root}/{{}}_{{}}.jpg", _outdoor, ("arnat59", "n291061", "sun12", "natu300")),
)
_plain(
    "scenes15",
    "scene_categories.zip",
    15,
    _names("{}/image_{:04d}.jpg", _SCENES15, range(1, 5)),
    channels=1,
)

_instruments = _words(
    "bassoon cello clarinet erhu flute frenchhorn guitar harp recorder saxophone trumpet violin"
)
_played = _names(
    "norm_image/{}_instrument/{}/train/{:03d}.jpg", ("play", "with"), _instruments, range(1, 4)
)
_played += _names(
    "norm_image/{}_instrument/{}/test/{:03d}.jpg", ("play", "with"), _instruments, range(1, 3)
)
_plain("ppmi", "norm_ppmi_12class.zip", 24, _played, extras="README", train=72, test=48)

_known = {1: "001.ak47", 198: "198.spider", 257: "257.clutter"}
_folders = [_known.get(n, f"{n:03d}.thing-{n}-101") for n in range(1, 258)]
_things = [
    f"256_ObjectCategories/{name}/{name[:3]}_{k:04d}.jpg" for name in _folders for k in (1, 2)
]
_plain(
    "caltech256",
    "256_ObjectCategories.tar",
    257,
    _things,
    extras="256_ObjectCategories/198.spider/RENAME2",
)
