// Labels pictures by buttons and keys; keeps the labels in this browser; saves them as a csv file.
const data = JSON.parse(document.getElementById("data").textContent);
const element = (name) => document.getElementById(name);
const single = data.classes.every((name) => /^[0-9a-z]$/i.test(name));
const KEYS = single ? data.classes.join("").toLowerCase() : "1234567890abcdefghijklmnopqrstuvwxyz";

// One record for each label, so that two tabs do not write over each other. Chromium's localStorage
// may start empty on a busy machine and then lose what it held.
const database = new Promise((resolve, reject) => {
  const request = indexedDB.open("nevis-stream", 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("labels", { keyPath: ["session", "sample"] });
  };
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

async function transact(mode, ask) {
  const transaction = (await database).transaction("labels", mode);
  const request = ask(transaction.objectStore("labels"));
  transaction.commit?.(); // what is written stays, even if the page is closed at once
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

async function kept() {
  try {
    const mine = IDBKeyRange.bound([data.session], [data.session, []]);
    const records = await transact("readonly", (store) => store.getAll(mine));
    return Object.fromEntries(records.map(({ sample, label }) => [sample, label]));
  } catch {
    return {}; // no database: labels live as long as the page
  }
}

async function keep(ask) {
  try {
    await transact("readwrite", ask);
  } catch {
    element("progress").textContent = "This browser keeps nothing: save before you close the page.";
  }
}

let labels = {};
let current = 0;
// All are labelled and no picture was chosen since: one key too many must not change the last label.
let finished = false;

function labelled() {
  return data.samples.filter(({ id }) => id in labels).length;
}

function choose(name) {
  const sample = data.samples[current].id;
  labels[sample] = name;
  keep((store) => store.put({ session: data.session, sample, label: name }));
  const next = data.samples.findIndex(({ id }, i) => i > current && !(id in labels));
  const any = data.samples.findIndex(({ id }) => !(id in labels));
  finished = next < 0 && any < 0;
  current = next >= 0 ? next : any >= 0 ? any : current;
  show();
}

function clear() {
  const sample = data.samples[current].id;
  delete labels[sample];
  finished = false;
  keep((store) => store.delete([data.session, sample]));
  show();
}

function move(step) {
  finished = false;
  current = Math.min(Math.max(current + step, 0), data.samples.length - 1);
  show();
}

const choices = data.unknown ? [...data.classes, data.unknown] : data.classes;
const buttons = choices.map((name, i) => {
  const button = document.createElement("button");
  button.type = "button";
  if (i < Math.min(KEYS.length, data.classes.length) && !single) {
    const key = document.createElement("kbd");
    key.textContent = KEYS[i];
    button.append(key);
  }
  button.append(i < data.classes.length ? name : `${name} nobody can tell`);
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
  button.addEventListener("click", () => { current = i; finished = false; show(); });
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
    button.setAttribute("aria-pressed", String(labels[id] === choices[i]));
  });
  tiles.forEach(({ button, label }, i) => {
    button.setAttribute("aria-current", String(i === current));
    label.textContent = labels[data.samples[i].id] ?? "";
  });
  const done = finished ? ": save them, or choose a picture to change its label" : "";
  element("progress").textContent = `${labelled()} of ${data.samples.length} labelled${done}`;
}

const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
// a spreadsheet would run such a cell as a formula; `label record` removes the quote
const safe = (text) => (/^'*[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text);

function csv() {
  const rows = data.samples.filter(({ id }) => id in labels)
    .map(({ id }) => [data.session, id, labels[id]].map((text) => field(safe(text))).join(","));
  return ["session,sample,label", ...rows].join("\n") + "\n";
}

async function save() {
  labels = { ...labels, ...await kept() }; // another tab may have added some
  show();
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
    if (!finished) choose(data.classes[number]);
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

async function start() {
  show();
  labels = { ...await kept(), ...labels };
  current = Math.max(data.samples.findIndex(({ id }) => !(id in labels)), 0);
  finished = labelled() === data.samples.length;
  show();
}
const started = start();
