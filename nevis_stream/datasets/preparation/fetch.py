"""The files of a data set: found on this machine or downloaded, and compared with checksums; or a
copy that TFDS has already prepared on this machine.

Copies in a random-access format (array_record) are read as they are; TFDS's usual one (tfrecord)
needs TensorFlow, and where that is not installed the copy is left alone.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.datasets.files import Example
from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.preparation.unpack import strip_suffix
from nevis_stream.datasets.prepared import ADDRESS_UNKNOWN, DOWNLOAD_YOURSELF, DOWNLOADABLE
from nevis_stream.datasets.prepared_images import open_builder
from nevis_stream.errors import BadInput, describe_installation
from nevis_stream.storage import TEMPORARY_PREFIX, make_directory, sync_directory, sync_tree
from nevis_stream.storage.reading import open_file

_TIMEOUT = 60  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """One file of a data set.

    Attributes:
      file: its name.
      url: its address; "kaggle:OWNER/NAME" for a data set of Kaggle, "" if unknown.
      md5: 32 hex digits, "" if none is published.
      optional: whether it is published with the others but not used, and so not fetched.
    """

    file: str
    url: str
    md5: str
    optional: bool


@dataclass(frozen=True)
class FetchPlan:
    """How to get the files of a data set.

    Attributes:
      sources: the files.
      state: "downloadable", "to download yourself" or "address unknown".
      advice: what the user can do if a file cannot be downloaded.
    """

    sources: tuple[Source, ...]
    state: str
    advice: str


def fetch_plan(dataset_id: str) -> FetchPlan:
    """Returns how to get the files of a data set of the catalogue; only reads tables."""
    layout = catalogue.read_file_layouts()[dataset_id]
    row = catalogue.read_nevis22_datasets()[layout.get("like", dataset_id)]
    urls = [
        url
        for text in layout.get("urls") or row["download_urls"].split(" ; ")
        for url in _expand(text)
    ]
    files = [file for text in layout.get("files") or map(_name, urls) for file in _expand(text)]
    md5 = layout["md5"] if "md5" in layout else row["md5"].split(" ; ") if row["md5"] else []
    md5 = [*md5, *[""] * (len(files) - len(md5))]
    optional = layout.get("optional", ())
    sources = tuple(
        Source(file, url, digest, file in optional)
        for file, url, digest in zip(files, urls, md5, strict=True)
    )
    manual = row["needs_manual_download"]
    if not all(source.url for source in sources):
        state = ADDRESS_UNKNOWN
    elif manual == "no" or manual.startswith("registration for"):  # for a file that is not used
        state = DOWNLOADABLE
    else:
        state = DOWNLOAD_YOURSELF
    return FetchPlan(
        sources,
        state,
        _advice(row, [s.file for s in sources if not s.optional], urls[0]),
    )


def _advice(row: Mapping[str, str], files: list[str], url: str) -> str:
    names = ", ".join(files[:4]) + (f" and {len(files) - 4} more" if len(files) > 4 else "")
    step = f"put {names} into a folder and pass it with --from=FOLDER"
    if url.startswith("kaggle:"):
        page = f"https://www.kaggle.com/datasets/{url.removeprefix('kaggle:')}"
        return f"log in to Kaggle and download {page}; {step}"
    if "registration" in row["needs_manual_download"]:
        return f"register at {row['homepage']} and download the files; {step}"
    if "link" in row["needs_manual_download"]:
        return f"open {url} in a browser (homepage: {row['homepage']}); {step}"
    return f"see {row['homepage']}; {step}"


def _name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _expand(text: str) -> list[str]:
    """Expands `<1..112 but 14>`."""
    match = re.search(r"<(\d+)\.\.(\d+)(?: but (\d+))?>", text)
    if match is None:
        return [text]
    numbers = range(int(match[1]), int(match[2]) + 1)
    return [text.replace(match[0], str(n)) for n in numbers if str(n) != match[3]]


def find_local_file(source: Source, folders: list[Path]) -> Path | None:
    """Returns the file, or a folder with the archive's name, from the first folder that has it."""
    for folder in folders:
        for name in (source.file, strip_suffix(source.file)):
            if (folder / name).exists():
                return folder / name
    return None


def verify(path: Path, md5: str) -> None:
    """Compares a file with its published checksum; a folder is not compared.

    Raises:
      BadInput: they differ.
    """
    if not md5 or path.is_dir():
        return
    with open_file(path) as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != md5:
        raise BadInput(
            f"{path}: its MD5 is {digest}, but the published one is {md5}. The file is truncated,"
            " altered or another version: delete it and download it again, or use --unverified if"
            " you trust it."
        )


def download(source: Source, folder: Path, progress: Any = None) -> Path:
    """Downloads a file into a folder, where it appears once it is complete and verified.

    Raises:
      BadInput: the download failed, or the file's checksum is not the published one.
    """
    try:
        import pooch
    except ImportError:
        raise BadInput(f"downloads need pooch: {describe_installation('data')}.") from None
    import requests

    pooch.get_logger().setLevel("ERROR")
    # its final name, which says that it is complete, comes after its bytes
    complete = folder / source.file
    arriving = complete.with_name(f"{TEMPORARY_PREFIX}{complete.name}")
    make_directory(complete.parent)
    arriving.unlink(missing_ok=True)
    fetcher = pooch.HTTPDownloader(timeout=_TIMEOUT, progressbar=progress or False)
    try:
        pooch.retrieve(
            source.url,
            f"md5:{source.md5}" if source.md5 else None,
            arriving.name,
            arriving.parent,
            downloader=fetcher,
        )
    except requests.RequestException as error:
        raise BadInput(f"{source.url}: the download failed ({_reason(error)}).") from None
    except ValueError as error:
        if "hash" not in str(error):
            raise
        raise BadInput(
            f"{source.url}: the downloaded file does not have the published MD5 {source.md5}."
        ) from None
    sync_tree(arriving)
    arriving.replace(complete)
    sync_directory(complete.parent)
    return complete


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"status {response.status_code}" if response is not None else type(error).__name__


PARTS = {"train": "train", "validation": "dev", "test": "test"}  # by TFDS's split


def find_newest_copy(dataset_id: str) -> Path | None:
    """Returns the newest copy of a data set; None without one, or if it cannot be read here.

    Copies are below TFDS_DATA_DIR, by default ~/tensorflow_datasets.
    """
    layout = catalogue.read_file_layouts()[dataset_id]
    name = catalogue.read_nevis22_datasets().get(dataset_id, {}).get("tfds_name", "")
    if not name or "tfds" not in layout or find_spec("tensorflow_datasets") is None:
        return None
    root = Path(os.environ.get("TFDS_DATA_DIR") or Path.home() / "tensorflow_datasets") / name
    versions = sorted(
        root.glob("*.*.*/dataset_info.json"), key=lambda path: _version(path.parent.name)
    )
    if not versions:
        return None
    newest = versions[-1].parent
    readable = list(newest.glob("*.array_record-*")) or find_spec("tensorflow")
    return newest if readable else None


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in name.split(".") if number.isdigit())


def read_examples(dataset_id: str, copy: Path, work: Path) -> list[Example]:
    """Returns the examples of a copy.

    Encoded images are written into `work`, so that memory holds none of them.

    The layout's `tfds` says `parts` (by TFDS's split), the feature `label`, and whether images
    are `transposed`.

    Raises:
      BadInput: the copy lacks a split or a feature that the layout names.
    """
    import tensorflow_datasets as tfds

    options = catalogue.read_file_layouts()[dataset_id]["tfds"]
    kind = catalogue.read_nevis22_datasets()[dataset_id]["kind"]
    parts = options.get("parts", PARTS)
    builder = open_builder(copy)
    splits = [split for split in builder.info.splits if split in parts]
    if set(parts.values()) & {"train", "test"} - {parts[split] for split in splits}:
        raise BadInput(
            f"{copy}: has the splits {', '.join(builder.info.splits)}; {', '.join(parts)} are"
            " needed."
        )
    result = []
    for split in splits:
        folder = work / "tfds" / split
        folder.mkdir(parents=True, exist_ok=True)
        for index, record in enumerate(_records(tfds, builder, split)):
            path = folder / f"{index:08d}"
            path.write_bytes(record["image"])
            image = SourceImage(path)
            if options.get("transposed"):
                image = SourceImage(
                    lambda p=image: np.swapaxes(np.asarray(p.open()), 0, 1), str(path)
                )
            label = _label(record, options.get("label", "label"), kind, copy)
            result.append(Example(parts[split], f"{index:08d}", image, label))
    return result


def _records(tfds: Any, builder: Any, split: str) -> Iterator[dict]:
    decoders = {"image": tfds.decode.SkipDecoding()}
    if list(Path(builder.data_dir).glob("*.array_record-*")):
        yield from builder.as_data_source(split, decoders=decoders)
    else:
        yield from tfds.as_numpy(
            builder.as_dataset(split=split, decoders=decoders, shuffle_files=False)
        )


def _label(record: dict, feature: str, kind: str, copy: Path) -> Any:
    if feature not in record:
        raise BadInput(f"{copy}: its records have {', '.join(record)}, no {feature!r}.")
    value = record[feature]
    if isinstance(value, dict):  # attributes, in the order of their names
        return frozenset(number for number, name in enumerate(sorted(value)) if value[name])
    return frozenset(int(label) for label in value) if kind == MULTI_LABEL else int(value)
