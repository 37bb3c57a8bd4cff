"""Image files become what a viewer shows, in the same way wherever they are opened."""

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from nevis_stream.active_testing.labelling.pools import load_pool
from nevis_stream.datasets import decoding
from nevis_stream.datasets.decoding import decode
from nevis_stream.datasets.files import FileTree
from nevis_stream.datasets.images import ArrayImages, EncodedImages, SourceImage
from nevis_stream.datasets.preparation.write import encode_for_storage
from nevis_stream.datasets.raw_formats.paths import read_paths
from nevis_stream.datasets.readers import read
from nevis_stream.datasets.reading import Choices
from nevis_stream.errors import BadInput, DataWarning
from nevis_stream.run_directory.outcomes import strip

# a shape that no turn and no mirror leaves as it is: black on white, its upper left corner grey
UPRIGHT = np.full((16, 24, 3), 255, np.uint8)
UPRIGHT[:8, :8] = 128
UPRIGHT[:8, 16:] = 0
# how the pixels of the upright image are stored under each EXIF orientation
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def saved(image, format="PNG", **options):
    with io.BytesIO() as buffer:
        image.save(buffer, format, **options)
        return buffer.getvalue()


def photograph(orientation, format="JPEG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(np.ascontiguousarray(STORED[orientation](UPRIGHT)))
    options = {"JPEG": {"quality": 98, "subsampling": 0}, "WEBP": {"lossless": True}}
    return saved(image, format, exif=exif, **options.get(format, {}))


def decoded(data, **options):
    return decode(io.BytesIO(data), "x.img", **options)


def pixels(data, **options):
    return np.asarray(decoded(data, **options).image)


def near(image, expected, tolerance=4):
    image, expected = np.asarray(image, int), np.asarray(expected, int)
    return image.shape == expected.shape and np.abs(image - expected).max() <= tolerance


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", STORED)
def test_an_exif_orientation_is_applied(orientation, format):
    found = decoded(photograph(orientation, format))
    assert near(found.image, UPRIGHT)
    assert (decoding.TURNED in found.changes) == (orientation != 1)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0MM\0*\0\0\0\xff", b"Exif\0\0"])
def test_a_damaged_exif_block_changes_nothing(exif):
    data = saved(Image.fromarray(UPRIGHT), "JPEG", quality=98, subsampling=0, exif=exif)
    assert near(pixels(data), UPRIGHT)


def png(width, bits, kind, row, clear):
    """A PNG of one row with a transparent colour."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, 1, bits, kind, 0, 0, 0)),
        (b"tRNS", clear),
        (b"IDAT", zlib.compress(b"\0" + row)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def with_palette():
    image = Image.fromarray(np.asarray([[0, 1, 2]], np.uint8), "L")
    image = image.convert("P")
    image.putpalette([0, 0, 0, 10, 20, 30, 200, 100, 0])
    return image


TRANSPARENT = {
    "rgba": (
        saved(Image.fromarray(np.asarray([[[0, 0, 0, 0], [9, 8, 7, 255]]], np.uint8))),
        [[[255, 255, 255], [9, 8, 7]]],
    ),
    "half": (
        saved(Image.fromarray(np.asarray([[[0, 0, 0, 128]]], np.uint8))),
        [[[127, 127, 127]]],
    ),
    "la": (
        saved(Image.fromarray(np.asarray([[[0, 0], [40, 255]]], np.uint8), "LA")),
        [[255, 40]],
    ),
    "palette": (
        saved(with_palette(), transparency=b"\0\x80\xff"),
        [[[255, 255, 255], [132, 137, 142], [200, 100, 0]]],
    ),
    "palette, one colour": (
        saved(with_palette(), transparency=1),
        [[[0, 0, 0], [255, 255, 255], [200, 100, 0]]],
    ),
    "gif": (
        saved(with_palette(), "GIF", transparency=0),
        [[[255, 255, 255], [10, 20, 30], [200, 100, 0]]],
    ),
    "webp": (
        saved(Image.fromarray(np.asarray([[[0, 0, 0, 0]]], np.uint8)), "WEBP", lossless=True),
        [[[255, 255, 255]]],
    ),
    "1 bit": (png(2, 1, 0, b"\x40", b"\0\0"), [[255, 255]]),
    "2 bits": (png(4, 2, 0, b"\x1b", b"\0\x01"), [[0, 255, 170, 255]]),
    "4 bits": (png(2, 4, 0, b"\x1f", b"\0\x01"), [[255, 255]]),
    "16 bits": (
        png(2, 16, 0, struct.pack(">HH", 1000, 40000), struct.pack(">H", 1000)),
        [[255, 156]],
    ),
    "colour": (png(2, 8, 2, bytes(range(6)), b"\0\0\0\1\0\2"), [[[255, 255, 255], [3, 4, 5]]]),
    "16-bit colour": (
        png(1, 16, 2, struct.pack(">HHH", 257, 514, 771), struct.pack(">HHH", 257, 514, 771)),
        [[[255, 255, 255]]],
    ),
}


@pytest.mark.parametrize("name", TRANSPARENT)
def test_transparency_is_composited_on_white(name):
    data, expected = TRANSPARENT[name]
    found = decoded(data)
    assert near(found.image, expected, 1) and decoding.TRANSPARENT in found.changes


def test_another_background_and_opaque_alpha():
    data, _ = TRANSPARENT["rgba"]
    assert pixels(data, background=(1, 2, 3)).tolist() == [[[1, 2, 3], [9, 8, 7]]]
    grey, _ = TRANSPARENT["la"]
    assert pixels(grey, background=(1, 2, 3)).tolist() == [[[1, 2, 3], [40, 40, 40]]]
    opaque = decoded(saved(Image.fromarray(UPRIGHT).convert("RGBA")))
    assert near(opaque.image, UPRIGHT, 0) and opaque.changes == ()
    assert decoding.parse_colour("") == decoding.parse_colour("white") == (255, 255, 255)
    assert decoding.parse_colour("#0a0B0c") == (10, 11, 12)
    for wrong in ("#12345678", "whitish", "1,2,3"):
        with pytest.raises(BadInput, match="is not a colour; valid: a name such as white"):
            decoding.parse_colour(wrong)


def frames(format, **options):
    pages = [Image.fromarray(np.full((4, 5, 3), value, np.uint8)) for value in (40, 90, 200)]
    return saved(pages[0], format, save_all=True, append_images=pages[1:], **options)


@pytest.mark.parametrize("format", ["GIF", "PNG", "TIFF", "WEBP", "MPO"])
def test_of_several_frames_the_first_is_taken_and_counted(format):
    options = {"lossless": True} if format == "WEBP" else {}
    data = frames(format, **options)
    assert near(pixels(data), np.full((4, 5, 3), 40))
    one = saved(Image.fromarray(UPRIGHT))
    images = EncodedImages(map(SourceImage, [one, data, data], "abc"))
    assert images.notes == [f"b: {decoding.FRAMES}; the same holds for 1 more."]
    assert near(images[2], np.full((4, 5, 3), 40))


def tiff(image, **tags):
    return saved(image, "TIFF", tiffinfo={int(key[1:]): value for key, value in tags.items()})


SIXTEEN = np.asarray([[0, 257, 32768], [40000, 65278, 65535]], np.uint16)
EIGHT = [[0, 1, 128], [156, 254, 255]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (saved(Image.fromarray(SIXTEEN)), EIGHT),
        (saved(Image.fromarray(SIXTEEN), "TIFF"), EIGHT),
        (saved(Image.fromarray(SIXTEEN), "JPEG2000"), EIGHT),
        (b"P5 3 2 65535\n" + SIXTEEN.astype(">u2").tobytes(), EIGHT),
        (tiff(Image.fromarray(SIXTEEN), t262=0), [[255, 254, 127], [99, 1, 0]]),
        (saved(Image.fromarray(np.asarray([[False, True]]))), [[0, 255]]),
        (saved(Image.fromarray(np.asarray([[False, True]])), "TIFF"), [[0, 255]]),
        (b"P4 2 1\n\x40", [[255, 0]]),
    ],
)
def test_sixteen_bits_and_one_bit_become_eight(data, expected):
    assert pixels(data).tolist() == expected


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "LAB"])
def test_other_colours_are_converted(mode):
    image = Image.fromarray(UPRIGHT)
    if mode == "LAB":  # L of 0 to 255 for 0 to 100 percent; a and b are 0
        lab = np.zeros((16, 24, 3), np.uint8)
        lab[..., 0] = UPRIGHT[..., 0]
        image = Image.frombytes("LAB", (24, 16), lab.tobytes())
    else:
        image = image.convert(mode)
    found = decoded(saved(image, "TIFF"))
    assert found.changes == (decoding.CONVERTED,)
    light = [0, 1, 2] if mode != "LAB" else [0]
    corners = np.asarray(found.image)[[0, 0, -1], [0, -1, 0]][:, light]
    # 128 of lightness is not 128 of grey
    assert near(corners[[1, 2]], [[0] * len(light), [255] * len(light)])
    assert 115 < corners[0].min() <= corners[0].max() < 135
    if mode == "CMYK":
        assert near(pixels(saved(image, "JPEG", quality=98)), UPRIGHT, 12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 4), np.float32), "floating-point numbers"),
        (np.full((3, 4), 70000, np.int32), "integers from 70000 to 70000 of unknown range"),
        (np.full((3, 4), 200, np.int32), "integers from 200 to 200 of unknown range"),
    ],
)
def test_pixels_of_unknown_range_are_refused(values, message):
    with pytest.raises(BadInput, match=rf"^x\.img: its pixels are {message}"):
        decoded(saved(Image.fromarray(values), "TIFF"))


def test_the_formats_that_are_read():
    assert decoding.list_formats() == (
        *("PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "JPEG2000", "PPM", "QOI"),
        *("SUN", "SGI", "DIB", "XPM", "XBM", "PCX", "TGA"),
    )
    assert {".jpg", ".jpeg", ".png", ".tif", ".mpo", ".webp"} <= decoding.list_suffixes()
    assert not {".eps", ".ps", ".pdf", ".wmf", ".h5", ".mpg"} & decoding.list_suffixes()


@pytest.mark.parametrize("format", ["EPS", "PDF", "ICO", "DDS"])
def test_other_formats_are_refused_whatever_their_name(format, monkeypatch):
    def start(*_, **__):
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.check_call", start)
    data = saved(Image.fromarray(UPRIGHT), format)
    with pytest.raises(BadInput, match=r"x\.img: .*of no format.* that is read: PNG,"):
        decoded(data)


def test_a_box_is_cut_from_the_stored_pixels_and_then_turned(tmp_path):
    (tmp_path / "a.jpg").write_bytes(photograph(6))
    shape = STORED[6](UPRIGHT).shape  # its dark corner, upper right when upright, is lower there
    crop = SourceImage(tmp_path / "a.jpg", box=(0, 0, 8, 8))
    assert near(crop.open(), np.zeros((8, 8, 3))) and shape == (24, 16, 3)
    cut = SourceImage(tmp_path / "a.jpg", box=(-5, -5, 8, 8))
    assert cut.open().size == (8, 8)
    for box in ((16, 0, 20, 5), (3, 3, 3, 9), (9, 9, 5, 5)):
        with pytest.raises(BadInput, match=rf"^b\.json, a\.jpg: the box from \({box[0]}, "):
            SourceImage(tmp_path / "a.jpg", "b.json, a.jpg", box=box).open()


def test_an_array_of_four_channels_is_composited():
    array = np.zeros((2, 1, 2, 4), np.uint8)
    array[:, 0, 1] = 9, 8, 7, 255
    images = ArrayImages(array, "x")
    assert images.notes == [
        "x: the fourth channel is opacity, composited on the background, white."
    ]
    assert images[1].tolist() == [[[255, 255, 255], [9, 8, 7]]]
    assert images.resized(2).shape == (2, 2, 2, 3)
    assert ArrayImages(array, "x", (1, 2, 3))[0][0, 0].tolist() == [1, 2, 3]
    array[..., 3] = 255
    assert ArrayImages(array)[0].tolist() == array[0, ..., :3].tolist()
    assert ArrayImages(np.eye(3, dtype=bool)[None])[0][..., 0].tolist() == [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
    ]


def test_every_way_to_open_a_file_gives_the_same_pixels(tmp_path):
    """Runs, prepared data, layouts, pools of label and thumbnails."""
    files = {
        "a/turned.jpg": photograph(8),
        "a/mirrored.png": photograph(2, "PNG"),
        "b/clear.png": TRANSPARENT["palette"][0],
        "b/deep.png": saved(Image.fromarray(SIXTEEN)),
        "b/grey.png": TRANSPARENT["la"][0],
        "b/upright.jpg": photograph(1),
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    dataset = read(tmp_path, "x")
    images = dataset.parts["all"].images
    assert images.notes and set(images.notes) <= set(dataset.reading.notes)
    with pytest.warns(DataWarning):
        pool = load_pool(str(tmp_path))
    laid_out = list(read_paths(FileTree(tmp_path), pattern=r"(?P<label>[ab])/.*"))
    order = sorted(files)
    assert [e.key for e in laid_out] == list(pool.ids) == order
    for number, name in enumerate(order):
        shown = np.asarray(decode(tmp_path / name, name).image.convert("RGB"))
        assert np.array_equal(images[number], shown)
        assert np.array_equal(pool.images[number], shown)
        assert np.array_equal(laid_out[number].image.open().convert("RGB"), shown)
        for image in (SourceImage(tmp_path / name), SourceImage(files[name], name)):
            kept = encode_for_storage(image, 3)
            plain = Image.open(io.BytesIO(kept))  # as a reader of prepared data opens it
            assert np.array_equal(plain.convert("RGB"), shown)
            assert (kept == files[name]) == (name == "b/upright.jpg")
    with Image.open(io.BytesIO(strip(images, np.asarray([1])))) as thumbnail:
        upright = np.asarray(thumbnail.convert("RGB"), int)
    left, right = upright[: upright.shape[0] // 3], upright[-upright.shape[0] // 4 :]
    assert left.mean() < right.mean()


@pytest.mark.parametrize("form", ["folder", "zip", "npz"])
def test_the_background_is_chosen(tmp_path, form):
    clear, path = np.zeros((6, 5, 4), np.uint8), tmp_path / "x"
    if form == "npz":
        path = tmp_path / "x.npz"
        np.savez(path, images=np.stack([clear, clear]), labels=[0, 1])
    elif form == "zip":
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("labels.csv", "path,split,label\na.png,all,0\nb.png,all,1\n")
            for name in ("a.png", "b.png"):
                out.writestr(name, saved(Image.fromarray(clear)))
    else:
        for name in "ab":
            (path / name).mkdir(parents=True)
            (path / name / "1.png").write_bytes(saved(Image.fromarray(clear)))
    for background, expected in (("", 255), ("#070707", 7)):
        dataset = read(path, "x", Choices(background=background))
        assert f"composited on the background, {background or 'white'}" in dataset.reading.notes[0]
        images = dataset.parts["all"].images
        assert (images[1] == expected).all() and images[1].shape == (6, 5, 3)
    if form != "zip":  # which is no pool
        with pytest.warns(DataWarning, match="composited on the background, white"):
            load_pool(str(path))
    with pytest.raises(BadInput, match="background 'none' is not a colour"):
        Choices(background="none")


def test_a_transparent_file_on_another_background_has_another_fingerprint():
    data, _ = TRANSPARENT["rgba"]
    white, black = (EncodedImages([SourceImage(data, "a", c * 3)]) for c in ((255,), (0,)))
    assert white.content_hashes() != black.content_hashes()
    assert white.take(np.asarray([0]))[0][0, 0].tolist() == [255, 255, 255]
    assert black.take(np.asarray([0]))[0][0, 0].tolist() == [0, 0, 0]
    assert (white.pixel_hashes() != black.pixel_hashes()).all()


def test_twelve_bits_in_sixteen_are_named(tmp_path):
    grey = np.arange(16, dtype=np.uint16).reshape(4, 4) * 256
    named = decode(io.BytesIO(saved(Image.fromarray(grey))), "scan.png")
    assert named.changes == (decoding.SCALED, decoding.DARK)
    bright = decode(io.BytesIO(saved(Image.fromarray(grey * 16))), "scan.png")
    assert bright.changes == (decoding.SCALED,)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 4, 4), 0.5, np.float32), r"not float32.*here 0\.5 to 0\.5"),
        (np.full((2, 4, 4), 900, np.uint16), r"not uint16.*here 900 to 900"),
        (
            np.zeros((2, 6, 6, 2), np.uint8),
            r"2 channels; valid: 1 \(grey\), 3 \(RGB\), 4 \(RGBA\)\.$",
        ),
        (np.zeros((2, 3, 8, 8), np.uint8), r"8 channels.*come first in \(2, 3, 8, 8\)"),
    ],
)
def test_arrays_that_are_no_images_are_refused_with_what_they_are(array, message):
    with pytest.raises(BadInput, match=message):
        ArrayImages(array, "x.npz[images]")


def test_parts_of_a_data_set_are_no_classes_of_a_pool(tmp_path):
    for name in ("Train/1.png", "Train/2.png", "Test/3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    with pytest.raises(BadInput, match=r"Test, Train.*--pool=.*/Test\.$"):
        load_pool(str(tmp_path))
    assert load_pool(str(tmp_path), {"Test/3.png"}).ids == ["Test/3.png"]  # of an older session
    assert load_pool(str(tmp_path / "Test")).labels is None
    (tmp_path / "Test").rename(tmp_path / "bus")  # trains and buses
    assert load_pool(str(tmp_path)).classes == ["Train", "bus"]
    (tmp_path / "bus/old").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "bus/old/4.png")
    assert load_pool(str(tmp_path)).labels is None
