"""Matplotlib figures as SVG inside the page: its fonts, its colours, no outside reference."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from nevis_stream.report import notation, palette


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn when it is wanted.

    Attributes:
      title: what a screen reader says, and how the caption of the file begins.
      draw: makes the figure. Artists with a label are named by the legend of the page or of the
        file.
      caption: of the file: what n counts, and what bars and bands show; empty where the figure
        itself says it.
    """

    title: str
    draw: Callable[[], Figure]
    caption: str


OVER_SEEDS = "± one sample standard deviation over the n seeds, where n ≥ 2"
"""What a caption says of bars and bands of seeds."""


def make_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """Returns an empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)  # measures texts; pyplot and its global state are not needed
    return figure


def make_plot(width: float, height: float) -> tuple[Figure, Any]:
    """Returns a figure of a size in inches, and its only axes in the page's look."""
    figure = make_figure(width, height)
    axes = figure.subplots()
    style_axes(axes)
    return figure, axes


def get_renderer(figure: Figure) -> RendererAgg:
    """Returns what measures a figure's texts."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)  # of `make_figure`
    return canvas.get_renderer()


@contextmanager
def allow_any_script() -> Iterator[None]:
    """Lets texts hold letters that matplotlib's font lacks: the page uses the reader's fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def style_axes(axes) -> None:
    """Gives axes the page's look: light grid, no frame, ink for text."""
    axes.grid(True, color=palette.line(), linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=palette.muted(), length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.xaxis.label.set(color=palette.ink(), size=9.5)
    axes.yaxis.label.set(color=palette.ink(), size=9.5)
    axes.set_title("", loc="left", color=palette.ink(), size=10)


def format_flops_ticks(axis) -> None:
    """Gives an axis ticks that are written as tables write FLOPs."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: notation.format_tick(value)))


def render_pictures(
    drawings: Mapping[str, Drawing], number: int | None = None
) -> dict[str, Markup]:
    """Returns figures for the page by name, as wide as the page; on a phone they scroll sideways.

    Args:
      drawings: by the name of their file, which is unique in a section.
      number: of the section, which makes names unique in the page; None outside of sections.
    """
    frame = Markup('<div class="figure" data-figure="{}">{}</div>')
    framed = {}
    for stem, drawing in drawings.items():
        name = stem if number is None else f"{stem}-{number}"
        framed[stem] = frame.format(name, render_inline(drawing.draw(), name, drawing.title))
    return framed


def render_inline(figure: Figure, name: str, title: str) -> Markup:
    """Returns the figure as an `<svg>` element for HTML.

    Args:
      figure: drawn with the colours of `palette`.
      name: unique in the page; every id in the SVG begins with it.
      title: what a screen reader says.
    """
    buffer = io.StringIO()
    context = {"svg.fonttype": "none", "svg.hashsalt": name}
    with matplotlib.rc_context(context), allow_any_script():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    opening = re.search(r"<svg[^>]*>", text)
    view = re.search(r'viewBox="[^"]*"', opening[0])[0]
    body = text[opening.end() : text.rindex("</svg>")]
    body = re.sub(r"<[^>]*>", lambda tag: _adapt(tag[0], name), body)
    body = re.sub(r"\s+", " ", body)
    head = Markup('<svg class="plot" role="img" aria-label="{}" ').format(title)
    return Markup(f"{head}{view}>{body}</svg>")


def _adapt(tag: str, name: str) -> str:
    """Rewrites one tag: ids become the page's, fonts are inherited, stand-ins become variables."""
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = tag.replace("xlink:href=", "href=").replace('href="#', f'href="#{name}-')
    tag = tag.replace("url(#", f"url(#{name}-")
    tag = re.sub(r"font-family: [^;\"]*;?", "", tag)
    return palette.to_variables(tag)
