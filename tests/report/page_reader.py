"""Reads a page as a browser would: tags, attributes, texts and tables."""

from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "img", "br", "wbr", "hr", "input", "link"}


class Page(HTMLParser):
    """Tags with their attributes, visible text, and tables as rows of cells.

    A cell is (text, value of data-value or None). Raises AssertionError where a tag is closed that
    is not open, or left open.
    """

    def __init__(self, path: Path):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[tuple[str, str | None]]]] = {}
        self.text = ""
        self._open: list[str] = []
        self._table = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self._open == []

    @property
    def ids(self) -> list[str]:
        """Every id, in order."""
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    def column(self, table: str, name: str) -> list[tuple[str, str | None]]:
        """Returns the body's cells under the heading that begins with `name`."""
        head, *body = self.tables[table]
        place = next(i for i, (text, _) in enumerate(head) if text.startswith(name))
        return [row[place] for row in body if len(row) == len(head)]

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = values.get("id", "")
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append(("", values.get("data-value")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open, f"{tag} is closed but nothing is open"
        assert self._open.pop() == tag, f"{tag} is closed inside of another tag"
        if tag in ("td", "th"):
            text, value = self.tables[self._table][-1].pop()
            self.tables[self._table][-1].append((" ".join(text.split()), value))

    def handle_data(self, data):
        if {"script", "style"} & set(self._open):
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            row = self.tables[self._table][-1]
            row[-1] = (row[-1][0] + data, row[-1][1])
