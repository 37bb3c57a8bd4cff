"""Texts, tables of cells and the names in them, as people and spreadsheets write them; and csv
files that people open in a spreadsheet.

An error in a text names the line. UTF-8 with or without a byte-order mark and UTF-16 with one are
read; cells may be separated by commas, semicolons or tabs, as spreadsheets save them in different
countries.
"""

import codecs
import csv
import errno
import gzip
import hashlib
import io
import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import LARGEST, open_file, read_bytes
from nevis_stream.terminal import strip_control_characters

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
    delimiter = _delimiter(find_first_line(text), expected)
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


def find_first_line(text: str) -> str:
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


def normalise_name(name: str) -> str:
    """Returns a name in the form in which names are compared: é is one letter."""
    return unicodedata.normalize("NFC", name)


def shorten(text: str) -> str:
    """Returns a value as a message repeats it: its first 60 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_MOST = 10  # names in a sentence
LONGEST = 128  # bytes; file systems take 255, and up to 80 are added to a name


_UNUSUAL = re.compile(r"[^\w.+@-]+|^\.+")


def name_files(names: Iterable[str], ending: str = "") -> dict[str, str]:
    """Returns what a file or folder of each name is called: what is unusual becomes "_". With an
    ending, each has a second file, which ends in it.

    A name gets a digest if it is too long, or if an earlier one has its file, as on a drive that
    ignores case. The digest follows a character that is unusual in names.

    >>> name_files(["org/a", "x", "X"])
    {'org/a': 'org_a', 'x': 'x', 'X': 'X~4b68ab38'}
    """
    files: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        file = _UNUSUAL.sub("_", name)
        folded = unicodedata.normalize("NFC", file.casefold())
        both = {folded, folded + ending}
        if both & taken or not 0 < len(file.encode()) <= LONGEST:
            digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
            file = f"{file.encode()[: LONGEST - 9].decode(errors='ignore')}~{digest}"
        taken |= both
        files[name] = file
    return files


def check_marker(name: str, meaning: str, markers: Collection[str]) -> None:
    """Refuses a name that stands for something else where it would be written.

    Raises:
      BadInput: the message names it.
    """
    if name in markers:
        raise BadInput(
            f"{meaning} is {name!r}, which stands for something else in the same place. Choose"
            f" another name (not one of {', '.join(markers)})."
        )


def check_name(name: str, meaning: str) -> None:
    """Checks that a name can be a part of file names.

    Args:
      name: the name.
      meaning: what it names, for the message.

    Raises:
      BadInput: it is empty or too long, has characters other than letters, digits, "_", "-" and
        ".", or begins with ".".
    """
    length = len(name.encode(errors="replace"))
    if length > LONGEST:
        raise BadInput(
            f"{meaning} has {length} bytes ({name[:20]!r}…) and would make file names too long;"
            " use at"
            f" most {LONGEST}."
        )
    characters = all(char.isalnum() or char in "_-." for char in name)
    if not name or not characters or name.startswith("."):
        raise BadInput(
            f"{meaning} is {name!r}; use letters, digits, '_', '-' and '.', and do not begin with"
            " '.'."
        )


def note_similar_names(names: Iterable[str], noun: str = "classes") -> list[str]:
    """Returns a sentence if names differ only in case, blanks or leading zeros.

    >>> note_similar_names(["cat", "Cat ", "dog", "1", "01"])
    ["these classes are kept apart, though their names are nearly the same: '01' and '1'; 'Cat ' \
and 'cat'"]
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        plain = " ".join(name.split()).casefold()
        number = parse_whole(plain)
        groups.setdefault(plain if number is None else str(number), []).append(name)
    alike = [" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1]
    if not alike:
        return []
    more = f"; and {len(alike) - _MOST} more" if len(alike) > _MOST else ""
    return [
        f"these {noun} are kept apart, though their names are nearly the same: "
        + "; ".join(alike[:_MOST])
        + more
    ]


# a spreadsheet takes a cell that begins with one of these for a formula (OWASP, CSV Injection); the
# wide ones where it is set to Japanese
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def quote(value: Any) -> Any:
    """Returns a text that a spreadsheet would run as a formula with a quote in front.

    A text that looks quoted gets another quote, so that no two become one.

    >>> quote("=1+1"), quote("-5"), quote(-5), quote("ft_prev"), quote("'=1+1")
    ("'=1+1", "'-5", -5, 'ft_prev', "''=1+1")
    """
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.lstrip("'").startswith(_FORMULA) else value


def unquote(text: str) -> str:
    """Returns the text that `quote` was given.

    >>> unquote("'=1+1"), unquote("'tis"), unquote("ft_prev")
    ('=1+1', "'tis", 'ft_prev')
    """
    return text[1:] if text[:1] == "'" and quote(text[1:]) == text else text


def format_csv(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], mark: Callable[[Any], Any] = quote
) -> str:
    """Returns rows of cells as csv, for spreadsheets and for `parse_csv`: texts are quoted, and
    otherwise as they are. All that this project writes as csv is written here.

    Args:
      columns: their names.
      rows: of cells.
      mark: what is done with each cell; another function only for text that goes into no file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([mark(cell) for cell in row] for row in (columns, *rows))
    return text.getvalue()


def parse_csv(text: str) -> list[dict[str, str]]:
    """Returns the rows of a text that `format_csv` wrote, by column; a row that was cut short is
    left out.

    Raises:
      ValueError: it is no csv.
    """
    try:
        cells = [[*map(unquote, row)] for row in csv.reader(io.StringIO(text, newline=""))]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:] if len(row) == len(cells[0])]


def encode_csv(frame) -> bytes:
    """Returns a pandas DataFrame as csv: full precision, NaN spelled out, texts quoted and without
    control characters.
    """
    columns = []
    for _, column in frame.items():
        cells = zip(column.to_numpy(), column.isna(), strict=True)
        columns.append(["NaN" if is_missing else _strip(cell) for cell, is_missing in cells])
    return format_csv(map(_strip, frame), zip(*columns, strict=True)).encode()


def _strip(value: Any) -> Any:
    return strip_control_characters(value) if isinstance(value, str) else value
