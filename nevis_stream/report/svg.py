"""Matplotlib figures as SVG inside the page: its fonts, its colours, no outside reference."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import matplotlib
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nevis_stream.report import palette


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """Returns an empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)  # measures texts; pyplot and its global state are not needed
    return figure


@contextmanager
def any_script() -> Iterator[None]:
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


def wide_and_narrow(name: str, title: str, draw: Callable[[bool], Figure]) -> Markup:
    """Returns a figure in two forms, of which the style sheet shows one.

    Args:
      name: unique in the page; every id in the SVG begins with it. The file that `--figures` writes
        is called the same, less the section's number.
      title: what a screen reader says.
      draw: makes the figure; its argument is whether it is for a wide screen, else for a phone.
    """
    frame = Markup('<div class="{}" data-figure="{}">{}</div>')
    wide = frame.format("wide", name, inline(draw(True), f"{name}-wide", title))
    return wide + frame.format("narrow", name, inline(draw(False), f"{name}-narrow", title))


def inline(figure: Figure, name: str, title: str) -> Markup:
    """Returns the figure as an `<svg>` element for HTML.

    Args:
      figure: drawn with the colours of `palette`.
      name: unique in the page; every id in the SVG begins with it.
      title: what a screen reader says.
    """
    buffer = io.StringIO()
    context = {"svg.fonttype": "none", "svg.hashsalt": name}
    with matplotlib.rc_context(context), any_script():
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
