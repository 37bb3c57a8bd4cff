"""The files of a data set: the user's own, or downloaded; verified by published checksums."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream import catalogue
from nevis_stream.datasets.preparation.unpack import stem
from nevis_stream.errors import BadInput

_BLOCK = 2**20
_TIMEOUT = 60  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """One file that a data set is made of.

    Attributes:
      file: its name.
      url: where it is; "kaggle:OWNER/NAME" for a data set of Kaggle, "" where unknown.
      md5: 32 hex digits, "" where none is published.
      optional: whether the task can be made without it.
    """

    file: str
    url: str
    md5: str
    optional: bool


@dataclass(frozen=True)
class Plan:
    """How the files of a data set can be had.

    Attributes:
      sources: the files.
      state: "downloadable", "needs a manual step" or "source unknown".
      advice: the one thing to do where a file cannot be downloaded.
    """

    sources: tuple[Source, ...]
    state: str
    advice: str


def plan(dataset_id: str) -> Plan:
    """Returns how the files of a catalogue data set can be had; reads tables only."""
    layout = catalogue.layouts()[dataset_id]
    row = catalogue.nevis22_datasets()[layout.get("like", dataset_id)]
    urls = [
        u
        for text in layout.get("urls") or row["download_urls"].split(" ; ")
        for u in _expanded(text)
    ]
    files = [f for text in layout.get("files") or map(_name, urls) for f in _expanded(text)]
    md5 = layout["md5"] if "md5" in layout else row["md5"].split(" ; ") if row["md5"] else []
    md5 = [*md5, *[""] * (len(files) - len(md5))]
    optional = layout.get("optional", ())
    sources = tuple(
        Source(file, url, digest, file in optional)
        for file, url, digest in zip(files, urls, md5, strict=True)
    )
    manual = row["needs_manual_download"]
    if not all(source.url for source in sources):
        state = "source unknown"
    elif manual == "no" or manual.startswith("registration for"):  # for a file that is not used
        state = "downloadable"
    else:
        state = "needs a manual step"
    return Plan(
        sources,
        state,
        _advice(row, [s.file for s in sources if not s.optional], [s.url for s in sources]),
    )


def _advice(row: Mapping[str, str], files: list[str], urls: list[str]) -> str:
    names = ", ".join(files[:4]) + (f" and {len(files) - 4} more" if len(files) > 4 else "")
    place = f"put {names} into a folder and give it with --from=FOLDER"
    if urls[0].startswith("kaggle:"):
        owner = urls[0].removeprefix("kaggle:")
        return (
            f"with an account of Kaggle, download https://www.kaggle.com/datasets/{owner}; {place}"
        )
    if "registration" in row["needs_manual_download"]:
        return f"register at {row['homepage']}, download; {place}"
    if "link" in row["needs_manual_download"]:
        return f"open {urls[0]} in a browser (homepage: {row['homepage']}); {place}"
    return f"see {row['homepage']}; {place}"


def _name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _expanded(text: str) -> list[str]:
    """Expands `<1..112 but 14>`."""
    match = re.search(r"<(\d+)\.\.(\d+)(?: but (\d+))?>", text)
    if match is None:
        return [text]
    numbers = range(int(match[1]), int(match[2]) + 1)
    return [text.replace(match[0], str(n)) for n in numbers if str(n) != match[3]]


def find(source: Source, places: list[Path]) -> Path | None:
    """Returns the file, or a folder named like the archive, in the first folder that has it."""
    for place in places:
        for name in (source.file, stem(source.file)):
            if (place / name).exists():
                return place / name
    return None


def verify(path: Path, md5: str) -> None:
    """Compares a file with its published checksum; an unpacked folder has none.

    Raises:
      BadInput: they differ.
    """
    if not md5 or path.is_dir():
        return
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != md5:
        raise BadInput(
            f"{path}: its MD5 is {digest.hexdigest()}, the published one {md5}. It is cut short,"
            " altered or another version: delete it and fetch it again, or prepare with"
            " --unverified if you trust it."
        )


def download(source: Source, folder: Path, progress: Any = None) -> Path:
    """Downloads a file into a folder, where it appears when it is complete and verified.

    Raises:
      BadInput: the address does not answer, or the file's checksum is not the published one.
    """
    try:
        import pooch
    except ImportError:
        raise BadInput("pooch is needed for downloads: pip install 'nevis_stream[data]'.") from None
    import requests

    pooch.get_logger().setLevel("ERROR")
    folder.mkdir(parents=True, exist_ok=True)
    fetcher = pooch.HTTPDownloader(timeout=_TIMEOUT, progressbar=progress or False)
    try:
        path = pooch.retrieve(
            source.url,
            f"md5:{source.md5}" if source.md5 else None,
            source.file,
            folder,
            downloader=fetcher,
        )
    except requests.RequestException as error:
        raise BadInput(f"{source.url}: cannot be fetched ({_reason(error)}).") from None
    except ValueError as error:
        if "hash" not in str(error):
            raise
        raise BadInput(
            f"{source.url}: the downloaded file does not have the published MD5 {source.md5}."
        ) from None
    return Path(path)


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"status {response.status_code}" if response is not None else type(error).__name__
