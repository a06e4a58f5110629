// The page of a call: rows of the table and marks of the drawing are selected together, and keys step through both. Keys or a drag
// make the drawing wider. The page is complete without this file. Elements are looked up when they are needed, because a live page
// replaces them.
import { find, isField } from "./keys.js";
import { refresh, showNewer } from "./live.js";

const all = (selector) => [...document.querySelectorAll(selector)];
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
  const rows = all("#events > tbody > tr");
  const events = rows.filter((row) => !row.matches(".write, .move, .opened"));
  const at = rows.findIndex((row) => row.matches(".selected"));
  const next = by > 0 ? events.find((row) => rows.indexOf(row) > at) : events.findLast((row) => rows.indexOf(row) < at);
  if (next) select([next.id])?.querySelector("a")?.focus({ preventScroll: true });
};

const zoomMax = 32;
const zoomNow = () => +(new URLSearchParams(location.search).get("zoom") ?? 1);

/** Makes the drawing wider or narrower. `middle` is the part of its width that is then in the middle of the view. */
const zoomTo = async (zoom, middle) => {
  const view = find(".drawing .scroll");
  const next = Math.min(Math.max(2 ** Math.floor(Math.log2(zoom)), 1), zoomMax);
  if (!view || next === zoomNow()) return;
  middle ??= (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
  const url = new URL(location.href);
  next > 1 ? url.searchParams.set("zoom", next) : url.searchParams.delete("zoom");
  history.replaceState(history.state, "", url);
  await refresh(true);
  view.scrollLeft = middle * view.scrollWidth - view.clientWidth / 2;
};

/** Shows what was known after the write that the range chose. The range has the focus again, so that each key is one step. */
const knowAt = async (range) => {
  range.setAttribute("aria-valuetext", `write ${range.value} of ${range.max}`);
  const url = new URL(location.href);
  url.searchParams.set("step", range.value);
  history.replaceState(history.state, "", url);
  const found = await refresh(true);
  // The user may have chosen another write meanwhile.
  if (!found || location.href !== url.href) return;
  // The server has replaced the number of the write by its time.
  history.replaceState(history.state, "", found);
  showNewer();
  find("#step")?.focus({ preventScroll: true });
};

const actions = {
  "[": () => step(-1),
  "]": () => step(1),
  ",": () => find("#known a[rel=prev]")?.click(),
  ".": () => find("#known a[rel=next]")?.click(),
  t: () => find("figure.drawing")?.classList.toggle("shut"),
  "+": () => zoomTo(zoomNow() * 2),
  "-": () => zoomTo(zoomNow() / 2),
  0: () => zoomTo(1),
};

// A drag over the drawing chooses the range that is then as wide as the view.
let drag = null;
const placeOf = (event, view) => event.clientX - view.getBoundingClientRect().left + view.scrollLeft;
document.addEventListener("pointerdown", (event) => {
  const view = event.target.closest?.(".drawing .scroll");
  if (!view || event.button !== 0 || event.pointerType === "touch" || event.target.closest("svg.names, [data-rows]")) return;
  drag = { view, from: placeOf(event, view), range: document.createElement("div") };
  drag.range.className = "range";
  event.preventDefault();
});
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  drag.to = placeOf(event, drag.view);
  drag.range.style.left = `${Math.min(drag.from, drag.to)}px`;
  drag.range.style.width = `${Math.abs(drag.to - drag.from)}px`;
  if (!drag.range.isConnected) drag.view.append(drag.range);
});
const drop = (isDone) => {
  const { view, from, to = from, range } = drag ?? {};
  drag = null;
  range?.remove();
  const width = Math.abs(to - from);
  if (isDone && width >= 16) zoomTo(zoomNow() * (view.clientWidth / width), (from + to) / 2 / view.scrollWidth);
};
document.addEventListener("pointerup", () => drop(true));
document.addEventListener("pointercancel", () => drop(false));

document.addEventListener("click", (event) => {
  const mark = event.target.closest("svg.story [data-rows]");
  const row = event.target.closest("#events > tbody > tr:not(.opened)");
  if (mark) select(namesOf(mark));
  else if (row && !event.target.closest("a")) select([row.id]);
});
document.addEventListener("rowselected", follow);
document.addEventListener("refreshed", follow);
document.addEventListener("change", (event) => { if (event.target.id === "step") knowAt(event.target); });
document.addEventListener("keydown", (event) => {
  const isOff = localStorage.getItem("keys") === "off" || find("dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || isField(event.target) || isOff) return;
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});
