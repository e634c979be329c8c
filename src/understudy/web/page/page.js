// The page: a form, a progress bar, and the prediction as people like to see it.

const byId = (name) => document.getElementById(name);
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
let artifact = null, count = 0;

if ("serviceWorker" in navigator) {
  navigator.serviceWorker.register("offline.js").catch(() => {}); // not on plain HTTP
}

worker.addEventListener("message", ({ data }) => {
  if (data.type === "progress") {
    byId("progress").value = data.loaded / data.total;
    byId("status").textContent = `Loading the student: ${megabytes(data.loaded)} of ${megabytes(data.total)} MB`;
  } else if (data.type === "ready") {
    artifact = data.artifact;
    byId("loading").hidden = true;
    byId("button").disabled = false;
    document.body.dataset.state = "ready";
  } else if (data.type === "failed") {
    byId("status").textContent = `The student cannot be loaded: ${data.message}`;
    document.body.dataset.state = "failed";
  } else if (data.id === count) {
    byId("button").disabled = false;
    show(data);
  }
});

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  byId("button").disabled = true;
  count += 1;
  document.body.dataset.state = "busy";
  worker.postMessage({ id: count, row: readRow() });
});

function readRow() {
  const row = {};
  for (const field of byId("form").querySelectorAll("textarea")) {
    row[field.name] = "list" in field.dataset ? field.value.split("\n").filter((line) => line) : field.value;
  }
  return row;
}

function show({ prediction, error, milliseconds }) {
  const answer = byId("answer");
  answer.replaceChildren(...(error ? [element("p", `No prediction: ${error}`)] : drawn(prediction)));
  const cut = prediction?.truncated ? " The text was longer than the student reads." : "";
  byId("time").textContent = error ? "" : `${milliseconds.toFixed(1)} ms in this browser.${cut}`;
  document.body.dataset.prediction = JSON.stringify(prediction ?? null);
  document.body.dataset.state = "done";
}

function drawn(prediction) {
  const row = readRow();
  if (prediction.entities) {
    const marks = prediction.entities.map((one) => ({ ...one, note: one.label }));
    return [marked(row.text, marks), ...(marks.length ? [] : [element("p", "No entities.", "note")])];
  }
  if (prediction.answer !== undefined) {
    const none = prediction.has_answer === false || prediction.answer === "";
    const span = none ? [] : [{ start: prediction.start, end: prediction.end, note: "" }];
    return [element("p", none ? "No answer in this text." : prediction.answer, "big"), marked(row.context, span)];
  }
  if (prediction.choice !== undefined) {
    const bars = prediction.probabilities.map((value, place) => bar(row.choices[place], value));
    return [element("p", row.choices[prediction.choice], "big"), ...bars];
  }
  if (prediction.vector) {
    const first = prediction.vector.slice(0, 8).map((value) => value.toFixed(3)).join("  ");
    return [element("p", `${prediction.vector.length} numbers`, "big"), element("p", `${first} …`)];
  }
  if (!prediction.probabilities) {
    return [element("p", prediction.score.toFixed(3), "big")];
  }
  const title = prediction.label ?? (prediction.labels.join(", ") || "none of the labels");
  const sorted = Object.entries(prediction.probabilities).sort((a, b) => b[1] - a[1]);
  return [element("p", title, "big"), ...sorted.slice(0, 10).map(([name, value]) => bar(name, value))];
}

function bar(name, share) {
  const line = element("div", "", "bar"), outer = element("div"), inner = element("div");
  inner.style.width = `${100 * share}%`;
  outer.append(inner);
  line.append(element("span", name), outer, element("span", `${(100 * share).toFixed(1)} %`));
  return line;
}

function marked(text, spans) {
  const shown = element("p", "", "text");
  let place = 0;
  for (const { start, end, note } of spans) {
    const mark = element("mark", text.slice(start, end));
    if (note) {
      mark.append(element("small", note));
    }
    shown.append(text.slice(place, start), mark);
    place = end;
  }
  shown.append(text.slice(place));
  return shown;
}

function element(name, text = "", style = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = style;
  return made;
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
