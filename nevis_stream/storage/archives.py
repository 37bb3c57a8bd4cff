"""Zip archives that cannot be unpacked here, named before anything of them is read."""

import zipfile
from pathlib import Path

from nevis_stream.errors import BadInput

_ENCRYPTED = 0x1 | 0x40  # flags: with a password; with strong encryption
_METHODS = {1: "Shrink", 6: "Implode", 9: "Deflate64", 93: "Zstandard", 95: "XZ", 98: "PPMd"}
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def check_zip(archive: zipfile.ZipFile, path: Path) -> None:
    """Checks that the members of an archive can be unpacked.

    Raises:
      BadInput: one is encrypted, or compressed with a method that Python does not read, such as
        Deflate64, which Windows uses for files above 2 GB.
    """
    for info in archive.infolist():
        if info.flag_bits & _ENCRYPTED:
            why = "is encrypted"
        elif info.compress_type not in _READ:
            method = _METHODS.get(info.compress_type, "an unknown method")
            why = f"is compressed with {method} (method {info.compress_type})"
        else:
            continue
        raise BadInput(
            f"{path}: its member {info.filename!r} {why}, which cannot be read here. Unpack the"
            " archive and zip its files again, without a password, with the usual method (Deflate)."
        )
