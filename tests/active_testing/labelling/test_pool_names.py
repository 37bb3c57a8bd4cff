"""Photos whose names are not UTF-8."""

import os

import numpy as np
from PIL import Image

from nevis_stream.active_testing.labelling.pools import load_pool


def test_a_photo_whose_name_is_not_utf8_has_an_escaped_id(tmp_path):
    for name in (b"a.png", b"caf\xe9.png"):
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "new.png")
        os.rename(tmp_path / "new.png", os.path.join(os.fsencode(tmp_path), name))
    pool = load_pool(str(tmp_path))
    assert list(pool.ids) == ["a.png", r"caf\xe9.png"]
    assert pool.images[1].shape == (4, 4, 3)
    assert list(load_pool(str(tmp_path), ids=[r"caf\xe9.png"]).ids) == [r"caf\xe9.png"]
