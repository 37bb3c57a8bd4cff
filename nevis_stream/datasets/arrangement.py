"""The data set that images in folders make, on disk or in an archive: which folders are parts or
classes, and which images are called like masks of others (COVID/masks/1.png, lesion_mask.png).
"""

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NoReturn

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import Images
from nevis_stream.datasets.reading import (
    DEEPEST,
    TOP,
    Choices,
    Found,
    LeftOut,
    check_parts,
    describe_left_out,
    explain_choice,
    match_parts,
    parse_parts,
)
from nevis_stream.errors import BadInput, DataWarning, plural
from nevis_stream.storage.tables import normalise_name, note_similar_names

_MASK_WORDS = r"(masks?|segmentations?|seg|annotations?|ground[ _-]?truth|gt)"
_MASK_FOLDER = re.compile(_MASK_WORDS, re.IGNORECASE)
_MASK_ENDING = re.compile(rf"[ _.-]{_MASK_WORDS}([ _.-]?\d+)?$", re.IGNORECASE)


def note_masks(names: Sequence[str]) -> list[str]:
    """Returns a sentence about images that are called like masks of others, or none.

    An image counts only if the other is there too: `with_mask` may be a class.

    >>> note_masks(["a/1.png", "a/1_mask.png", "b/2.png"])[0].partition(";")[0]
    '1 image is called like the mask of another, for example a/1_mask.png'
    >>> note_masks(["with_mask/with_mask_1.png", "masks/1.png"])
    []

    Args:
      names: of images, relative, with `/` between folders.
    """
    stems = [tuple(os.path.splitext(name)[0].split("/")) for name in names]
    known = set(stems)
    places = {
        place for path in stems for place, folder in enumerate(path[:-1]) if _is_mask_folder(folder)
    }
    without_folder = Counter(
        (place, *path[:place], *path[place + 1 :])
        for place in places
        for path in stems
        if place < len(path) - 1
    )
    masks, patterns = [], set()
    for name, path in zip(names, stems, strict=True):
        ending = _MASK_ENDING.search(path[-1])
        beside = ending and (*path[:-1], path[-1][: ending.start()]) in known
        folders = [
            path[place]
            for place in places
            if place < len(path) - 1
            and _is_mask_folder(path[place])
            and without_folder[place, *path[:place], *path[place + 1 :]] > 1
        ]
        if ending and beside:
            patterns.add(f"*{re.sub('[0-9]+$', '*', ending[0])}.*")
        patterns |= set(folders)
        if beside or folders:
            masks.append(name)
    if not masks:
        return []
    called = (
        "is called like the mask of another"
        if len(masks) == 1
        else "are called like masks of others"
    )
    return [
        f"{plural(len(masks), 'image')} {called}, for example {masks[0]}; to leave them"
        f" out, choose {explain_choice('leave_out', ','.join(sorted(patterns)))}"
    ]


def _is_mask_folder(name: str) -> bool:
    return _MASK_FOLDER.fullmatch(name) is not None


_SHOWN = 5  # names in a message

Path = tuple[str, ...]
"""The folders of an image, and its name."""


@dataclass(frozen=True)
class Arrangement:
    """Where images belong.

    Attributes:
      images: by part, the name of each image and that of its class, in order.
      classes: names of the classes, in the order of their ids; some may have no image.
      left_out: images that belong nowhere.
      notes: sentences on images that may be otherwise than a person thinks.
    """

    images: Mapping[str, Sequence[tuple[str, str]]]
    classes: Sequence[str]
    left_out: Sequence[LeftOut]
    notes: Sequence[str] = ()


def arrange(
    origin: str, names: Sequence[str], folders: Iterable[str], choices: Choices
) -> Arrangement:
    """Returns the part and the class of each image in folders.

    A folder around all others is passed by. Then come the parts, where folders are called so, and
    the classes.

    Args:
      origin: named in errors.
      names: of images, relative, with `/` between folders, in order; no hidden ones.
      folders: names of all folders, those without images too.
      choices: which folders are parts, and at which level the classes are.

    Raises:
      BadInput: no image below a class folder, or more than one reading; the message has the
        readings and the choice.
    """
    patterns = _patterns(origin, [*names, *folders], choices.leave_out)
    kept = [name for name in names if not _matches(name, patterns)]
    paths: list[Path] = [tuple(name.split("/")) for name in kept]
    roots = _roots(origin, paths, choices)
    images: dict[str, list[tuple[str, str]]] = {part: [] for part in roots.values()}
    loose, beside, nested = [], [], []
    for path in paths:
        root = next((path[:n] for n in range(len(path)) if path[:n] in roots), None)
        if root is None:
            outside = len(path) > 1 and () not in roots
            (beside if outside else loose).append("/".join(path))
        elif not (levels := path[len(root) : -1]):
            loose.append("/".join(path))
        else:
            if len(levels) > 1:
                nested.append((path, levels))
            label = levels[:1] if choices.class_level == TOP else levels
            images[roots[root]].append(("/".join(path), normalise_name("/".join(label))))
    classes = {label for part in images.values() for _, label in part}
    if not classes:
        raise BadInput(f"{origin}: contains no class folder with an image.")
    _refuse_other_classes(origin, images, roots)
    notes = note_masks([name for part in images.values() for name, _ in part])
    if nested and not choices.class_level:
        _refuse_levels(origin, nested, classes, notes)
    if choices.class_level != DEEPEST:
        split = [tuple(folder.split("/")) for folder in folders if not _matches(folder, patterns)]
        classes |= {normalise_name(folder[-1]) for folder in split if folder[:-1] in roots}
    return Arrangement(
        images,
        sorted(classes),
        [
            *describe_left_out("images beside the class folders", loose),
            *describe_left_out("images in folders beside the parts", beside),
            *describe_left_out(
                "images that leave_out names", [name for name in names if _matches(name, patterns)]
            ),
        ],
        notes,
    )


def _patterns(origin: str, names: Sequence[str], choice: str) -> Sequence[str]:
    """Returns what a person says is left out.

    Raises:
      BadInput: nothing is called so.
    """
    patterns = [normalise_name(word.strip()) for word in choice.split(",") if word.strip()]
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            raise BadInput(
                f"{origin}: leave_out: no folder and no image is called {pattern!r}. Give the name"
                " of a folder, as masks, or a pattern of files, as *_mask.png."
            )
    return patterns


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns whether a folder or file, or a folder around it, has a name of a pattern."""
    return any(
        fnmatchcase(normalise_name(word), each) for each in patterns for word in name.split("/")
    )


def _roots(origin: str, paths: Sequence[Path], choices: Choices) -> dict[Path, str]:
    """Returns the folders that contain the class folders, with the part of each."""
    top: Path = ()
    while (only := _only_folder(paths, top)) and not match_parts([only]):
        top = (*top, only)
    inside = [path[len(top) :] for path in paths if path[: len(top)] == top]
    parts = _parts(origin, inside, choices.parts)
    roots = {(*top, name): part for name, part in parts.items()} or {top: "all"}
    # seg_train/seg_train: a folder in each part that contains all of it
    while parts and all(_only_folder(paths, root) for root in roots):
        roots = {(*root, str(_only_folder(paths, root))): part for root, part in roots.items()}
    return roots


def _only_folder(paths: Sequence[Path], root: Path) -> str | None:
    """Returns the only folder in another, if it contains folders of images and no image itself."""
    deep = [path[len(root) :] for path in paths if path[: len(root)] == root]
    deep = [path for path in deep if len(path) > 1]
    tops = {path[0] for path in deep}
    return tops.pop() if len(tops) == 1 and all(len(path) > 2 for path in deep) else None


def _parts(origin: str, paths: Sequence[Path], choice: str) -> dict[str, str]:
    """Returns which of the top folders are parts, and of which; none if all are classes."""
    folders: dict[str, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            folders.setdefault(path[0], []).append(path[1:])
    chosen = parse_parts(choice, folders, origin)
    called = match_parts(folders)
    if chosen is None or not (called or chosen):
        return {}
    if "all" in chosen.values():  # the only part: what is called like another one is none
        called = {}
    inner = {
        name: {path[0] for path in inside if len(path) > 1} for name, inside in folders.items()
    }
    parts = called | chosen
    flat = [name for name in parts if not inner[name]]
    others = [name for name in folders if name not in parts]
    if chosen:
        if flat:
            raise BadInput(
                f"{origin}: the folder {flat[0]!r} contains images and no class folder, so it is"
                f" no part {parts[flat[0]]!r} with labels."
            )
    elif len(flat) == len(parts) == 1:
        return {}  # images of a class, as in its neighbours
    else:
        incomplete = "train" not in parts.values() or len(set(parts.values())) < 2
        # folders of images beside folders that share no class: all may be classes
        unlike = any(not inner[name] for name in others) and not set.intersection(
            *(inner[name] for name in parts)
        )
        if flat or incomplete or unlike:
            _refuse_parts(origin, parts, flat)
    check_parts(parts, chosen, origin)
    return parts


def _refuse_parts(origin: str, parts: Mapping[str, str], flat: Sequence[str]) -> NoReturn:
    """Refuses folders that are called like parts where the layout leaves a doubt."""
    named = _list(sorted(parts))
    why = f"{flat[0]!r} contains images and no class folder" if flat else "they are not complete"
    train = next((name for name, part in parts.items() if part == "train"), None)
    one_part = ""
    if train is not None and train not in flat:
        one_part = (
            f" If the images of {train!r} are all that have labels, from which the other parts are"
            f" drawn: parts={train}=all."
        )
    raise BadInput(
        f"{origin}: folders are called like parts ({named}), but {why}. If they are classes:"
        f" {explain_choice('parts', 'none')}.{one_part} If they are parts, put train and test"
        " beside each other, with one folder for each class in both."
    )


def _refuse_other_classes(
    origin: str, images: Mapping[str, Sequence[tuple[str, str]]], roots: Mapping[Path, str]
) -> None:
    """Refuses a part that shares no class with train: test/images/1.png has no label."""
    folders = {
        part: sorted({label.partition("/")[0] for _, label in of_part})
        for part, of_part in images.items()
    }
    train = folders.get("train")
    for part, of_part in folders.items():
        if train and of_part and set(of_part).isdisjoint(train):
            depth = len(os.path.commonprefix(list(roots)))
            name = next(root[depth] for root, of_root in roots.items() if of_root == "train")
            raise BadInput(
                f"{origin}: the folders of part {part!r} ({_list(of_part)}) are no classes of"
                f" part 'train' ({_list(train)}). If its images have no labels, draw the"
                f" other parts from {name!r}: {explain_choice('parts', f'{name}=all')}. Else put"
                " folders of the same classes into both."
            )


def _refuse_levels(
    origin: str,
    nested: Sequence[tuple[Path, Path]],
    deepest: Iterable[str],
    notes: Sequence[str],
) -> NoReturn:
    """Refuses images below class folders."""
    deep = sorted(deepest)
    tops = sorted({label.partition("/")[0] for label in deep})
    path, levels = nested[0]
    inner = {levels[1] for _, levels in nested}
    if notes:
        hint = f" {notes[0]}."
    elif match_parts(inner).keys() == inner:
        hint = " They are called like parts: those come first, as in train/CLASS and test/CLASS."
    elif len(deep) == len(tops) * len(inner) and min(len(tops), len(inner)) > 1:
        hint = (
            f" All top folders contain the same ones; if they are parts, say which:"
            f" parts={tops[0]}=train,{tops[-1]}=test."
        )
    else:
        hint = ""
    raise BadInput(
        f"{origin}: class folders contain folders of images, for example {'/'.join(path)}. By the"
        f" top folders there are {len(tops)} classes ({_list(tops)}), by the deepest ones"
        f" {len(deep)} ({_list(deep)}).{hint} Choose {explain_choice('class_level', 'top')}, or"
        f" class_level={DEEPEST}."
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


_FEW_TEST_IMAGES = 10  # with fewer, the error has steps of more than a tenth


def make_from_arrangement(
    origin: str,
    dataset_id: str,
    arranged: Arrangement,
    choices: Choices,
    read_images: Callable[[list[str]], Images],
    left_out: Sequence[LeftOut],
) -> DataSet:
    """Returns the data set of arranged images; class ids follow the sorted names of the classes.

    Args:
      origin: the folder or archive, named in errors.
      dataset_id: name of the data set.
      arranged: where the images belong.
      choices: what was chosen.
      read_images: returns the images of some names.
      left_out: what was left out besides the images that belong nowhere.

    Raises:
      BadInput: a multi-label task, fewer than two classes, or images that cannot be read.

    Warns:
      DataWarning: classes without an image, or without one in the test part; a small test part.
    """
    if choices.kind not in ("", SINGLE_LABEL):
        raise BadInput(
            f"{origin}: a directory of class folders is single_label, but the task is"
            f" {choices.kind}."
        )
    classes = arranged.classes
    if len(classes) == 1:
        raise BadInput(
            f"{origin}: has the only class folder {classes[0]!r}, and a task needs two classes or"
            " more, with a folder of images for each."
        )
    ids = {name: number for number, name in enumerate(classes)}
    labels = {
        part: np.asarray([ids[label] for _, label in images], np.int32)
        for part, images in arranged.images.items()
    }
    _warn_of_few_images(origin, classes, labels)
    names = {part: [name for name, _ in images] for part, images in arranged.images.items()}
    return make_dataset(
        dataset_id,
        SINGLE_LABEL,
        {part: (read_images(names[part]), labels[part]) for part in labels},
        choices.num_classes or len(classes),
        origin,
        choices,
        Found(
            classes,
            names,
            "class folders",
            [*arranged.left_out, *left_out],
            [*note_similar_names(classes), *arranged.notes],
            parts_known=True,
        ),
    )


def _warn_of_few_images(origin: str, classes: Sequence[str], labels: dict[str, np.ndarray]) -> None:
    """Warns of classes that have no image, or none in the test part, and of a small test part.

    Args:
      origin: the folder or archive.
      classes: names of the classes, in the order of their ids.
      labels: int32[n], class ids of the images of each part.
    """
    counts = {
        part: np.bincount(of_part, minlength=len(classes)) for part, of_part in labels.items()
    }
    present = sum(counts.values()) > 0
    if empty := [name for name, any_image in zip(classes, present, strict=True) if not any_image]:
        _warn(f"{origin}: no image in {_name_classes(empty)} of the {len(classes)} class folders.")
    if "test" not in labels:
        return
    images, of_class = len(labels["test"]), counts["test"]
    missing = [classes[i] for i in np.flatnonzero(present & (of_class == 0)).tolist()]
    if missing:
        _warn(
            f"{origin}, part test: {images} images, but none of {_name_classes(missing)} of the"
            f" {len(classes)} classes. The test error says nothing about those."
        )
    if images < _FEW_TEST_IMAGES:
        _warn(
            f"{origin}, part test: only {images} test images, so that one image changes the error"
            f" by {1 / max(images, 1):.2f}. Add more."
        )


def _name_classes(names: list[str]) -> str:
    """Returns how many classes there are, and the names of the first ten."""
    more = ", …" if len(names) > 10 else ""
    return f"{len(names)} ({', '.join(map(repr, names[:10]))}{more})"


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
