// Parts that move, searches that stream, copying. Nothing here is needed to read a page.
"use strict";

const MOST_ROWS = 500;

// Parts of a page that live are fetched again every five seconds, while somebody looks.
const live = document.querySelector("main[data-live]");
if (live) {
  setInterval(async () => {
    if (document.hidden) return;
    let answer;
    try { answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" }); } catch { return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
      const other = fresh.getElementById(part.id);
      const busy = part.contains(document.activeElement) || part.querySelector("details[open]");
      if (other && !busy) part.replaceChildren(...other.childNodes);
    }
  }, 5000);
}

const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

const address = (page, given) => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== "" && value !== null) parameters.set(name, value);
  return `/${page}?${parameters}`;
};

const row = (record, topic) => {
  const made = element("tr");
  made.append(element("td", "n", `${record.partition}:${record.offset}`), element("td", "time", record.time));
  const key = element("td", `key kind-${record.key.kind}`, record.key.text);
  if (record.key.note) key.append(element("span", "note", record.key.note));
  const value = element("td", `value kind-${record.value.kind}`);
  const details = element("details"), summary = element("summary");
  summary.append(element("code", "", record.value.text.slice(0, 200)));
  if (record.value.note) summary.append(element("span", "note", record.value.note));
  const actions = element("p"), copy = element("button", "plain", "Copy"), file = element("a", "", `Download ${record.value.size} bytes`);
  copy.type = "button";
  copy.dataset.copyNear = "";
  file.href = address("value", { topic, partition: record.partition, offset: record.offset });
  file.download = "";
  actions.append(copy, " ", file);
  details.append(summary, element("pre", "", record.value.pretty), actions);
  value.append(details);
  const headers = element("td");
  for (const [name, text] of record.headers) headers.append(element("span", "header", `${name}=${text === null ? "null" : text}`));
  made.append(key, value, headers);
  return made;
};

const table = document.getElementById("records");
const source = table && (table.dataset.search || table.dataset.liveTail);
if (source) {
  const said = document.getElementById("progress"), stop = document.getElementById("stop"), goOn = document.getElementById("go-on");
  const isTail = Boolean(table.dataset.liveTail), body = table.tBodies[0];
  let stream = null;
  const end = (sentence, more) => {
    if (stream) stream.close();
    stream = null;
    said.textContent = sentence;
    stop.hidden = true;
    goOn.hidden = !more;
  };
  const begin = () => {
    stream = new EventSource(source);
    stop.hidden = false;
    goOn.hidden = true;
    const on = (name, act) => stream.addEventListener(name, (event) => act(JSON.parse(event.data)));
    on("rows", ({ records }) => {
      for (const record of records) {
        const made = row(record, table.dataset.topic);
        if (isTail) body.prepend(made); else body.append(made);
      }
      while (isTail && body.rows.length > MOST_ROWS) body.deleteRow(-1);
    });
    on("progress", (told) => { said.textContent = `Searching: ${told.sentence}`; if (isTail) said.textContent = told.sentence; });
    on("waits", (told) => { said.textContent = told.message; });
    on("refused", (told) => end(told.message, true));
    const last = (word, more) => (told) => {
      document.getElementById("faults").replaceChildren(...told.faults.map((each) => element("p", "bad", `Not looked at: ${each}`)));
      end(`${word}: ${told.sentence}`, more);
    };
    on("pause", last("More may be there", true));
    on("end", last("All was looked at", false));
    // To connect again would lose rows that were under way.
    stream.onerror = () => { if (stream) end("The connection was lost, and hits may be missing: open the page again.", false); };
  };
  stop.addEventListener("click", () => end(`Stopped. ${said.textContent}`, true));
  goOn.addEventListener("click", begin);
  begin();
}

// Searches that are kept, in this browser alone. A search is its address, so it can be sent to others as well.
const saved = document.getElementById("saved"), save = document.getElementById("save");
if (saved) {
  const name = `searches ${table.dataset.topic}`;
  const kept = () => JSON.parse(localStorage.getItem(name) || "[]");
  const show = () => {
    saved.replaceChildren();
    for (const search of kept()) {
      const link = element("a", "", new URLSearchParams(search).toString().slice(0, 80)), drop = element("button", "plain", "Forget");
      link.href = `/messages?${search}`;
      drop.type = "button";
      drop.addEventListener("click", () => { localStorage.setItem(name, JSON.stringify(kept().filter((each) => each !== search))); show(); });
      saved.append(link, " ", drop, " ");
    }
  };
  if (save) save.addEventListener("click", () => {
    const search = location.search.slice(1);
    localStorage.setItem(name, JSON.stringify([search, ...kept().filter((each) => each !== search)].slice(0, 20)));
    show();
  });
  show();
}

// Empty fields stay out of the address.
for (const form of document.querySelectorAll("form[method=get]")) form.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-near]");
  if (!button) return;
  const from = button.dataset.copy ? document.querySelector(button.dataset.copy) : button.closest("details").querySelector("pre");
  await navigator.clipboard.writeText(from.textContent);
  button.textContent = "Copied";
});
