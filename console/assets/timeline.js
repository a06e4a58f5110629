// The page of a call: rows of the table and marks of the drawing are selected together, and keys step through both.
// The page is complete without this file. Elements are looked up when they are needed, because a live page replaces them.

const all = (selector) => [...document.querySelectorAll(selector)];
const find = (selector) => document.querySelector(selector);
const namesOf = (mark) => mark.dataset.rows.split(" ").map((row) => `r${row}`);

/** Shows the selection of the table in the drawing. */
const follow = () => {
  const chosen = new Set(all("#events tr.selected").map((row) => row.id));
  for (const mark of all("svg.story [data-rows]")) mark.classList.toggle("selected", namesOf(mark).some((name) => chosen.has(name)));
};

const select = (names) => {
  for (const row of all("#events tbody tr, tr.selected")) row.classList.toggle("selected", names.includes(row.id));
  follow();
  const first = names[0] && document.getElementById(names[0]);
  first?.scrollIntoView({ block: "nearest" });
  return first;
};

const step = (by) => {
  const rows = all("#events tbody tr");
  const events = rows.filter((row) => !row.matches(".write, .move"));
  const at = rows.findIndex((row) => row.matches(".selected"));
  const next = by > 0 ? events.find((row) => rows.indexOf(row) > at) : events.findLast((row) => rows.indexOf(row) < at);
  if (next) select([next.id])?.querySelector("a")?.focus({ preventScroll: true });
};

const actions = {
  "[": () => step(-1),
  "]": () => step(1),
  ",": () => find("#known a[rel=prev]")?.click(),
  ".": () => find("#known a[rel=next]")?.click(),
  t: () => find("figure.drawing")?.classList.toggle("shut"),
};

document.addEventListener("click", (event) => {
  const mark = event.target.closest("svg.story [data-rows]");
  const row = event.target.closest("#events tbody tr");
  if (mark) select(namesOf(mark));
  else if (row && !event.target.closest("a")) select([row.id]);
});
document.addEventListener("rowselected", follow);
document.addEventListener("refreshed", follow);
document.addEventListener("change", (event) => { if (event.target.id === "step") event.target.form.requestSubmit(); });
document.addEventListener("keydown", (event) => {
  const isField = event.target.matches("input, select, textarea, [contenteditable]");
  const isOff = localStorage.getItem("keys") === "off" || find("dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || isField || isOff) return;
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});
