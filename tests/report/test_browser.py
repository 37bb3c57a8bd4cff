"""The page in a real browser: no error, visible figures, tables that sort, no sideways scroll."""

import json
import re
import shutil
import subprocess

import pytest

from nevis_stream.report.build import write_report
from tests.report.synthetic import SyntheticRun

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on PATH")

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=3000"),
]

# Runs in a copy of the page whose policy allows it, and leaves what it saw in the title.
PROBE = """
<script>
const seen = {errors: []};
window.addEventListener("error", (event) => seen.errors.push(String(event.message)));
const shown = (selector) => [...document.querySelectorAll(selector)]
  .filter((element) => element.getBoundingClientRect().width > 50).length;
seen.plots = shown("svg.plot");
seen.curves = shown("svg.curve");
seen.images = [...document.images].filter((image) => image.naturalWidth > 0).length;
seen.overflow = document.documentElement.scrollWidth - innerWidth;
seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
const colour = (selector) => getComputedStyle(document.querySelector(selector)).fill;
seen.ink = colour(".plot [style*='--ink']");
seen.fonts = Math.min(...[...document.querySelectorAll("svg.plot text, svg.curve text")]
  .map((text) => text.getBoundingClientRect().height).filter((height) => height > 0));
const table = document.querySelector("#points-1");
const column = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i].dataset.value);
const button = table.tHead.rows[0].cells[3].querySelector("button");
button.focus();
seen.focused = document.activeElement === button;
button.click();
seen.up = column(3);
seen.sorted = table.tHead.rows[0].cells[3].getAttribute("aria-sort");
button.click();
seen.down = column(3);
document.title = JSON.stringify(seen);
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("browser")
    run = SyntheticRun(learner="Indep")
    runs = [run, run.but(learner="FT-d", skill=0.2), run.but(learner="MT", events=3)]
    runs += [run.but(learner="FT-prev", skill=0.1, flops=700)]
    return write_report([r.write(root / str(i)) for i, r in enumerate(runs)], root / "out")


def browse(address, tmp_path, *flags):
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probe(page, tmp_path, *flags):
    text = page.read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = tmp_path / "probed.html"
    copy.write_text(text.replace("</body>", PROBE + "</body>"))
    dom, console = browse(copy.as_uri(), tmp_path, *flags)
    assert console == []
    title = re.search(r"<title>(.*?)</title>", dom, flags=re.S)[1]
    return json.loads(title.replace("&quot;", '"').replace("&gt;", ">").replace("&lt;", "<"))


def test_the_page_itself_loads_without_a_word_on_the_console(page, tmp_path):
    dom, console = browse(page.as_uri(), tmp_path)
    assert console == []
    assert 'class="plot"' in dom


@pytest.mark.parametrize("width", [1400, 500])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_figures_show_and_tables_sort(page, tmp_path, width, dark):
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    seen = probe(page, tmp_path, f"--window-size={width},2000", scheme)
    assert seen["errors"] == []
    assert seen["plots"] >= 4
    assert seen["curves"] == seen["images"] == 4
    assert seen["overflow"] <= 0
    assert seen["dark"] == dark
    red, green, blue = map(int, re.findall(r"\d+", seen["ink"])[:3])
    assert (red + green + blue > 600) == dark
    assert seen["fonts"] >= 9
    assert seen["focused"]
    values = [float(value) for value in seen["up"] if value]
    assert values == sorted(values)
    assert seen["up"][-1] == seen["down"][-1] == ""
    assert seen["down"][:-1] == seen["up"][:-1][::-1]
    assert seen["sorted"] == "ascending"
