// Draws the learning curves from the data embedded in the page; shows the values under the pointer or the arrow keys.
const WIDTH = 220, HEIGHT = 130, LEFT = 40, RIGHT = 8, TOP = 9, BOTTOM = 22;

function element(name, attributes, text) {
  const node = document.createElementNS("http:/" + "/www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// The next of 1, 2 and 5 times a power of ten, so that half of it is a short number too.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * power).find((limit) => limit >= value * (1 - 1e-9));
}

function engineering(value) {
  const power = value < 1e4 ? 0 : 3 * Math.floor(Math.log10(value) / 3);
  return power ? `${Number((value / 10 ** power).toPrecision(3))}e${power}` : `${value}`;
}

const short = (value) => `${Number(value.toPrecision(2))}`;

// A task's curves as places in the picture, with what each place means.
function placed(task, runs) {
  const lines = task.lines.map(([run, shared, errors]) => ({ ...runs[run], steps: task.steps[shared], errors }));
  const most = Math.max(1, ...task.steps.flat());
  const worst = ceiling(Math.max(0, ...lines.flatMap((line) => line.errors)));
  for (const line of lines) {
    line.places = line.errors.map((error, i) => [
      LEFT + (line.steps[i] / most) * (WIDTH - LEFT - RIGHT),
      TOP + (1 - error / worst) * (HEIGHT - TOP - BOTTOM),
    ]);
  }
  return { lines, most, worst };
}

function axes(svg, most, worst) {
  const bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT, middle = (TOP + bottom) / 2;
  svg.append(
    element("path", { class: "grid", d: `M${LEFT} ${TOP}H${right}M${LEFT} ${middle}H${right}` }),
    element("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }),
    element("text", { class: "left", x: LEFT - 5, y: TOP + 4 }, short(worst)),
    element("text", { class: "left", x: LEFT - 5, y: middle + 4 }, short(worst / 2)),
    element("text", { class: "left", x: LEFT - 5, y: bottom + 1 }, "0"),
    element("text", { x: LEFT, y: HEIGHT - 6 }, "0"),
    element("text", { class: "right", x: right, y: HEIGHT - 6 }, `${engineering(most)} steps`),
  );
}

function mark(line) {
  const style = `stroke:var(--s${line.colour})`;
  if (line.places.length > 1) {
    const points = line.places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    return element("polyline", { points, style, "stroke-dasharray": line.dash });
  }
  const [x, y] = line.places[0];
  return element("circle", { cx: x, cy: y, r: 2.5, style: `fill:var(--s${line.colour})` });
}

function draw(figure, task, runs) {
  const { lines, most, worst } = placed(task, runs);
  const label = `Dev error against training steps on ${task.name}`;
  const svg = element("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "img", "aria-label": label });
  axes(svg, most, worst);
  const marks = lines.map(mark);
  const dot = element("circle", { r: 3.5, class: "dot", visibility: "hidden" });
  svg.append(...marks, dot);
  const readout = figure.querySelector(".readout");
  const last = (line) => line.errors[line.errors.length - 1];
  const lowest = lines.reduce((best, line) => (last(line) < last(best) ? line : best));
  const selected = { line: lines.indexOf(lowest), point: lowest.errors.length - 1 };

  function rest() {
    readout.textContent = task.lowest;
    marks.forEach((drawn) => drawn.classList.remove("faded"));
    dot.setAttribute("visibility", "hidden");
  }
  function show() {
    const line = lines[selected.line];
    const [x, y] = line.places[selected.point];
    readout.textContent = `step ${line.steps[selected.point]}: ${line.errors[selected.point].toPrecision(3)}, ${line.name}`;
    marks.forEach((drawn, i) => drawn.classList.toggle("faded", i !== selected.line));
    for (const [name, value] of [["cx", x], ["cy", y], ["visibility", "visible"]]) dot.setAttribute(name, value);
    dot.setAttribute("style", `fill:var(--s${line.colour})`);
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
    let nearest = Infinity;
    lines.forEach((line, i) => line.places.forEach(([x, y], j) => {
      const distance = (x - at[0]) ** 2 + (y - at[1]) ** 2;
      if (distance < nearest) [nearest, selected.line, selected.point] = [distance, i, j];
    }));
    show();
  });
  svg.addEventListener("pointerleave", () => (document.activeElement === svg ? show() : rest()));
  svg.addEventListener("focus", show);
  svg.addEventListener("blur", rest);
  svg.addEventListener("keydown", (event) => {
    const [across, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (across === undefined) return;
    event.preventDefault();
    selected.line = (selected.line + down + lines.length) % lines.length;
    const points = lines[selected.line].places.length;
    selected.point = Math.min(points - 1, Math.max(0, selected.point + across));
    show();
  });
  figure.insertBefore(svg, readout);
  rest();
}

for (const source of document.querySelectorAll("script.curves")) {
  const { runs, tasks } = JSON.parse(source.textContent);
  const figures = source.parentElement.querySelectorAll(".multiples figure");
  tasks.forEach((task, i) => task.lines.length && draw(figures[i], task, runs));
}
