"""The page in a real browser: no error, no request, visible figures, curves by the script, keys, no
sideways scroll.
"""

import re

import pytest

from nevis_stream.report.build import write_report
from tests.analysis.test_transfer_matrix import write
from tests.report.chromium import PATH, Browser
from tests.report.synthetic import SyntheticRun, on_two_streams

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason="chromium is not on PATH"),
]

BOXES = (
    "[...document.querySelectorAll({!r})].map((e) => e.getBoundingClientRect()).filter((b) =>"
    " b.width > 50).length"
)
# Height of a letter, in pixels, of every text that is shown: figures scale theirs.
SMALLEST = """Math.min(...[...document.querySelectorAll('svg text, p, td, th, li, a, dd, figcaption')]
  .filter((e) => e.getBoundingClientRect().height > 0 && e.textContent.trim())
  .map((e) => [parseFloat(getComputedStyle(e).fontSize), e.getScreenCTM?.() ?? {a: 1, b: 0}])
  .map(([size, scale]) => size * Math.hypot(scale.a, scale.b)))"""  # noqa: E501
# Names of tables that are wider than their frames.
CUT = """[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)
  .map((e) => e.getAttribute('aria-label'))"""
# Left and right edges of texts, frames and tables, without those that are shown in two columns.
EDGES = """[...new Set([...document.querySelectorAll('.lead, .note, .scroll, .card, .statement')]
  .filter((e) => e.offsetHeight && e.closest('main') && !e.closest('.multiples, .samples, ul'))
  .map((e) => e.getBoundingClientRect())
  .map((b) => `${Math.round(b.left)} ${Math.round(b.right)}`))]"""
# Elements that begin before the element above them ends.
OVERLAPS = """[...document.querySelectorAll('section.part > *')].filter((e) => e.offsetHeight)
  .filter((e, i, all) => i && all[i - 1].parentElement === e.parentElement &&
    e.getBoundingClientRect().top < all[i - 1].getBoundingClientRect().bottom - 1)
  .map((e) => e.outerHTML.slice(0, 80))"""
# Pairs of level texts of a figure that cover each other, and how many texts were looked at.
TEXTS = """(() => {
  const overlaps = [];
  let count = 0;
  for (const figure of document.querySelectorAll('svg.plot')) {
    if (figure.getBoundingClientRect().width < 50) continue;
    const texts = [...figure.querySelectorAll('text')].filter((e) => e.textContent.trim())
      .map((e) => [e.textContent.trim(), e.getBoundingClientRect(), e.getScreenCTM().b]);
    const level = texts.filter(([, , slope]) => Math.abs(slope) < 0.01);
    count += level.length;
    level.forEach(([a, box], i) => level.slice(0, i).forEach(([b, other]) => {
      const width = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const height = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
      if (width > 2 && height > 3) overlaps.push(`${a} | ${b}`);
    }));
  }
  return [overlaps, count];
})()"""
# Fills and strokes of marks in the plane: a mark is filled with its own colour, or hollow.
MARKS = """[...document.querySelectorAll('[data-figure=points-1] use')]
  .map((e) => getComputedStyle(e)).map((s) => [s.fill, s.stroke])"""
# The colour of text against its background, as the guidelines for readable pages count it.
CONTRAST = """(() => {
  const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(', 0)')) return colour;
    }
  };
  return [...document.querySelectorAll('p, td, th, li, a, dd, dt, h1, h2, h3, figcaption, .unit, .gap, summary')]
    .filter((e) => e.textContent.trim() && e.getBoundingClientRect().height)
    .map((e) => [light(getComputedStyle(e).color), light(background(e)), e.outerHTML.slice(0, 80)])
    .map(([a, b, e]) => [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e])
    .reduce((worst, pair) => (pair[0] < worst[0] ? pair : worst));
})()"""  # noqa: E501


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("browser")
    run = SyntheticRun(learner="Indep", tasks=30, meta_test=9)
    ours = run.but(learner="FT-d", skill=0.2)
    runs = [
        run,
        ours,
        ours.but(seed=1),
        run.but(learner="MT", events=3),
        run.but(learner="FT-prev", skill=0.1, flops=700, start="previous"),
        run.but(learner="BHPO", skill=-0.1, flops=9000),
    ]
    return write_report([r.write(root / str(i)) for i, r in enumerate(runs)], root / "out")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("width", [400, 800, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_is_readable(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    assert browser.console == []
    assert browser.requests == [page.as_uri()]
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(BOXES.format("svg.plot")) >= 2
    assert browser.evaluate(BOXES.format("svg.curve")) == 30
    assert browser.evaluate(SMALLEST) >= (10 if width == 1280 else 9)
    assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == dark
    ink = browser.evaluate(
        """getComputedStyle(document.querySelector(".plot [style*='--ink']")).fill"""
    )
    assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > 600) == dark
    contrast, where = browser.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    assert browser.evaluate(OVERLAPS) == []
    assert browser.evaluate("document.querySelector('nav.parts').offsetHeight") < 96  # it stays
    overlaps, texts = browser.evaluate(TEXTS)
    assert overlaps == [] and texts > 50
    assert len(browser.evaluate(EDGES)) == 1
    if width == 1280:
        assert browser.evaluate(CUT) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_dominated_points_are_hollow_and_as_visible_as_others(browser, page, dark):
    browser.open(page, 1280, dark=dark)
    marks = browser.evaluate(MARKS)
    hollow = [(fill, stroke) for fill, stroke in marks if fill != stroke]
    assert len(hollow) == 2  # Indep, on a vertical of the front, and BHPO
    assert len({fill for fill, _ in hollow}) == 1
    shades = [sum(map(int, re.findall(r"\d+", stroke)[:3])) for _, stroke in hollow]
    assert all((shade > 250) == dark or (shade < 550) != dark for shade in shades)


def test_images_are_there(browser, page):
    browser.open(page, 1400)
    loaded = "Promise.all([...document.images].map((i) => (i.loading = 'eager', i.decode())))"
    assert browser.evaluate(f"{loaded}.then((all) => all.length)") >= 30


def test_tables_sort_with_the_keyboard(browser, page):
    browser.open(page, 1400)
    heading = "document.querySelector('#points-1').tHead.rows[0].cells[3]"
    column = (
        "[...document.querySelector('#points-1').tBodies[0].rows].map((row) =>"
        " row.cells[3].dataset.value)"
    )
    browser.evaluate("document.querySelector('#points-1').closest('.scroll').focus()")
    for _ in range(4):
        browser.press("Tab")
    assert browser.evaluate(f"document.activeElement.parentElement === {heading}")
    browser.press("Enter")
    up = browser.evaluate(column)
    assert browser.evaluate(f"{heading}.getAttribute('aria-sort')") == "ascending"
    values = [float(value) for value in up if value]
    assert len(values) == 4 and values == sorted(values)
    browser.press("Enter")
    down = browser.evaluate(column)
    assert up[-1] == down[-1] == ""
    assert down[:-1] == up[:-1][::-1]


def test_tab_leads_through_the_navigation_first(browser, page):
    browser.open(page, 1400)
    seen = []
    for _ in range(3):
        browser.press("Tab")
        seen.append(browser.evaluate("document.activeElement.getAttribute('href')"))
    assert seen[0] == "#content"
    assert [browser.evaluate(f"!!document.querySelector({target!r})") for target in seen] == [
        True
    ] * 3
    browser.press("Enter")
    assert browser.evaluate("location.hash") == seen[2]
    top = browser.evaluate(
        f"document.querySelector({seen[2]!r} + ' h3').getBoundingClientRect().top"
    )
    below = browser.evaluate("document.querySelector('nav.parts').getBoundingClientRect().bottom")
    assert below <= top < 400  # the heading stands below the bar, which stays at the top


def test_curves_tell_their_values(browser, page):
    browser.open(page, 1400)
    figure = "document.querySelector('.multiples figure')"
    readout = f"{figure}.querySelector('.readout').textContent"
    resting = browser.evaluate(readout)
    assert resting.startswith("lowest at the end 0.")
    browser.evaluate(f"{figure}.querySelector('svg').focus()")
    first = browser.evaluate(readout)
    assert re.fullmatch(r"step 50: 0\.\d+, .* · small.*", first)
    browser.press("ArrowLeft")
    assert re.fullmatch(r"step 33: 0\.\d+, .* · small.*", browser.evaluate(readout))
    browser.press("ArrowDown")
    other = browser.evaluate(readout)
    assert other.split(", ", 1)[1] != first.split(", ", 1)[1]
    assert browser.evaluate(f"{figure}.querySelectorAll('.faded').length") == 5
    browser.evaluate("document.activeElement.blur()")
    assert browser.evaluate(readout) == resting
    x, y = browser.evaluate(
        f"(() => {{ const b = {figure}.querySelector('polyline').getBoundingClientRect(); "
        "return [b.left, b.top]; })()"
    )
    browser.point(x + 1, y + 1)
    assert browser.evaluate(readout).startswith("step 0: 0.9")
    assert (
        browser.evaluate(f"{figure}.querySelector('.dot').getAttribute('visibility')") == "visible"
    )


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    """Two streams, variants of one another, a method with a very long name, and a transfer
    matrix.
    """
    root = tmp_path_factory.mktemp("sections")
    run = SyntheticRun(tasks=9, meta_test=3, stream="full")
    ours = run.but(learner="ft_d", skill=0.2, start="related", mistakes=True)
    runs = [*on_two_streams(run, ours), run.but(learner="L" * 400)]
    return write_report(
        [write(root / "matrix"), *(r.write(root / str(i)) for i, r in enumerate(runs))],
        root / "out",
    )


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_of_several_sections_are_readable(browser, sections, width, dark):
    browser.open(sections, width, dark=dark)
    assert browser.console == []
    assert [address for address in browser.requests if not address.startswith("data:")] == [
        sections.as_uri()
    ]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(BOXES.format("#transfer-matrix-of-all svg.plot")) == 1
    assert browser.evaluate(BOXES.format("#ablations-of-all table")) >= 1
    assert browser.evaluate(SMALLEST) >= (8 if width == 400 else 8.5)  # of the matrix's values
    contrast, where = browser.evaluate(CONTRAST)
    assert contrast >= 4.5, where


def test_the_bar_of_a_section_stays_small_and_ends_with_it(browser, sections):
    browser.open(sections, 1400)
    # two streams, across, glossary
    assert browser.evaluate("document.querySelectorAll('nav.chapters a').length") == 4
    browser.evaluate(
        "document.querySelector('#section-2 section.part:last-child').scrollIntoView()"
    )
    boxes = "[...document.querySelectorAll('nav.parts')].map((e) => e.getBoundingClientRect())"
    bars = browser.evaluate(f"{boxes}.map((box) => [box.top, box.height])")
    assert [top == 0 for top, _ in bars] == [False, True, False]
    assert max(height for _, height in bars) < 110
