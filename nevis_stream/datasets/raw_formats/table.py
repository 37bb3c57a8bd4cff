"""Text tables that name images and their labels: lists, csv, tsv, and joined tables."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nevis_stream.datasets.files import Example, FileTree, fill, look_up
from nevis_stream.datasets.images import SourceImage
from nevis_stream.errors import BadInput

Row = dict[str, str]


def read_tables(
    tree: FileTree,
    *,
    tables: Sequence[Mapping[str, Any]],
    delimiter: str,
    image: str,
    label: str | None = None,
    labels: str | None = None,
    separator: str = " ",
    marks: Sequence[int] | None = None,
    first_mark: Sequence[str] | None = None,
    header: bool = False,
    columns: int = 0,
    skip_lines: Sequence[int] = (),
    join: bool = False,
    part: str | None = None,
    parts: Mapping[str, str] | None = None,
    part_lists: Mapping[str, str] | None = None,
    extract: Mapping[str, str] | None = None,
    lookup: Mapping[str, Any] | None = None,
    drop_prefix: str = "",
    last_label_of: str | None = None,
    once: bool = False,
) -> Iterator[Example]:
    """Reads the rows of text tables.

    In templates, `{0}` is the first column, `{name}` the one of that name in the header.

    Args:
      tree: the folder.
      tables: each {file, part} (or {files} to join); further keys, as `folder`, may be used in
        templates.
      delimiter: between columns: one character, a blank (any white space), or a class of characters
        as `[/\\t]`.
      image: template of an image's name; `*` and `**` are allowed in it.
      label: template of the class name.
      labels: template of several class names, with `separator` between them.
      separator: between class names.
      marks: first and last column of 0/1 or -1/1 marks, one per label.
      first_mark: columns: the class is the number of the first that is marked, or of none of them.
      header: whether the first line names the columns.
      columns: greatest number of columns; the last takes the rest of the line. 0: as many as there
        are.
      skip_lines: how many lines to leave out at the top: of each of the `files` that are joined;
        else one number, for every file.
      join: whether the `files` of a table belong together line by line, matched by their first
        column.
      part: template of the part, for `parts`.
      parts: part by what the template `part` gives.
      part_lists: {column: template, PART: file of such names, one per line}.
      extract: regular expressions by column; their groups become columns.
      lookup: {file, key, by, where}: joins the row of another table in which template `key` equals
        template `by`; `where` has the values, by column, of the rows that count.
      drop_prefix: cut from every cell of the table of `lookup`.
      last_label_of: template; of rows for which it is equal, all get the last one's column 1, the
        label.
      once: whether an image that is in several rows is taken once, with the first row's label.
    """
    members = {
        name.strip(): part
        for part, file in (part_lists or {}).items()
        if part != "column"
        for name in tree.lines(file)
    }
    lookup_rows = _read_lookup_table(tree, lookup, delimiter, drop_prefix) if lookup else {}
    rows = [
        (entry, row)
        for entry in tables
        for row in _read_rows(tree, entry, delimiter, header, columns, skip_lines, join)
    ]
    if last_label_of:
        last = {fill(last_label_of, row): row for _, row in rows}
        rows = [(entry, row | {"1": last[fill(last_label_of, row)]["1"]}) for entry, row in rows]
    names = set()
    for entry, row in rows:
        for column, pattern in (extract or {}).items():
            match = re.fullmatch(pattern, row[column].strip())
            row |= match.groupdict() if match else {}
        if lookup:
            joined = lookup_rows.get(fill(lookup["by"], row))
            if joined is None:
                raise BadInput(
                    f"{tree.root}: {lookup['file']} has no row for {fill(lookup['by'], row)!r}."
                )
            row = joined | row
        name = fill(image, row)
        name = tree.one(name).relative_to(tree.root).as_posix() if "*" in name else name
        source_part = entry.get("part")
        if part_lists:
            source_part = members.get(fill(part_lists["column"], row))
        elif part:
            source_part = look_up(parts or {}, fill(part, row), f"{tree.root}, {name}: part")
        if source_part is None or (once and name in names):
            continue
        names.add(name)
        if marks:
            value: Any = frozenset(
                c - marks[0] for c in range(marks[0], marks[1] + 1) if int(row[str(c)]) == 1
            )
        elif first_mark:
            value = next(
                (i for i, c in enumerate(first_mark) if float(row[c]) == 1), len(first_mark)
            )
        elif labels:
            value = frozenset(word.strip() for word in fill(labels, row).split(separator))
        else:
            value = fill(label, row).strip()
        yield Example(source_part, name, SourceImage(tree.path(name)), value)


def _read_rows(
    tree: FileTree,
    entry: Mapping[str, Any],
    delimiter: str,
    header: bool,
    columns: int,
    skip_lines: Sequence[int],
    join: bool,
) -> Iterator[Row]:
    extra = {
        key: str(value) for key, value in entry.items() if key not in ("file", "files", "part")
    }
    if join:
        tables = [
            [_split_cells(line, delimiter, columns) for line in tree.lines(file)[skip:]]
            for file, skip in zip(
                entry["files"], skip_lines or [0] * len(entry["files"]), strict=True
            )
        ]
        further_tables = [{cells[0]: cells[1:] for cells in rows} for rows in tables[1:]]
        for cells in tables[0]:
            for file, cells_by_key in zip(entry["files"][1:], further_tables, strict=True):
                if cells[0] not in cells_by_key:
                    raise BadInput(
                        f"{tree.root / file}: no line for {cells[0]!r}, which is in"
                        f" {entry['files'][0]}."
                    )
                cells = cells + cells_by_key[cells[0]]
            yield extra | {str(i): cell for i, cell in enumerate(cells)}
        return
    for name in tree.some(entry["file"]):
        lines = tree.lines(name)[skip_lines[0] if skip_lines else 0 :]
        if header:
            for row in _read_csv_rows(lines, delimiter, f"{tree.root / name}"):
                yield extra | {
                    key.strip(): value or "" for key, value in row.items() if key is not None
                }
        else:
            for line in lines:
                yield extra | {
                    str(i): cell for i, cell in enumerate(_split_cells(line, delimiter, columns))
                }


def _split_cells(line: str, delimiter: str, columns: int) -> list[str]:
    if delimiter == " ":
        return line.split(None, columns - 1 if columns else -1)
    if delimiter.startswith("["):
        return re.split(delimiter, line.strip())
    return line.strip().split(delimiter, columns - 1 if columns else -1)


def _read_lookup_table(
    tree: FileTree, lookup: Mapping[str, Any], delimiter: str, drop_prefix: str
) -> dict[str, Row]:
    rows = _read_csv_rows(tree.lines(lookup["file"]), delimiter, f"{tree.root / lookup['file']}")
    chosen = (
        row for row in rows if all(row[key] == value for key, value in lookup["where"].items())
    )
    return {
        fill(lookup["key"], row): {
            key: (value or "").removeprefix(drop_prefix) for key, value in row.items()
        }
        for row in chosen
    }


def _read_csv_rows(lines: Sequence[str], delimiter: str, name: str) -> Iterator[Row]:
    reader = csv.DictReader(lines, delimiter=delimiter)
    try:
        yield from reader
    except csv.Error as error:
        raise BadInput(f"{name}, line {reader.line_num + 1}: is not csv ({error}).") from None
