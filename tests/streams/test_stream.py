"""Streams: order, events, digests, and rows that cannot be used."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nevis_stream.datasets.dataset import make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.runner import run
from nevis_stream.storage.tables import LONGEST
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream
from tests import toy

HEAD = "order,year,task_id,dataset_id,meta_split"
ROW = "1,1998,pico_digits,pico_digits,test"


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_events_of_both_protocols():
    stream = toy.stream()
    events = stream.events("meta_test")
    assert [(e.kind, e.split) for e in events[:2]] == [("train", None), ("predict", "test")]
    assert [e.task.task_id for e in events[::2]] == ["alpha", "beta", "gamma", "alpha_2"]
    developing = stream.events("meta_train")
    assert [(e.task.task_id, e.split) for e in developing if e.kind == "predict"] == [
        ("alpha", "dev_test"),
        ("beta", "dev_test"),
    ]
    only_train = Stream("s", stream.tasks[:2], stream.dataset)
    with pytest.raises(BadInput, match="which protocol 'meta_test' needs"):
        only_train.events("meta_test")


def altered(change):
    """A stream of one data set with something changed."""
    dataset = toy.blobs("alpha")
    part = dataset.parts["all"]
    pixels = np.stack([part.images[i] for i in range(len(part))])
    labels, classes, name = part.labels.copy(), 3, "alpha"
    if change == "pixel":
        pixels[7, 0, 0, 0] ^= 1
    if change == "label":
        labels[7] = (labels[7] + 1) % 3
    if change == "classes":
        classes = 4
    if change == "sample":
        pixels, labels = pixels[:-1], labels[:-1]
    parts = {"all": (ArrayImages(pixels), labels)}
    if change == "split":
        parts = {
            "train": (ArrayImages(pixels[:50]), labels[:50]),
            "test": (ArrayImages(pixels[50:]), labels[50:]),
        }
    stream = Stream.from_datasets(
        "s", [make_dataset(name, "single_label", parts, classes)], [2000], meta_test=1
    )
    rows = {
        "year": {"year": 2001},
        "order": {"order": 2},
        "task_id": {"task_id": "other"},
        "meta": {"meta_split": "train"},
    }
    tasks = [replace(stream.tasks[0], **rows.get(change, {}))]
    return Stream("s", tasks, stream._load)


def test_the_digest_changes_with_everything_that_matters():
    changes = [
        "nothing",
        "pixel",
        "label",
        "classes",
        "sample",
        "split",
        "year",
        "order",
        "task_id",
        "meta",
    ]
    digests = [altered(change).digest for change in changes]
    assert len(set(digests)) == len(digests)
    assert altered("nothing").digest == digests[0]


def test_the_digest_is_the_same_in_another_process():
    program = "from nevis_stream import load_stream; print(load_stream('pico').digest)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == load_stream("pico").digest


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEAD], "has no task"),
        (["order,year,task_id", "1,2,a"], "has no column dataset_id or meta_split"),
        ([HEAD, "x,1998,a,pico_digits,test"], r"line 2: order is 'x', not a whole number"),
        ([HEAD, "1,,a,pico_digits,test"], r"line 2: year is '', not a whole number"),
        ([HEAD, "1,1998,a/b,pico_digits,test"], r"line 2: task_id is 'a/b'; use letters"),
        ([HEAD, "1,1998,random,pico_digits,test"], "task_id is 'random', which stands for some"),
        (
            [HEAD, f"1,1998,{'x' * 300},pico_digits,test"],
            r"line 2: task_id has 300 bytes .*at most",
        ),
        ([HEAD, f"1,1998,{'é' * 90},pico_digits,test"], r"line 2: task_id has 180 bytes"),
        ([HEAD, "1,1998,,pico_digits,test"], r"line 2: task_id is ''"),
        (
            [HEAD, "1,1998,a,pico_digit,test"],
            r"line 2: .*'pico_digit'.*'pico_digits'",
        ),
        (
            [HEAD, "1,1998,a,pico_digits,tset"],
            r"line 2: .*'tset'.*'test'",
        ),
        ([HEAD, ROW, "2,1999,pico_digits,pico_digits,test"], "task_id 'pico_digits' occurs twice"),
        ([HEAD, ROW, "2,1997,b,pico_digits,test"], r"'b' \(order 2, year 1997\) follows"),
        ([HEAD, ROW, "1,1999,b,pico_digits,test"], "orders must rise and years must not fall"),
        (
            [HEAD + ",path", "1,1998,a,a,test,none.npz"],
            r"none.npz: .*\(data set 'a'\)",
        ),
        (
            [HEAD + ",path,kind", "1,1998,a,a,test,x.npz,single"],
            "'single'.*'single_label'",
        ),
        (
            [HEAD + ",path,num_classes", "1,1998,a,a,test,x.npz,few"],
            "num_classes is 'few', not a whole number",
        ),
        (
            [HEAD + ",path,num_classes", "1,1998,a,a,test,x.npz,1"],
            "line 2: num_classes is 1; valid: 2 to 1000000",
        ),
        ([HEAD, ROW, "2,-2021,b,pico_digits,test"], "s.csv, line 3: year is -2021; valid: 0 to"),
        ([HEAD, "", "1,20210,b,pico_digits,test"], "s.csv, line 3: year is 20210; valid: 0 to"),
        ([HEAD, "1,2021.0,b,pico_digits,test"], "line 2: year is '2021.0', not a whole number"),
        ([HEAD, "1,,b,pico_digits,test"], "line 2: year is '', not a whole number"),
        ([HEAD, "1" + "0" * 30 + ",2021,b,pico_digits,test"], "line 2: order is 10+; valid: "),
        ([HEAD, "1,2021,b,pico_digits"], "line 2: has 4 cells, the first line has 5"),
        ([HEAD, "1,2021,b,pico_digits,test,x"], "line 2: has 6 cells, the first line has 5"),
        ([HEAD, '1,2021,"b,pico_digits,test'], "line 2: is not csv .*quotation mark"),
        (
            [HEAD + ",pathh", "1,1998,a,a,test,x.npz"],
            "line 1: column 'pathh' .*'path'",
        ),
        (
            [HEAD + ",num classes", "1,1998,a,a,test,5"],
            "'num classes'.*'num_classes'",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, lines, message):
    with pytest.raises(BadInput, match=message):
        load_stream(write(tmp_path / "s.csv", *lines))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_a_stream_is_read_as_spreadsheets_save_it(tmp_path, encoding, delimiter):
    text = f"{HEAD},remark\n{ROW},\n,,,,,\n".replace(",", delimiter).replace("\n", "\r\n")
    (tmp_path / "s.csv").write_bytes(text.encode(encoding))
    assert [task.task_id for task in load_stream(str(tmp_path / "s.csv")).tasks] == ["pico_digits"]


def test_years_of_a_stream_in_memory():
    with pytest.raises(BadInput, match="the year of task 'x' is -5; valid: 0 to 9999"):
        Stream.from_datasets("s", [toy.blobs("x")], [-5], 1)


def test_the_longest_names_make_files(tmp_path):
    longest = "x" * LONGEST
    blobs = toy.blobs(longest)
    run(toy.ToyLearner(), Stream.from_datasets("s", [blobs], [2000], 1), tmp_path / "run")
    with pytest.raises(BadInput, match=r"stream 's': task_id has \d+ bytes"):
        Stream.from_datasets("s", [blobs, blobs], [2000, 2001])


def test_rows_of_one_data_set_may_not_contradict_each_other(tmp_path):
    lines = [HEAD + ",path", "1,1998,a,a,train,x.npz", "2,1999,a_2,a,test,y.npz"]
    with pytest.raises(BadInput, match=r"line 3: the source of .* is .*, but in line 2 it is"):
        load_stream(write(tmp_path / "s.csv", *lines))


def test_unknown_names_and_files():
    with pytest.raises(BadInput, match="'pica'.*'pico'.*or the path of a csv file"):
        load_stream("pica")
    with pytest.raises(BadInput, match="none.csv: .*Give a csv file or the name of a stream"):
        load_stream("none.csv")


def test_a_csv_that_is_no_text_is_named(tmp_path):
    (tmp_path / "s.csv").write_bytes(b"\xff\xfe\x00\x80" * 50)
    with pytest.raises(BadInput, match="s.csv, line 1: has no column order or year"):
        load_stream(str(tmp_path / "s.csv"))


def test_missing_shared_data_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path / "nowhere"))
    assert len(load_stream("pico").digest) == 16
    stream = load_stream("pico_plus")  # the rows alone need no data
    with pytest.raises(
        BadInput,
        match=r"data set '\w+' is not on this machine: put the file at .*nowhere.*_SHARED",
    ):
        _ = stream.digest


def test_carried_streams_are_chronological_and_repeat_after_ten_years():
    for name in ("pico", "pico_plus"):
        tasks = load_stream(name).tasks
        assert [t.order for t in tasks] == list(range(1, len(tasks) + 1))
        assert all((t.year > 2018) == (t.meta_split == "test") for t in tasks)
        first = {}
        for task in tasks:
            assert task.year - first.setdefault(task.dataset_id, task.year) in (0, *range(10, 99))
    tasks = load_stream("pico").tasks
    assert len(tasks) >= 7 and len({t.domain for t in tasks}) >= 4
    assert len({t.dataset_id for t in tasks}) == len(tasks) - 1
    assert "multi_label" in {t.kind for t in tasks} and {"train", "test"} == {
        t.meta_split for t in tasks
    }


def test_a_stream_of_arrays():
    images, labels = np.zeros((30, 4, 4), np.uint8), np.arange(30) % 3
    parts = {"train": (images, labels), "test": (images[:6], labels[:6])}
    tasks = {"a": (images, labels), "b": parts}
    stream = Stream.from_arrays("two", tasks, [1990, 2000], meta_test=1)
    assert [task.meta_split for task in stream.tasks] == ["train", "test"]
    assert len(stream.splits(stream.tasks[1])["test"]) == 6
    for years, meta_test, message in (
        ([1990], 1, "has 2 data sets but 1 year; give one for each"),
        ([1990, 2000], 2000, "meta_test is 2000: how many of its 2 tasks are judged"),
    ):
        with pytest.raises(BadInput, match=message):
            Stream.from_arrays("two", tasks, years, meta_test)
    with pytest.raises(BadInput, match="c: all its images are of one class"):
        Stream.from_arrays("one", {"c": (images, 0 * labels)}, [1990])
