"""Files that identify what a directory contains: a refusal names the difference."""

import json
import re
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.storage.record import refuse_other


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({"a": [0.0, 0.2], "b": {"c": 4}}, {"a": [0, 0.2], "b": {"c": 5}}, "b.c: there 4, now 5"),
        ({"a": [0.0, 0.2], "b": 1}, {"a": [0, 0.2], "b": 1}, "a: there [0.0, 0.2], now [0, 0.2]"),
        ({"a": 1}, {"a": 1, "b": "x"}, 'b: there null, now "x"'),
        ({"a": {"b": 1}}, {"a": None}, "a.b: there 1, now null"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the same values in another order or form"),
    ],
)
def test_a_difference_names_key_and_values(old, new, message):
    with pytest.raises(BadInput, match=f"^x.json: another {re.escape(message)}$"):
        refuse_other(Path("x.json"), json.dumps(old), json.dumps(new), "another {difference}")


def test_a_difference_of_other_texts_names_the_line():
    with pytest.raises(BadInput, match=re.escape('line 2: there "3,4", now "3,5"')):
        refuse_other(Path("stream.csv"), "1,2\n3,4\n", "1,2\n3,5\n", "{difference}")


def test_a_damaged_file_is_not_called_another_run():
    with pytest.raises(BadInput, match="^x.json: cannot be read"):
        refuse_other(Path("x.json"), "{", json.dumps({"a": 1}), "another {difference}")
