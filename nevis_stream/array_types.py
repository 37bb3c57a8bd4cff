"""Arrays in annotations, with their kind of number and their shape.

    def mean(values: Float[np.ndarray, "models samples"]) -> Float[np.ndarray, " models"]: ...

A name stands for one length within a call; `...` and `*names` stand for any number of axes. To
Python and to type checkers such an annotation is the array alone; tests put jaxtyping's types in
place of these, which check every call (`tests/array_shapes.py`).
"""

from typing import Annotated as Bool
from typing import Annotated as Float
from typing import Annotated as Int
from typing import Annotated as UInt8

__all__ = ["Bool", "Float", "Int", "UInt8"]
