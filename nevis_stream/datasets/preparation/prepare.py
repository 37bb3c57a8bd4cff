"""Prepares one data set: a catalogue row from its files, or a file of the user's."""

import contextlib
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, raw_formats, reading
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, IdsWithGaps
from nevis_stream.datasets.files import Example, FileTree
from nevis_stream.datasets.images import EncodedImages, SourceImage
from nevis_stream.datasets.preparation import fetch
from nevis_stream.datasets.preparation.content import Content, from_examples
from nevis_stream.datasets.preparation.unpack import unpack, unpack_nested
from nevis_stream.datasets.preparation.write import BUSY, write
from nevis_stream.datasets.reading import Choices
from nevis_stream.errors import BadInput, RunLocked, unknown
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage import lock_exclusively, recover


def gather(
    dataset_id: str,
    places: Sequence[Path],
    *,
    download: bool = True,
    verified: bool = True,
    progress: Progress = SILENT,
) -> dict[str, Path]:
    """Returns the files of a catalogue data set by name.

    They are looked for in `places` and in earlier downloads, and else downloaded.

    Raises:
      BadInput: a file is missing (the message says what to do) or has another checksum than
        the published one.
    """
    if dataset_id not in catalogue.read_file_layouts():
        raise BadInput(unknown("data set", dataset_id, catalogue.read_file_layouts()))
    plan = fetch.fetch_plan(dataset_id)
    downloads = (
        catalogue.find_data_root()
        / "downloads"
        / catalogue.read_file_layouts()[dataset_id].get("like", dataset_id)
    )
    files: dict[str, Path] = {}
    for number, source in enumerate(plan.sources):
        progress.stage("fetch", number, len(plan.sources))
        path = fetch.find_local_file(
            source, [*places, *(place / downloads.name for place in places), downloads]
        )
        if path is None and not source.optional:
            if plan.state != prepared.DOWNLOADABLE or not download:
                raise BadInput(f"{dataset_id}: {source.file} is missing: {plan.advice}.")
            try:
                path = fetch.download(source, downloads)
            except BadInput as error:
                raise BadInput(f"{dataset_id}: {error} Or {plan.advice}.") from None
        elif path is not None and verified and not source.optional:
            fetch.verify(path, source.md5)
        if path is not None and not source.optional:
            files[source.file] = path
    return files


def read_content(
    dataset_id: str,
    files: dict[str, Path],
    work: Path,
    progress: Progress = SILENT,
    copy: Path | None = None,
) -> Content:
    """Unpacks the files of a catalogue data set into `work`; reads, examines and divides samples.

    Args:
      dataset_id: the data set.
      files: by name.
      work: folder for unpacked files.
      progress: is told the stages.
      copy: read this copy that TFDS has prepared, and no files.

    Raises:
      BadInput: files that are damaged or not as the layout says.
    """
    layout = catalogue.read_file_layouts()[dataset_id]
    row = catalogue.read_nevis22_datasets()[layout.get("like", dataset_id)]
    for number, path in enumerate(files.values()):
        progress.stage("unpack", number, len(files))
        unpack(path, work)
    unpack_nested(work, layout.get("unpack", ()))
    progress.stage("read", 0, 1)
    if copy is None:
        examples = raw_formats.read(FileTree(work), layout)
    else:
        examples = fetch.read_examples(dataset_id, copy, work)
        # its labels are ids already, and its splits may be others than those of the files
        layout = (
            {"splits": layout["splits"]}
            if {e.part for e in examples} == set(layout.get("splits", ()))
            else {}
        )
    return from_examples(
        dataset_id,
        examples,
        layout,
        row["kind"],
        int(row["num_classes"]),
        int(row["channels"]),
        dataset_id,
        progress,
    )


def prepare(
    dataset_id: str,
    places: Sequence[Path] = (),
    *,
    form: str = prepared.ARRAY_RECORD,
    download: bool = True,
    verified: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Prepares a data set of the catalogue, unless it is ready; returns its directory.

    Fetched and unpacked files are kept until it is ready, so that a second try continues.

    Args:
      dataset_id: one of the 97, or another with a layout of its own (`like` one of these).
      places: folders with files that the user has.
      form: "array_record" or "raw".
      download: whether missing files may be downloaded.
      verified: whether published checksums must hold.
      force: whether to prepare again what is ready.
      progress: is told the stages.

    Raises:
      NevisStreamError: the message says what to do.
    """
    work = catalogue.find_data_root() / "unpacked" / dataset_id
    lock = work.with_name(f"{dataset_id}.lock")
    if prepared.is_ready(dataset_id, "published") and not force:
        recover(prepared.find_directory(dataset_id, "published"))  # a kill may have left something
        if work.exists():
            with contextlib.suppress(RunLocked), lock_exclusively(lock, BUSY):
                shutil.rmtree(work, ignore_errors=True)
        return prepared.find_directory(dataset_id, "published")
    layout = catalogue.read_file_layouts().get(dataset_id, {})
    copy = None if places else fetch.find_newest_copy(dataset_id)
    files = (
        {}
        if copy
        else gather(dataset_id, places, download=download, verified=verified, progress=progress)
    )
    with lock_exclusively(lock, BUSY):
        prepared_content = read_content(dataset_id, files, work, progress, copy)
        facts = {
            "name": catalogue.read_datasets()[dataset_id]["name"],
            "note": layout.get("note", ""),
            "sources": [{"tfds": f"{copy.parent.name} {copy.name}"}]
            if copy
            else [_source(*file) for file in files.items()],
            "checksums": "published MD5 where there is one" if verified else "not compared",
        }
        directory = write(prepared_content, "published", facts, form, progress)
        shutil.rmtree(work, ignore_errors=True)
    return directory


def _source(name: str, path: Path) -> dict[str, Any]:
    if path.is_dir():
        return {"file": name, "folder": True}
    return {"file": name, "bytes": path.stat().st_size, "sha256": prepared.hash_file(path)}


def import_file(
    path: Path,
    dataset_id: str,
    *,
    choices: Choices | None = None,
    year: int | None = None,
    domain: str | None = None,
    form: str = prepared.ARRAY_RECORD,
    progress: Progress = SILENT,
) -> Path:
    """Prepares a user's file as a local data set; returns its directory.

    The file is an .npz, a folder of images or a zip with labels.csv.

    Args:
      path: the file or folder; it brings its own number of classes, but where its ids have gaps,
        the catalogue declares that number.
      dataset_id: a data set of the catalogue, which the file replaces (marked as local), or a new
        name.
      choices: what was chosen for the reading; None: nothing.
      year: of the task, for a new one.
      domain: of the task, for a new one.
      form: "array_record" or "raw".
      progress: is told the stages.

    Raises:
      BadInput: the file cannot be read as a data set.
    """
    from nevis_stream.datasets.readers import read

    progress.stage("read", 0, 1)
    with reading.silence_readings():  # the caller has it from prepared.json
        try:
            dataset = read(path, dataset_id, choices)
        except IdsWithGaps:
            known = {**catalogue.read_nevis22_datasets(), **catalogue.read_shared_files()}.get(
                dataset_id
            )
            if known is None:
                raise
            declared = dataclasses.replace(
                choices or Choices(), num_classes=int(known["num_classes"])
            )
            dataset = read(path, dataset_id, declared)
    row = catalogue.read_datasets().get(dataset_id, {})
    facts = {
        "name": row.get("name", dataset_id),
        "note": "imported; not the published data" if row else "imported",
        "sources": [_source(path.name, path)],
        "domain": domain or row.get("domain", "unstated"),
        "year": year,
    }
    imported = from_examples(
        dataset_id,
        _examples(dataset),
        {"populated": "any"},
        dataset.kind,
        dataset.num_classes,
        1,
        str(path),
        progress,
        dataset.reading,
    )
    return write(imported, "local", facts, form, progress)


def _examples(dataset: DataSet) -> list[Example]:
    examples = []
    for part, samples in dataset.parts.items():
        images = samples.images
        for index, label in enumerate(samples.labels):
            if isinstance(images, EncodedImages):
                image = images.source(index)
            else:
                image = SourceImage(
                    lambda images=images, i=index: _restore_grey(images[i]),
                    f"{part}[{index}]",
                )
            value = (
                int(label)
                if dataset.kind == SINGLE_LABEL
                else frozenset(np.flatnonzero(label).tolist())
            )
            name = samples.names[index] if len(samples.names) else ""
            examples.append(Example(part, f"{index:08d}", image, value, name))
    return examples


def _restore_grey(pixels: np.ndarray) -> np.ndarray:
    """Returns one channel of a grey image, which the readers give as RGB; others as they are."""
    return pixels[..., 0] if (pixels[..., :1] == pixels).all() else pixels
