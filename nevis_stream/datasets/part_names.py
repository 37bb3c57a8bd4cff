"""What parts of a data set are called: `train`, `Training`, `val`, `seg_test`, in any case."""

import re
from collections.abc import Iterable, Mapping, Sequence

from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.tables import nfc
from nevis_stream.vocabulary import SPLITS

NONE = "none"
PARTS = ("all", *SPLITS)
_WORDS = {
    "train": ("train", "training", "trainset"),
    "dev": ("dev", "val", "valid", "validation", "development", "valset", "devset"),
    "dev_test": ("devtest",),
    "test": ("test", "testing", "testset"),
}
_PART = {word: part for part, words in _WORDS.items() for word in words}
# what publishers add to such a word; with any other word a name is a part only among its like
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


def how(name: str, value: str) -> str:
    """Returns how a choice is made, for a message."""
    return (
        f"{name}={value} (--{name}={value} of data import, a column `{name}` of a stream's csv, an"
        " argument of read_dataset in Python)"
    )


def _word(name: str) -> tuple[str, frozenset[str]] | None:
    """Returns the part that a name has the word of, and its other words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", nfc(name))
    words = [word for word in re.split(r"[^\w]|_", spaced.lower()) if word]
    if words in (["dev", "test"], ["val", "test"]):
        return ("dev_test" if words[0] == "dev" else "test"), frozenset()
    parts = [word for word in words if word in _PART]
    if len(parts) != 1:
        return None
    return _PART[parts[0]], frozenset(words) - {parts[0]} - _FILLERS


def parts_called(names: Iterable[str]) -> dict[str, str]:
    """Returns which of some names are those of parts, and of which.

    >>> parts_called(["Training", "val", "seg_test", "seg_train", "cat", "bullet_train"])
    {'Training': 'train', 'val': 'dev', 'seg_test': 'test', 'seg_train': 'train'}
    """
    words = {name: word for name in names if (word := _word(name))}
    return {
        name: part
        for name, (part, others) in words.items()
        if not others or len({p for p, same in words.values() if same == others}) > 1
    }


def chosen_parts(text: str, names: Iterable[str], origin: str) -> dict[str, str] | None:
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
    by_form = {nfc(name): name for name in names}
    chosen = {}
    for pair in filter(None, text.split(",")):
        name, separator, part = (word.strip() for word in pair.rpartition("="))
        if not separator or part not in PARTS:
            raise BadInput(
                f"{origin}: parts is {text!r}; write NAME=PART, with commas between them, or none."
                f" {unknown('part', part, PARTS)}"
            )
        if nfc(name) not in by_form:
            raise BadInput(f"{origin}: parts: {unknown('name', name, sorted(by_form))}")
        chosen[by_form[nfc(name)]] = part
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
                f" what they are: {how('parts', f'{first}={part},{second}={part}')} joins them."
            )
    if set(names) == {"train", "dev"} and not set(names["dev"]) & set(chosen):
        (dev,) = names["dev"]
        raise BadInput(
            f"{origin}: has {names['train'][0]!r} and {dev!r}, but no test part. Either {dev!r} is"
            f" the test part: {how('parts', f'{dev}=test')}; or {dev!r} is for development, and a"
            f" test part is drawn from {names['train'][0]!r}: parts={dev}=dev."
        )


def parts_by_name(names: Sequence[str], choice: str, origin: str) -> dict[str, str]:
    """Returns the part of each name, where all are names of parts (in a csv, or of arrays).

    Raises:
      BadInput: a name that is no part's, or as `check_parts`.
    """
    chosen = chosen_parts(choice, names, origin)
    if chosen is None:
        raise BadInput(f"{origin}: parts is none, but its parts are named: {', '.join(names)}.")
    parts = {name: "all" for name in names if nfc(name).lower() == "all"}
    parts |= parts_called(names) | chosen
    for name in names:
        if name not in parts:
            raise BadInput(
                f"{origin}: {unknown('part', name, PARTS)} Or say which part it is:"
                f" {how('parts', f'{name}=train')}."
            )
    check_parts(parts, chosen, origin)
    return {name: parts[name] for name in names}
