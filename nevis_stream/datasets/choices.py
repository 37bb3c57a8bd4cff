"""The choices of a reading: what a person may say where files can be read in more than one way.

A choice has the same name as a flag of `data import`, a column of a stream's csv and an argument.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from nevis_stream.errors import BadInput, unknown
from nevis_stream.vocabulary import TASK_KINDS

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
        from nevis_stream.datasets.decoding import colour

        return colour(self.background)

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
