"""Images that are called like masks of others: COVID/masks/1.png, or lesion_mask.png."""

import os
import re
from collections import Counter
from collections.abc import Sequence

from nevis_stream.datasets.part_names import how
from nevis_stream.errors import plural

_WORDS = r"(masks?|segmentations?|seg|annotations?|ground[ _-]?truth|gt)"
_FOLDER = re.compile(_WORDS, re.IGNORECASE)
_ENDING = re.compile(rf"[ _.-]{_WORDS}([ _.-]?\d+)?$", re.IGNORECASE)


def notes_on_masks(names: Sequence[str]) -> list[str]:
    """Returns a sentence about images that are called like masks of others, or none.

    It is said only where the others are there: `with_mask` may be a class.

    >>> notes_on_masks(["a/1.png", "a/1_mask.png", "b/2.png"])[0].partition(";")[0]
    '1 image is called like the mask of another, for example a/1_mask.png'
    >>> notes_on_masks(["with_mask/with_mask_1.png", "masks/1.png"])
    []

    Args:
      names: of images, relative, with `/` between folders.
    """
    stems = [tuple(os.path.splitext(name)[0].split("/")) for name in names]
    there = set(stems)
    places = {
        place for path in stems for place, folder in enumerate(path[:-1]) if _is_folder(folder)
    }
    elsewhere = Counter(
        (place, *path[:place], *path[place + 1 :])
        for place in places
        for path in stems
        if place < len(path) - 1
    )
    masks, patterns = [], set()
    for name, path in zip(names, stems, strict=True):
        ending = _ENDING.search(path[-1])
        beside = ending and (*path[:-1], path[-1][: ending.start()]) in there
        folders = [
            path[place]
            for place in places
            if place < len(path) - 1
            and _is_folder(path[place])
            and elsewhere[place, *path[:place], *path[place + 1 :]] > 1
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
        f" out, choose {how('leave_out', ','.join(sorted(patterns)))}"
    ]


def _is_folder(name: str) -> bool:
    return _FOLDER.fullmatch(name) is not None
