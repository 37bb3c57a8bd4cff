"""Reads files that may come from anybody: bytes, JSON, arrays, text and tables of cells.

Regular files only, and not without a bound: opening a FIFO waits for its other end, and a link to
/dev/zero fills the memory; tar and git keep both. An error in a text names the line. UTF-8 with or
without a byte-order mark and UTF-16 with one are read; cells may be separated by commas, semicolons
or tabs, as spreadsheets save them in different countries.
"""

import codecs
import csv
import errno
import gzip
import io
import json
import os
import re
import stat
import tokenize
import unicodedata
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nevis_stream.errors import BadInput
from nevis_stream.storage.faults import clear_faults

if TYPE_CHECKING:
    import numpy as np


LARGEST = 1 << 30  # bytes of a file that is read as a whole; the largest ledgers have a few million
_SPECIAL = "not a regular file, but a pipe or a device"
LARGEST_ARRAYS = 1 << 36  # bytes of a file of arrays: a checkpoint, a part of a data set


def real_path(path: Path) -> Path:
    """Returns the absolute path of a file without links; in a loop of links, where `Path.resolve`
    raises RuntimeError, the path of one of them.
    """
    return Path(os.path.realpath(path))


def absence(path: Path | str) -> str:
    """Returns why there is no regular file at a path, for a message."""
    if os.path.isdir(path):
        return "a directory, and not a file"
    if os.path.exists(path):
        return f"{_SPECIAL}; write its content to a file"
    return "a link that leads to no file" if os.path.islink(path) else "no such file or directory"


def open_file(path: Path | str) -> BinaryIO:
    """Opens a regular file for reading bytes, also behind a link.

    Raises:
      OSError: it is missing, cannot be opened, or is not a regular file; the error names it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # of a FIFO: at once
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, _SPECIAL, str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_own(path: Path) -> BinaryIO:
    """Opens a regular file for reading and appending, unbuffered, and makes it if it is missing; a
    lock or a log. Not behind a link: in a folder from anybody it may lead to a file of the user's.

    Raises:
      OSError: it cannot be opened, or is not a regular file, or a link; the error names it.
    """
    refuse_link(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, _SPECIAL, str(path))
        return os.fdopen(descriptor, "ab+", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def refuse_link(path: Path) -> None:
    """Raises an OSError for a symbolic link to a file that would be written."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link, behind which nothing is written", str(path))


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Returns the content of a regular file.

    Args:
      path: of the file.
      most: bytes that it may have.

    Raises:
      OSError: as `open_file`; it cannot be read, or is larger; the error names it.
    """
    with clear_faults(path), open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise OSError(errno.EINVAL, f"has {size:,} bytes; at most {most:,} are read", str(path))
        return file.read()


def open_text(path: Path, errors: str = "strict") -> io.TextIOWrapper:
    """Opens a regular file of UTF-8 text, with its line ends as they are.

    Args:
      path: of the file.
      errors: what is done with other bytes, as in `open`.

    Raises:
      OSError: as `open_file`.
    """
    return io.TextIOWrapper(open_file(path), encoding="utf-8", errors=errors, newline="")


def load_array(path: Path, mapped: bool = True) -> "np.ndarray":
    """Returns the array in a regular .npy file.

    Args:
      path: of the file.
      mapped: whether it stays on disk.

    Raises:
      OSError: as `open_file`.
      ValueError, EOFError: it is not an array of numbers or texts, or cut short.
    """
    import numpy as np  # not with this module: commands set its threads before they import it

    open_file(path).close()
    return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text, whoever wrote it.

    Raises:
      ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, most: int = LARGEST) -> Any:
    """Returns the JSON value in a regular file.

    Raises:
      OSError: as `read_bytes`.
      ValueError: as `parse_json`.
    """
    return parse_json(read_bytes(path, most))


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


# NumPy reads the header of an array as Python text, and allocates what it says
_UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, MemoryError, RecursionError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_npz(path: Path, names: Collection[str] | None = None) -> "dict[str, np.ndarray]":
    """Returns the arrays of an .npz file, or those of `names` that it has.

    Raises:
      BadInput: the file is missing, cannot be read, is not an archive of arrays, is cut short, or
        contains Python objects.
    """
    import numpy as np

    try:
        with open_file(path) as file:  # which says why it cannot
            if not zipfile.is_zipfile(file):  # NumPy would report a pickle
                raise ValueError("it is not a zip archive, or it is cut short")
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path)
        with np.load(path, allow_pickle=False) as file:
            chosen = [name for name in file.files if names is None or name in names]
            arrays = {name: file[name] for name in chosen}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name} is not an array")
        return arrays
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file.") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from None
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"{path}: cannot be read as an .npz of plain arrays ({error}).") from None


DELIMITERS = (",", ";", "\t")
_LONGEST = 60  # characters of a value that a message repeats
_LONGEST_HEADER = 1 << 20  # bytes of a first line
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Table:
    """A table with a header.

    Attributes:
      name: of the file, for messages.
      columns: the names of the columns, without blanks around them.
      rows: the line of each row, and its cells: as many as there are columns.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yields the line of each row, and its cells by column, without blanks around them."""
        for line, cells in self.rows:
            yield line, {c: cell.strip() for c, cell in zip(self.columns, cells, strict=True)}

    def place(self, line: int) -> str:
        """Returns what a message calls a row."""
        return f"{self.name}, line {line}"


def read_text(source: Path | bytes, name: str) -> str:
    """Returns the text of a file.

    Args:
      source: the file, or its content.
      name: what a message calls it.

    Raises:
      BadInput: it cannot be read, or is not text in UTF-8 or UTF-16; the message names the line.
    """
    try:
        content = source if isinstance(source, bytes) else _content(source)
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror}).") from None
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"{name}, line {line}: is not UTF-8 text ({error.reason}); save it as UTF-8 (in a"
            " spreadsheet: CSV UTF-8)."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadInput(
            f"{name}, line {line}: contains a NUL byte, so that it is no text, or not in UTF-8;"
            " save it as UTF-8 (in a spreadsheet: CSV UTF-8)."
        )
    return text


def _content(path: Path) -> bytes:
    """Returns the content of a file, decompressed if its name ends in .gz.

    Raises:
      OSError: it cannot be read, or is too large.
    """
    content = read_bytes(path)
    if path.suffix != ".gz":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            text = file.read(LARGEST + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OSError(errno.EINVAL, f"is not a sound gzip file ({error})", str(path)) from None
    if len(text) > LARGEST:
        raise OSError(errno.EINVAL, f"has more than {LARGEST:,} bytes", str(path))
    return text


def read_rows(
    source: Path | bytes, name: str, expected: Collection[str] = ()
) -> list[tuple[int, list[str]]]:
    """Returns the line of each row of a csv file, and its cells as they are; blank rows are left
    out.

    Args:
      source: the file, or its content.
      name: what a message calls it.
      expected: names of columns; the delimiter is the one by which most of them are in the first
        row: a comma, a semicolon or a tab.

    Raises:
      BadInput: as `read_text`, or a row that is not csv; the message names the line.
    """
    return parse_rows(read_text(source, name), name, expected)


def parse_rows(text: str, name: str, expected: Collection[str] = ()) -> list[tuple[int, list[str]]]:
    """Returns the rows of the text of a csv file; arguments and errors as of `read_rows`."""
    delimiter = _delimiter(first_line(text), expected)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    rows, line = [], 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return rows
        except csv.Error as error:
            raise BadInput(
                f"{name}, line {line}: is not csv ({error}); perhaps a quotation mark is not"
                " closed."
            ) from None
        if any(cell.strip() for cell in cells):
            rows.append((line, cells))
        line = reader.line_num + 1


def first_line(text: str) -> str:
    """Returns the first line of a text that is not blank, "" if there is none."""
    found = re.match(r"[^\r\n]*", text.lstrip())
    return found[0] if found else ""


def _delimiter(first: str, expected: Collection[str]) -> str:
    """Returns the delimiter by which most of the expected names are in a first line."""

    def found(delimiter: str) -> int:
        cells = {cell.strip().strip('"').strip() for cell in first.split(delimiter)}
        return len({cell.casefold() for cell in cells} & set(expected))

    return max(DELIMITERS, key=found)


def read_header(path: Path, expected: Collection[str]) -> tuple[str, list[str]]:
    """Returns the delimiter and the first line of a csv file, without reading the rest; names as
    they are, quotes among them.

    Raises:
      BadInput: it cannot be read.
    """
    try:
        with open_file(path) as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=file) as text:
                    first = text.readline(_LONGEST_HEADER)
            else:
                first = file.readline(_LONGEST_HEADER)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read ({error}).") from None
    line = first.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    delimiter = _delimiter(line, expected)
    return delimiter, line.split(delimiter)


def read_table(
    source: Path | bytes, name: str, needed: Mapping[str, str], optional: Collection[str] = ()
) -> Table:
    """Returns a table from a csv file whose first row names the columns.

    Empty cells at the end of a row, which spreadsheets add, are left out.

    Args:
      source: the file, or its content.
      name: what a message calls it.
      needed: the columns that must be there, and what each contains.
      optional: further columns, by which the delimiter is recognised.

    Raises:
      BadInput: as `read_rows`; a column is missing or there twice; or a row has more or fewer
        cells than there are columns.
    """
    rows = read_rows(source, name, {*needed, *optional})
    line, header = rows[0] if rows else (1, [])
    columns = _named([column.strip() for column in header], {*needed, *optional})
    while columns and not columns[-1]:
        columns.pop()
    missing = [column for column in needed if column not in columns]
    if missing:
        described = "; ".join(f"{column}: {what}" for column, what in needed.items() if what)
        raise BadInput(
            f"{name}, line {line}: has no column {' or '.join(missing)}; it needs"
            f" {','.join(needed)}{f' ({described})' if described else ''}, and its columns are"
            f" {shorten(', '.join(columns)) or 'none'}."
        )
    for column in columns:
        if columns.count(column) > 1:
            raise BadInput(f"{name}, line {line}: has several columns {shorten(column)!r}.")
    for line, cells in rows[1:]:
        while len(cells) > len(columns) and not cells[-1].strip():
            cells.pop()
        if len(cells) != len(columns):
            cell = "cell" if len(cells) == 1 else "cells"
            raise BadInput(
                f"{name}, line {line}: has {len(cells)} {cell}, the first line has"
                f" {len(columns)} ({shorten(', '.join(columns))})."
            )
    return Table(name, tuple(columns), rows[1:])


def _named(columns: Sequence[str], known: Collection[str]) -> list[str]:
    """Returns names of columns; one that is known, in other letters (`Path`), as it is known."""
    return [
        column.casefold() if column.casefold() in known and column not in known else column
        for column in columns
    ]


def parse_whole(text: str) -> int | None:
    """Returns a whole number that a cell contains, or None.

    >>> [parse_whole(text) for text in ("12", "-3", "007", "1.0", "1e3", "٣")]
    [12, -3, 7, None, None, None]
    """
    # `int` takes digits of all scripts, and refuses thousands of them: such a number is too large
    # for anything, and its first thousand digits are so too
    return int(text[:1000]) if re.fullmatch(r"-?[0-9]+", text) else None


def nfc(name: str) -> str:
    """Returns a name in the form in which names are compared: é is one letter."""
    return unicodedata.normalize("NFC", name)


def shorten(text: str) -> str:
    """Returns a value as a message repeats it: its first 60 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
