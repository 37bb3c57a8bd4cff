"""A real notebook shows a session while it runs, in one place, with an interval that shrinks."""

import re

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

pytestmark = pytest.mark.slow

STARTS = """
import numpy as np
from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation import session_view

session_view._REFRESH = 0
outcomes = np.random.default_rng(0).random((20, 300)) < np.linspace(0.2, 0.9, 20)[:, None]
session = de.Session.start("session", de.read_board(outcomes[1:]), until=0.3)
"""
LOOPS = {
    "run": "session.run(lambda ids: [outcomes[0][i] for i in ids], count=20)",
    "run_async": """
async def answer(sample):
    return outcomes[0][sample]

await session.run_async(answer, concurrency=8)
""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_notebook_shows_the_interval_as_it_shrinks(loop, tmp_path):
    pages = []

    cells = [nbformat.v4.new_code_cell(each) for each in (STARTS, LOOPS[loop], "session")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    place = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, resources=place)
    process = client.process_message

    def keep(message, cell, cell_index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            pages.append(message["content"]["data"].get("text/html", ""))
        return process(message, cell, cell_index)

    client.process_message = keep
    client.execute()

    shown = [each for each in notebook.cells[1].outputs if each.output_type == "display_data"]
    assert len(shown) == 1 and shown[0].data["text/html"] == pages[-1]  # one place, the last state
    assert notebook.cells[2].outputs[0].data["text/html"] == pages[-1]
    ends = [re.search(r"(\d\.\d+) to (\d\.\d+)", page) for page in pages]
    widths = [float(each[2]) - float(each[1]) for each in ends if each]
    assert len(widths) > 2 and widths[-1] <= 0.3 < widths[0] and "<svg" in pages[-1]
    assert sorted(widths, reverse=True) == widths
