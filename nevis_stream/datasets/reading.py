"""The reading of a data set: what files were understood as, and what was left out; and what a
person may say where files can be read in more than one way, such as which folders are which part.

A reading is printed once, kept with the data (prepared.json, a run's readings.json) and shown in
reports. A choice has the same name as a flag of `data import`, a column of a stream's csv and an
argument. Parts are called `train`, `Training`, `val`, `seg_test`, in small letters or capitals.
"""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.storage.tables import normalise_name
from nevis_stream.terminal import strip_control_characters
from nevis_stream.vocabulary import SPLITS, TASK_KINDS

TOP, DEEPEST = CLASS_LEVELS = ("top", "deepest")
HELP: Mapping[str, str] = {
    "parts": "Which folders (or names of parts) are which part, for example val=test, or val=dev:"
    " FOLDER=PART, separated by commas. none: no folder is a part, all are classes.",
    "class_level": "Which folders are the classes where class folders contain folders of images:"
    " top or deepest.",
    "leave_out": "Folders and images that are left out, by name or pattern, separated by commas:"
    " masks,*_mask.png.",
    "background": "Colour behind transparent images: a name or #rrggbb; default: white.",
    "kind": "single_label or multi_label, where the labels alone leave it open.",
}


@dataclass(frozen=True)
class Choices:
    """What a person has chosen; empty where nothing was.

    Attributes:
      parts: "FOLDER=PART,…" or "none".
      class_level: "top" or "deepest".
      leave_out: names of folders and images, or patterns, "masks,*_mask.png".
      background: a colour.
      kind: "single_label" or "multi_label".
      num_classes: the number of classes, or None.
    """

    parts: str = ""
    class_level: str = ""
    leave_out: str = ""
    background: str = ""
    kind: str = ""
    num_classes: int | None = None

    def __post_init__(self):
        if self.class_level not in ("", *CLASS_LEVELS):
            raise BadInput(unknown("class_level", self.class_level, CLASS_LEVELS))
        if self.kind not in ("", *TASK_KINDS):
            raise BadInput(unknown("kind", self.kind, TASK_KINDS))
        if self.background:
            self.ground()

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> "Choices":
        """Returns the choices of a stream's row: its columns, where it has them.

        Raises:
          BadInput: a value that is not one of the choices.
        """
        words = {name: row.get(name) or "" for name in HELP}
        return cls(**words, num_classes=int(row["num_classes"]) if row.get("num_classes") else None)

    def ground(self) -> tuple[int, int, int]:
        """Returns red, green and blue behind transparent pixels, 0 to 255.

        Raises:
          BadInput: `background` is not a colour.
        """
        from nevis_stream.datasets.decoding import parse_colour

        return parse_colour(self.background)

    def refuse_for_folders(self, origin: str, why: str) -> None:
        """Refuses choices about class folders, for data that have none.

        Args:
          origin: of the data, for messages.
          why: what says of which class an image is.

        Raises:
          BadInput: one was made.
        """
        for name in ("class_level", "leave_out"):
            if getattr(self, name):
                raise BadInput(f"{origin}: {name} is for class folders, and here {why}.")

    def given(self) -> dict[str, str]:
        """Returns the choices that were made, by name, without the number of classes."""
        return {name: value for name, value in asdict(self).items() if name in HELP and value}


VERSION = 1
"""Rises when the same files are read differently from before; data without it are older."""

HIDDEN_IMAGES = "images that are hidden or in a system's own folders"
NO_IMAGES = "files that are no images"
_SHOWN = 10  # names of classes in a line
_said: set[str] = set()
_silent: list[None] = []


@dataclass(frozen=True)
class LeftOut:
    """Files that were left out for one reason, with the name of the first."""

    reason: str
    count: int
    example: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.count:,} ({self.example}{', …' if self.count > 1 else ''})"


@dataclass(frozen=True)
class Found:
    """What a reader found besides images and labels.

    Attributes:
      class_names: in the order of the class ids; empty where classes have none.
      file_names: by name of a part, those of its images; empty where images have none.
      labels: where the labels are from, as a person would say it.
      left_out: what was left out.
      notes: sentences on what may be otherwise than a person thinks.
      parts_known: whether the parts have the names that they have in the project already.
    """

    class_names: Sequence[str] = ()
    file_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: str = ""
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    parts_known: bool = False


@dataclass(frozen=True)
class Reading:
    """What files were understood as.

    Attributes:
      parts: number of images by part of the source.
      kind: "single_label" or "multi_label".
      num_classes: number of classes.
      classes: their names, where they have any.
      labels: where the labels are from, as a person would say it.
      empty: how many classes have no image.
      left_out: what was left out.
      notes: sentences on what may be otherwise than a person thinks.
      choices: what was chosen, by name.
      version: of the reading.
    """

    parts: Mapping[str, int]
    kind: str
    num_classes: int
    classes: Sequence[str] = ()
    labels: str = ""
    empty: int = 0
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION

    @property
    def understood(self) -> str:
        """What was understood, in one line."""
        total, names = sum(self.parts.values()), list(map(_quote_unclear, self.classes[:_SHOWN]))
        parts = ", ".join(
            f"{name} {count:,}" for name, count in sorted(self.parts.items(), key=_place)
        )
        named = f" ({', '.join([*names, *['…'] * (len(self.classes) > _SHOWN)])})" if names else ""
        noun = "classes" if self.kind == "single_label" else "labels"
        without = f", {self.empty} of them without an image" if self.empty else ""
        chosen = ", ".join(f"{name}={value}" for name, value in self.choices.items())
        return (
            f"understood as {plural(total, 'image')} ({parts}) of {self.num_classes} {noun}{named}"
            f"{without}, {self.kind}{self.labels and f', by {self.labels}'}"
            f"{chosen and f'; as chosen: {chosen}'}"
        )

    @property
    def not_used(self) -> str:
        """What was left out, in one line."""
        return "left out: " + ("; ".join(map(str, self.left_out)) or "nothing")

    @property
    def texts(self) -> list[str]:
        """What was understood, what was left out, and the notes."""
        return [self.understood, self.not_used, *self.notes]

    def lines(self, name: str) -> list[str]:
        """Returns what is printed of a data set."""
        return [f"{name}: {text}" for text in self.texts]

    def to_json(self) -> dict[str, Any]:
        """Returns what is kept."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Reading":
        """Returns what was kept; what this version does not know is ignored."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known | {"left_out": [LeftOut(**each) for each in values["left_out"]]})


def _quote_unclear(name: str) -> str:
    """Returns a name as a list of names shows it: in quotation marks if it would look otherwise.

    >>> [_quote_unclear(name) for name in ("cat", "black cat", "cat ", "a,b", "one\\ntwo")]
    ['cat', 'black cat', "'cat '", "'a,b'", "'one\\\\ntwo'"]
    """
    return name if name == name.strip() and name.isprintable() and "," not in name else repr(name)


def _place(part: tuple[str, int]) -> tuple[int, str]:
    """Returns where a part comes in a line: train first, test last, as splits do."""
    return SPLITS.index(part[0]) if part[0] in SPLITS else -1, part[0]


def describe_left_out(reason: str, names: Sequence[str]) -> list[LeftOut]:
    """Returns one record of files that were left out, or none without a file."""
    return [LeftOut(reason, len(names), names[0])] if names else []


def say(name: str, reading: Reading) -> None:
    """Prints a reading to the standard error, once in a process."""
    text = strip_control_characters("\n".join(reading.lines(name)))
    if text not in _said and not _silent:
        print(text, file=sys.stderr)
        _said.add(text)


@contextlib.contextmanager
def silence_readings() -> Iterator[None]:
    """Prints no reading inside of it: the caller does, or nobody asked."""
    _silent.append(None)
    try:
        yield
    finally:
        _silent.pop()


NONE = "none"
PARTS = ("all", *SPLITS)
_WORDS = {
    "train": ("train", "training", "trainset"),
    "dev": ("dev", "val", "valid", "validation", "development", "valset", "devset"),
    "dev_test": ("devtest",),
    "test": ("test", "testing", "testset"),
}
_PART = {word: part for part, words in _WORDS.items() for word in words}
# what publishers add to such a word; a name with other words is that of a part only if another
# part's name has the same ones: seg_train and seg_test
_FILLERS = frozenset(
    (
        "set",
        "sets",
        "split",
        "part",
        "data",
        "dataset",
        "datasets",
        "image",
        "images",
        "img",
        "imgs",
    )
)


def explain_choice(name: str, value: str) -> str:
    """Returns how a choice is made, for a message."""
    return (
        f"{name}={value} (--{name}={value} of data import, a column `{name}` of a stream's csv, an"
        " argument of read_dataset in Python)"
    )


def _split_name(name: str) -> tuple[str, frozenset[str]] | None:
    """Returns the part whose word is in a name, and the other words; None without just one part."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", normalise_name(name))
    words = [word for word in re.split(r"[^\w]|_", spaced.lower()) if word]
    if words in (["dev", "test"], ["val", "test"]):
        return ("dev_test" if words[0] == "dev" else "test"), frozenset()
    parts = [word for word in words if word in _PART]
    if len(parts) != 1:
        return None
    return _PART[parts[0]], frozenset(words) - {parts[0]} - _FILLERS


def match_parts(names: Iterable[str]) -> dict[str, str]:
    """Returns which of some names are those of parts, and of which.

    >>> match_parts(["Training", "val", "seg_test", "seg_train", "cat", "bullet_train"])
    {'Training': 'train', 'val': 'dev', 'seg_test': 'test', 'seg_train': 'train'}
    """
    words = {name: word for name in names if (word := _split_name(name))}
    return {
        name: part
        for name, (part, others) in words.items()
        if not others or len({p for p, same in words.values() if same == others}) > 1
    }


def parse_parts(text: str, names: Iterable[str], origin: str) -> dict[str, str] | None:
    """Returns what a person says that some names are, or None if that is: no parts.

    Args:
      text: "FOLDER=PART,…", "none" or empty.
      names: of the folders, or of what else has parts.
      origin: for messages.

    Raises:
      BadInput: a name that is not there, or an unknown part.
    """
    if text == NONE:
        return None
    by_form = {normalise_name(name): name for name in names}
    chosen = {}
    for pair in filter(None, text.split(",")):
        name, separator, part = (word.strip() for word in pair.rpartition("="))
        if not separator or part not in PARTS:
            raise BadInput(
                f"{origin}: parts is {text!r}; write NAME=PART, with commas between them, or none."
                f" {unknown('part', part, PARTS)}"
            )
        if normalise_name(name) not in by_form:
            raise BadInput(f"{origin}: parts: {unknown('name', name, sorted(by_form))}")
        chosen[by_form[normalise_name(name)]] = part
    return chosen


def check_parts(parts: Mapping[str, str], chosen: Mapping[str, str], origin: str) -> None:
    """Checks that parts can be divided into train, dev, dev_test and test in one way.

    Args:
      parts: part by name.
      chosen: those of them that a person has chosen.
      origin: for messages.

    Raises:
      BadInput: two names of one part, or a train and a dev part without a test part; the message
        has both readings.
    """
    names: dict[str, list[str]] = {}
    for name, part in parts.items():
        names.setdefault(part, []).append(name)
    for part, same in names.items():
        if len(same) > 1 and not set(same) <= set(chosen):
            first, second = sorted(same)[:2]
            raise BadInput(
                f"{origin}: {first!r} and {second!r} are both called like the part {part!r}. Say"
                f" what they are: {explain_choice('parts', f'{first}={part},{second}={part}')}"
                " joins them."
            )
    if set(names) == {"train", "dev"} and not set(names["dev"]) & set(chosen):
        (dev,) = names["dev"]
        raise BadInput(
            f"{origin}: has {names['train'][0]!r} and {dev!r}, but no test part. Either {dev!r} is"
            f" the test part: {explain_choice('parts', f'{dev}=test')}; or {dev!r} is for"
            f" development, and a test part is drawn from {names['train'][0]!r}: parts={dev}=dev."
        )


def match_all_parts(names: Sequence[str], choice: str, origin: str) -> dict[str, str]:
    """Returns the part of each name, where all are names of parts (in a csv, or of arrays).

    Raises:
      BadInput: a name that is no part's, or as `check_parts`.
    """
    chosen = parse_parts(choice, names, origin)
    if chosen is None:
        raise BadInput(f"{origin}: parts is none, but its parts are named: {', '.join(names)}.")
    parts = {name: "all" for name in names if normalise_name(name).lower() == "all"}
    parts |= match_parts(names) | chosen
    for name in names:
        if name not in parts:
            raise BadInput(
                f"{origin}: {unknown('part', name, PARTS)} Or say which part it is:"
                f" {explain_choice('parts', f'{name}=train')}."
            )
    check_parts(parts, chosen, origin)
    return {name: parts[name] for name in names}
