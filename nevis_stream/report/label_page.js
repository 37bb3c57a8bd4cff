// Labels pictures by buttons and keys; keeps the labels in this browser; saves them as a csv file.
const data = JSON.parse(document.getElementById("data").textContent);
const element = (name) => document.getElementById(name);
const place = `nevis-stream label ${data.session}`;
const single = data.classes.every((name) => /^[0-9a-z]$/i.test(name));
const KEYS = single ? data.classes.join("").toLowerCase() : "1234567890abcdefghijklmnopqrstuvwxyz";

function kept() {
  try {
    return JSON.parse(localStorage.getItem(place)) ?? {};
  } catch {
    return {}; // no storage, or not ours: labels live as long as the page
  }
}

let labels = kept();
let current = Math.max(data.samples.findIndex(({ id }) => !(id in labels)), 0);

function keep(change) {
  labels = { ...kept(), ...labels }; // another tab may have added some
  change(labels);
  try {
    localStorage.setItem(place, JSON.stringify(labels));
  } catch {
    element("progress").textContent = "This browser keeps nothing: save before you close the page. ";
  }
}

function labelled() {
  return data.samples.filter(({ id }) => id in labels).length;
}

function choose(name) {
  keep((all) => { all[data.samples[current].id] = name; });
  const next = data.samples.findIndex(({ id }, i) => i > current && !(id in labels));
  const any = data.samples.findIndex(({ id }) => !(id in labels));
  current = next >= 0 ? next : any >= 0 ? any : current;
  show();
}

function clear() {
  keep((all) => { delete all[data.samples[current].id]; });
  show();
}

function move(step) {
  current = Math.min(Math.max(current + step, 0), data.samples.length - 1);
  show();
}

const buttons = data.classes.map((name, i) => {
  const button = document.createElement("button");
  button.type = "button";
  if (i < KEYS.length && !single) {
    const key = document.createElement("kbd");
    key.textContent = KEYS[i];
    button.append(key);
  }
  button.append(name);
  button.addEventListener("click", () => choose(name));
  element("choices").append(button);
  return button;
});

const tiles = data.samples.map(({ id, picture, small }, i) => {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const image = document.createElement("img");
  const label = document.createElement("span");
  button.type = "button";
  button.setAttribute("aria-label", `Sample ${i + 1}: ${id}`);
  image.src = picture;
  image.alt = "";
  image.className = small ? "small" : "";
  button.append(image, label);
  button.addEventListener("click", () => { current = i; show(); });
  item.append(button);
  element("strip").append(item);
  return { button, label };
});

function show() {
  const { id, picture, small } = data.samples[current];
  element("picture").src = picture;
  element("picture").className = small ? "small" : "";
  element("picture").alt = `Sample ${current + 1}`;
  element("caption").textContent = `${current + 1} of ${data.samples.length}: ${id}`;
  buttons.forEach((button, i) => {
    button.setAttribute("aria-pressed", String(labels[id] === data.classes[i]));
  });
  tiles.forEach(({ button, label }, i) => {
    button.setAttribute("aria-current", String(i === current));
    label.textContent = labels[data.samples[i].id] ?? "";
  });
  element("progress").textContent = `${labelled()} of ${data.samples.length} labelled`;
}

const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
// a spreadsheet would run such a cell as a formula; `label record` removes the quote
const safe = (text) => (/^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text);

function csv() {
  const rows = data.samples.filter(({ id }) => id in labels)
    .map(({ id }) => [data.session, id, labels[id]].map((text) => field(safe(text))).join(","));
  return ["session,sample,label", ...rows].join("\n") + "\n";
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = data.file;
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const number = KEYS.indexOf(event.key.toLowerCase());
  if (event.key.length === 1 && number >= 0 && number < data.classes.length) {
    choose(data.classes[number]);
  } else if (event.key === "ArrowLeft") {
    move(-1);
  } else if (event.key === "ArrowRight") {
    move(1);
  } else if (event.key === "Backspace") {
    clear();
  } else {
    return;
  }
  event.preventDefault();
});
element("back").addEventListener("click", () => move(-1));
element("forward").addEventListener("click", () => move(1));
element("clear").addEventListener("click", clear);
element("save").addEventListener("click", save);
show();
