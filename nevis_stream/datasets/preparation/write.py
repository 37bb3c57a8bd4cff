"""Writes prepared data in one step: a directory that any TFDS opens, or arrays.

An image is stored as its file's own bytes if it is a JPEG or PNG with the right number of channels,
else as a PNG.
"""

import contextlib
import importlib.util
import json
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from nevis_stream.datasets import prepared
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.preparation.content import Content
from nevis_stream.errors import BadInput, describe_installation
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage import (
    lock_exclusively,
    make_directory,
    make_temporary,
    remove_leftovers,
    replace_directory,
    sync_tree,
)
from nevis_stream.storage.reading import clear_faults

_EVERY = 256
SCHEMA = 1
BUSY = "is preparing this data set. Wait for it, or stop it and start the same command again."


def write(
    content: Content, origin: str, facts: dict[str, Any], form: str, progress: Progress
) -> Path:
    """Writes a data set into the data root, replacing what was prepared before.

    A kill leaves the old or the new: `prepared.is_ready` finds it.

    Args:
      content: the samples.
      origin: "published" or "local".
      facts: facts for prepared.json besides the content's own: sources, name, note.
      form: "array_record" or "raw".
      progress: is told the stages.

    Returns:
      The directory.

    Raises:
      BadInput: "raw" for images of several sizes, or TFDS is missing.
      StorageFull: the disk is full.
      RunLocked: another process is writing the same data set.
    """
    target = prepared.find_directory(content.dataset_id, origin)
    if form == prepared.RAW and content.shape is None:
        raise BadInput(
            f"{content.dataset_id}: images of several sizes cannot be stored with --store=raw;"
            " use --store=array_record."
        )
    names = [path.name for path in target.parent.parent.glob("*")]
    alike = prepared.find_alike(content.dataset_id, names)
    if alike and content.dataset_id not in names:
        raise BadInput(
            f"{content.dataset_id}: the data set {alike[0]!r} is there already, and a drive may not"
            " tell names apart that differ in case only. Choose another name."
        )
    make_directory(target.parent)
    with clear_faults(target), lock_exclusively(target.parent / "lock", BUSY):
        remove_leftovers(target.parent)
        with make_temporary(target, is_folder=True) as work:
            folder = (_write_raw if form == prepared.RAW else _write_records)(
                content, work, progress
            )
            for name, split in content.splits.items():
                tensors = {key: np.ascontiguousarray(value) for key, value in split.tensors.items()}
                (folder / f"{name}.safetensors").write_bytes(save(tensors))
                if len(split.names):
                    text = json.dumps(list(split.names), ensure_ascii=False)
                    (folder / f"{name}{prepared.NAMES}").write_text(text, encoding="utf-8")
            about = {
                "schema": SCHEMA,
                "dataset_id": content.dataset_id,
                "origin": origin,
                "version": prepared.VERSION,
                "kind": content.kind,
                "num_classes": content.num_classes,
                "class_names": list(content.class_names),
                "channels": content.channels,
                "format": form,
                "parts": list(content.parts),
                **content.facts,
                **facts,
                "fingerprint": content.fingerprint,
                "files": {path.name: prepared.hash_file(path) for path in sorted(folder.iterdir())},
            }
            about["seal"] = prepared.seal(about)
            (folder / prepared.ABOUT).write_text(
                json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            sync_tree(folder)
            replace_directory(folder, target)
    return target


def _write_raw(content: Content, work: Path, progress: Progress) -> Path:
    folder = work / "raw"
    folder.mkdir()
    total, done = sum(len(split.images) for split in content.splits.values()), 0
    for name, split in content.splits.items():
        shape = (len(split.images), *content.shape, *([] if content.channels == 1 else [3]))
        with open(folder / f"{name}.npy", "wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "|u1", "fortran_order": False, "shape": shape}
            )
            for image in split.images:
                opened, mode = image.open(), "L" if content.channels == 1 else "RGB"
                file.write(
                    np.ascontiguousarray(
                        opened if opened.mode == mode else opened.convert(mode)
                    ).data
                )
                done += 1
                if done % _EVERY == 0:
                    progress.stage("write", done, total)
    return folder


def check_form(form: str) -> None:
    """Checks that what a form of storage needs is installed, before any image is read.

    Args:
      form: "array_record" or "raw".

    Raises:
      BadInput: array_record without TFDS.
    """
    if form != prepared.ARRAY_RECORD:
        return
    if importlib.util.find_spec("tensorflow_datasets") is None:
        raise BadInput(
            f"TFDS is needed to write array_record: {describe_installation('data')}. Without it,"
            " images of one size can be prepared with --store=raw."
        )


def _write_records(content: Content, work: Path, progress: Progress) -> Path:
    check_form(prepared.ARRAY_RECORD)
    records = make_builder(content, work, progress)
    with _quiet():
        records.download_and_prepare()
    return Path(records.data_dir)


def make_builder(content: Content, data_dir: Path, progress: Progress = SILENT) -> Any:
    """Returns the TFDS builder of a data set: features image, label (or labels) and id.

    The splits are train, dev, dev_test, test.

    Args:
      content: the samples.
      data_dir: where `download_and_prepare` writes.
      progress: is told the stages.
    """
    import tensorflow_datasets as tfds

    total = sum(len(split.images) for split in content.splits.values())
    shape = (*(content.shape or (None, None)), content.channels)
    single = content.kind == SINGLE_LABEL
    names = list(content.class_names)
    if single:
        classes = (
            {"names": names}
            if len(names) == content.num_classes
            else {"num_classes": content.num_classes}
        )
        label = {"label": tfds.features.ClassLabel(**classes)}
    else:
        label = {"labels": tfds.features.Tensor(shape=(content.num_classes,), dtype=np.uint8)}

    class Info(tfds.core.DatasetInfo):
        def initialize_from_bucket(self):
            """Looks for no information online, for which TFDS would leave a temporary folder."""

    class Rows(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
        VERSION = tfds.core.Version(prepared.VERSION)
        name = content.dataset_id.lower().replace("-", "_").replace(".", "_")

        def _info(self):
            features = {
                "image": tfds.features.Image(shape=shape),
                **label,
                "id": tfds.features.Text(),
            }
            return Info(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                # the order is that of hashed ids already, and the tensors follow it
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager):
            done = 0
            generators = {}
            for split in content.splits:
                generators[split] = self._generate_examples(split, done)
                done += len(content.splits[split].images)
            return generators

        def _generate_examples(self, name, done):
            split = content.splits[name]
            labels = split.tensors["labels"]
            part, index = split.tensors["part"].tolist(), split.tensors["index"].tolist()
            key = next(iter(label))
            for position, image in enumerate(split.images):
                if (done + position) % _EVERY == 0:
                    progress.stage("write", done + position, total)
                value = int(labels[position]) if single else labels[position]
                sample_id = (
                    f"{content.dataset_id}/{content.parts[part[position]]}/{index[position]}"
                )
                yield (
                    position,
                    {
                        "image": encode_for_storage(image, content.channels),
                        key: value,
                        "id": sample_id,
                    },
                )

    return Rows(data_dir=data_dir, file_format="array_record")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps TFDS from printing and from drawing bars of its own."""
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
    sys.stdout.flush()


GREY, COLOUR = 1, 3
_KEPT = ("JPEG", "PNG")
_MODES = {GREY: "L", COLOUR: "RGB"}
_LEVEL = 1  # of zlib: three times faster than the usual one, files a tenth larger


def encode_for_storage(image: SourceImage, channels: int) -> bytes:
    """Returns the bytes of an image file with `channels` channels (1 or 3).

    A JPEG or PNG with this number of channels is kept byte for byte, if its pixels are those that
    are shown (`SourceImage.open`); everything else becomes a PNG, without loss unless colours are
    dropped.
    """
    data = image.read_file()
    opened = image.open()
    if data is not None and opened.format in _KEPT and opened.mode == _MODES[channels]:
        return data
    return encode_png(
        np.asarray(opened if opened.mode == _MODES[channels] else opened.convert(_MODES[channels]))
    )


def encode_png(pixels: np.ndarray) -> bytes:
    """Returns uint8[h, w] or [h, w, 3] as a PNG without filters.

    For small images this is four times faster than Pillow's.
    """
    height, width = pixels.shape[:2]
    # each row begins with its filter: none
    rows = np.zeros((height, 1 + pixels.size // height), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, _LEVEL)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
