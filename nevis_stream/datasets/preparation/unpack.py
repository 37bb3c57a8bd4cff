"""Unpacks untrusted archives: nothing leaves the folder, and nothing grows without bounds.

A file beside an unpacked archive marks it as complete, with a checksum of each file; it is written
when all of these are on the disk. So neither a kill nor a power cut leaves a mark on half of them,
and what a failing drive changes afterwards is noticed.
"""

import bz2
import gzip
import json
import lzma
import os
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nevis_stream.datasets.files import FileTree
from nevis_stream.errors import BadInput
from nevis_stream.storage import (
    TEMPORARY_PREFIX,
    make_directory,
    sync_directory,
    sync_tree,
    write_file,
)
from nevis_stream.storage.reading import check_zip, clear_faults, open_file, read_json, resolve_path

TARS = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tbz2", ".tar.Z", ".tar")
SINGLE = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BY_TOOL = (".rar", ".7z")
SUFFIXES = (".zip", *TARS, *SINGLE, *BY_TOOL)
LARGEST_RATIO = 300
ALWAYS_ALLOWED = 256 * 2**20  # bytes; below this no ratio is suspicious
_BLOCK = 2**20
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,
    NotImplementedError,
)


def strip_suffix(name: str) -> str:
    """Returns a file's name without the suffix of an archive."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix.lower()):
            return name[: -len(suffix)]
    return name


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into `folder`/STEM, or links a plain file into `folder`.

    What is there of the same file is kept.

    A folder may take an archive's place: its files are linked.

    Raises:
      BadInput: the archive is damaged or truncated, wants to write outside of the folder, or would
        grow beyond 300 times its size; the message names it.
    """
    name = archive.name
    target = folder / (strip_suffix(name) if archive.is_file() else name)
    facts = archive.stat()
    origin = f"{archive} {facts.st_size} {facts.st_mtime_ns}"
    if target.exists() and is_whole(target, origin):
        return
    make_directory(folder)
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.exists():  # of another archive, or of another state of it
        shutil.rmtree(target)
    # folders of links, so that nothing that follows can change the user's files
    if archive.is_dir():
        shutil.copytree(resolve_path(archive), target, copy_function=os.symlink)
        sync_tree(target)
        write_mark(target, origin)
        return
    if strip_suffix(name) == name:
        target.symlink_to(resolve_path(archive))
        write_mark(target, origin)
        return
    if facts.st_size == 0:
        raise BadInput(f"{archive}: is damaged or truncated (it is empty). Fetch it again.")
    part = folder / f"{TEMPORARY_PREFIX}{target.name}"
    if part.is_dir():  # left by a killed process
        shutil.rmtree(part)
    part.unlink(missing_ok=True)
    with clear_faults(folder):
        try:
            if name.lower().endswith(".zip"):
                _unzip(archive, part)
            elif name.endswith(TARS):
                _untar(archive, part)
            elif name.lower().endswith(BY_TOOL):
                _unpack_by_tool(archive, part)
            else:
                _decompress(archive, part)
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            why = str(error).partition("\n")[0]
            raise BadInput(f"{archive}: is damaged or truncated ({why}). Fetch it again.") from None
        sync_tree(part)
        part.rename(target)
        write_mark(target, origin)


def unpack_nested(folder: Path, patterns: Sequence[str]) -> None:
    """Unpacks archives inside of unpacked ones where they are, and removes them."""
    for pattern in patterns:
        for name in FileTree(folder).matching(pattern):
            archive = folder / name
            unpack(archive, archive.parent)
            archive.unlink()


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
        raise BadInput(
            f"{archive}: its member {name!r} would be written outside of the folder. Nothing was"
            " unpacked."
        )


def _check_size(archive: Path, size: int) -> None:
    limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * archive.stat().st_size)
    if size > limit:
        raise BadInput(
            f"{archive}: would grow from {archive.stat().st_size:,} to more than {limit:,} bytes"
            " when unpacked. No data set of the catalogue does; this is not the right file."
        )


def _copy(archive: Path, source, target: Path, written: int = 0) -> int:
    """Copies a stream and checks how much it grows on the way: its header may lie."""
    with open(target, "wb") as file:
        while block := source.read(_BLOCK):
            written += len(block)
            _check_size(archive, written)
            file.write(block)
    return written


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        check_zip(opened, archive)
        members = [info for info in opened.infolist() if not info.is_dir()]
        for info in members:
            _check_name(archive, info.filename)
        _check_size(archive, sum(info.file_size for info in members))
        written = 0
        folder.mkdir()
        for info in members:
            target = folder / info.filename.replace("\\", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(info) as source:
                written = _copy(archive, source, target, written)


def _untar(archive: Path, folder: Path) -> None:
    if archive.name.endswith(".Z"):
        _untar_lzw(archive, folder)
        return
    written = 0
    with tarfile.open(archive) as opened:
        folder.mkdir()
        for info in opened:
            _check_name(archive, info.name)
            if not info.isreg():
                continue  # folders are made as needed; links and devices are no images
            target = folder / info.name
            target.parent.mkdir(parents=True, exist_ok=True)
            written = _copy(archive, opened.extractfile(info), target, written)
        # a compressed file that lacks its end is noticed only there
        while opened.fileobj.read(_BLOCK):
            pass


def _untar_lzw(archive: Path, folder: Path) -> None:
    """compress's format (.Z) is read by gzip's program; no library that Python carries does."""
    tool = shutil.which("gzip") or shutil.which("uncompress")
    if tool is None:
        raise BadInput(
            f"{archive}: gzip is needed to unpack .Z files. Unpack it by hand into"
            f" {strip_suffix(archive.name)}/."
        )
    plain = folder.with_suffix(".tar")
    with open(archive, "rb") as source, open(plain, "wb") as target:
        done = subprocess.run(
            [tool, "-dc"], stdin=source, stdout=target, stderr=subprocess.PIPE, check=False
        )
    if done.returncode:
        plain.unlink()
        why = done.stderr.decode(errors="replace").strip()
        raise BadInput(f"{archive}: is damaged or truncated ({why}). Fetch it again.")
    _check_size(archive, plain.stat().st_size)
    _untar(plain, folder)
    plain.unlink()


def _unpack_by_tool(archive: Path, folder: Path) -> None:
    tool = next((tool for tool in ("bsdtar", "unrar", "7z") if shutil.which(tool)), None)
    if tool is None:
        raise BadInput(
            f"{archive}: bsdtar, unrar or 7z is needed to unpack it. Install one, or unpack it by"
            f" hand into a folder {strip_suffix(archive.name)} next to it."
        )
    folder.mkdir()
    inside = str(folder.resolve())
    command = {
        "bsdtar": ["bsdtar", "-xf", str(archive), "-C", inside],
        "unrar": ["unrar", "x", "-idq", "-p-", str(archive), inside + "/"],
        "7z": ["7z", "x", "-bd", "-y", f"-o{inside}", str(archive)],
    }[tool]
    # none of them may ask for a password
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise BadInput(
            f"{archive}: {tool} could not unpack it"
            f" ({done.stderr.decode(errors='replace').strip()[:300]})."
        )


def _decompress(archive: Path, target: Path) -> None:
    with SINGLE[archive.suffix](archive) as source:
        _copy(archive, source, target)


_PREFIX = ".from-"


def write_mark(target: Path, origin: str) -> None:
    """Says that `target`, a synced file or folder, is complete.

    Args:
      target: what the archive became.
      origin: the archive, and its state.
    """
    sync_directory(target.parent)
    content = {"from": origin, "files": _compute_checksums(target)}
    write_file(_find_mark(target), json.dumps(content, sort_keys=True).encode())


def is_whole(target: Path, origin: str | None = None) -> bool:
    """Whether a file or folder is what an archive became, unchanged, and so is what archives inside
    of it became; those archives may be gone (`unpack_nested` removes them).

    Args:
      target: a file or folder.
      origin: the archive, and its state; None: any.
    """
    try:
        content = read_json(_find_mark(target))
        if origin is not None and content["from"] != origin:
            return False
        present = _compute_checksums(target)
        files = dict(content["files"])
    except (OSError, ValueError, KeyError, TypeError):  # of an earlier version, or damaged
        return False
    nested = [path.with_name(path.name.removeprefix(_PREFIX)) for path in _find_marks(target)]
    became = {str(path.relative_to(target)) for path in nested}
    for name, checksum in files.items():
        if name in present:
            if present[name] != checksum:
                return False
        elif not any(name.startswith(each) for each in became):
            return False
    return all(is_whole(path) for path in nested)


def _find_mark(target: Path) -> Path:
    return target.with_name(_PREFIX + target.name)


def _find_marks(target: Path) -> list[Path]:
    return list(target.rglob(f"{_PREFIX}*")) if target.is_dir() else []


def _compute_checksums(target: Path) -> dict[str, int]:
    """Returns a checksum of each file, by its name below `target`; links, which lead to the user's
    files, have none.
    """
    paths = sorted(target.rglob("*")) if target.is_dir() else [target]
    if target.is_symlink():
        return {}
    return {
        str(path.relative_to(target)): _compute_checksum(path)
        for path in paths
        if path.is_file() and not path.is_symlink() and not path.name.startswith(_PREFIX)
    }


def _compute_checksum(path: Path) -> int:
    result = 0
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            result = zlib.crc32(block, result)
    return result
