"""Checkpoints: what is saved is loaded again, and damage is detected."""

import hashlib
import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nevis_stream.errors import BadInput, DamagedCheckpoint
from nevis_stream.storage import checkpoint
from nevis_stream.storage.checkpoint import Checkpoint, to_host

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.int32, np.uint8, np.bool_, np.float64]),
    hnp.array_shapes(min_dims=0, min_side=0),
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
TREES = st.recursive(
    ARRAYS | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(TREES)
def test_round_trip(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("c") / "x"
    checkpoint.write(path, {"t": tree}, {"n": 1})
    read = Checkpoint(path)
    assert read.record == {"n": 1}
    assert same(read.load("t"), to_host(tree))


def test_jax_arrays_and_tuples(tmp_path):
    import jax.numpy as jnp

    checkpoint.write(
        tmp_path / "x", {"t": {"a": (jnp.arange(3), jnp.zeros((2,), jnp.bfloat16))}}, {}
    )
    loaded = Checkpoint(tmp_path / "x").load("t")
    assert loaded["a"][0].tolist() == [0, 1, 2]
    assert str(loaded["a"][1].dtype) == "bfloat16"


@pytest.mark.parametrize("kind", ["float8_e5m2", "float8_e4m3fn", "int4", ">f4", "f2", "?"])
def test_other_types_of_numbers_come_back(tmp_path, kind):
    array = np.arange(2).astype(getattr(ml_dtypes, kind, kind))
    checkpoint.write(tmp_path / "x", {"t": array}, {})
    loaded = Checkpoint(tmp_path / "x").load("t")
    assert loaded.tolist() == array.tolist() and loaded.dtype.name == array.dtype.name


@pytest.mark.parametrize(
    "bad",
    [
        *(object(), {"a": {1: 2}}, [{"x": lambda: 0}], np.asarray(["text"]), {"__array__": 1}),
        *(np.zeros(2, complex), np.float128(1), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])),
        *(np.zeros(2, "V4"), np.ma.zeros(2), np.asarray([object()]), np.asarray([b"text"])),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, bad):
    with pytest.raises(BadInput, match="^t.*(cannot be saved; valid|keys must be strings)"):
        checkpoint.write(tmp_path / "x", {"t": bad}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["t.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_damage_is_found_by_name(tmp_path, file, damage):
    checkpoint.write(tmp_path / "x", {"t": {"a": np.arange(1000.0)}}, {"k": "v"})
    target = tmp_path / "x" / file
    data = bytearray(target.read_bytes())
    if damage == "missing":
        target.unlink()
    elif damage == "truncated":
        target.write_bytes(data[:-7])
    else:
        data[len(data) // 2] ^= 1  # one flipped bit
        target.write_bytes(data)
    with pytest.raises(DamagedCheckpoint, match=file):
        Checkpoint(tmp_path / "x").load("t")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trees": ["t"]}, "is not the manifest"),
        ({"trees": {"t": "x"}}, "is not the manifest"),
        ({"trees": {"t": {"sha256": "x"}}}, "is not the manifest"),
        ({"record": None}, "is not the manifest"),
        ({"trees": {}}, "has no tree 't'"),
        ({"structure": {"__array__": "/other"}}, "its arrays are not those of the manifest"),
        ({"structure": {"__array__": ["a"]}}, "its arrays are not those of the manifest"),
        ({"structure": {"__array__": "/a", "dtype": "finfo"}}, "not those of the manifest"),
        ({"structure": {"__array__": "/a", "dtype": 3}}, "not those of the manifest"),
        ({"content": b"no safetensors"}, "not those of the manifest"),
    ],
)
def test_another_shape_with_right_checksums_is_damage(tmp_path, changes, message):
    checkpoint.write(tmp_path / "x", {"t": {"a": np.arange(3, dtype=np.uint16)}}, {"k": "v"})
    manifest = tmp_path / "x" / "manifest.json"
    body = json.loads(manifest.read_text())
    del body["sha256"]
    if "structure" in changes:
        body["trees"]["t"]["structure"] = changes["structure"]
    elif "content" in changes:
        (tmp_path / "x" / "t.safetensors").write_bytes(changes["content"])
        body["trees"]["t"]["sha256"] = hashlib.sha256(changes["content"]).hexdigest()
    else:
        body |= changes
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    manifest.write_text(json.dumps(body | {"sha256": digest}))
    with pytest.raises(DamagedCheckpoint, match=message):
        Checkpoint(tmp_path / "x").load("t")
