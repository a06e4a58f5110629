// Live pages: when the server names a new version, changes are taken over in place, and nothing moves.
import { find, say, showTimes } from "./keys.js";

let source = null;
let busy = false;
let saidAt = 0;
let latest = null;
let pause = 0;
let skipped = 0;
let readAt = 0;
// Time of what is shown, by the clock of the stack.
let shownAt = find("#live time");
// Less than five minutes, because a version may come a moment early.
const longestPause = 290000;

/** Shows whether the page is live. If it is not, the time of what it shows stands beside it. */
const light = (text, on) => {
  const live = find("#live");
  live.classList.toggle("on", on);
  const parts = on ? [text] : [`${text}, as of `, shownAt];
  find("span", live).replaceChildren(...parts);
  showTimes(live);
};

/** Says that the session is over. The new link makes the page live again, when it is shown next. */
const endSession = () => {
  source?.close();
  light("session over", false);
  if (find("main > .over")) return;
  const textContent = "This session is over. Press Enter in the terminal of the console, and open the new link.";
  find("main").prepend(Object.assign(document.createElement("div"), { className: "problem over", role: "alert", textContent }));
};

const isSelected = (node) => {
  const selection = getSelection();
  return !selection.isCollapsed && selection.getRangeAt(0).intersectsNode(node);
};

const changed = (element) => {
  element.classList.remove("changed");
  requestAnimationFrame(() => element.classList.add("changed"));
};

const kept = new Set(["open", "tabindex", "data-utc", "class", "hidden"]);
const takeAttributes = (old, next) => {
  for (const { name, value } of next.attributes) if (name !== "open" && name !== "class") old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !kept.has(name)) old.removeAttribute(name);
  const own = marks.filter((name) => old.classList.contains(name));
  const name = [...next.classList, ...own].join(" ");
  if (name || old.className) old.setAttribute("class", name);
};

const keyOf = (row, index) => row.id || find("a[href]", row)?.getAttribute("href") || `#${index}`;
/** Returns the rows by their names. Rows with the same name are numbered. */
const byKey = (rows) => {
  const seen = {};
  return new Map([...rows].map((row, index) => {
    const key = keyOf(row, index);
    seen[key] = (seen[key] ?? 0) + 1;
    return [`${seen[key]} ${key}`, row];
  }));
};

/** Takes over changed rows. Returns how many are new or gone, have another place, or would move those below. */
const takeRows = (old, next) => {
  const known = byKey(old.rows);
  let moved = 0;
  let last = -1;
  for (const [key, row] of byKey(next.rows)) {
    const same = known.get(key);
    const isInOrder = !same || same.sectionRowIndex > last;
    if (same && isInOrder) last = same.sectionRowIndex;
    const fits = same && (asked || same.isEqualNode(row) || !grows(same, row));
    if (fits) take(same, row);
    if (!fits || !isInOrder) moved++;
    known.delete(key);
    same?.classList.remove("gone");
  }
  for (const row of known.values()) row.classList.add("gone");
  return moved + known.size;
};

let moved = 0;
let asked;
const parts = "table, section, figure, form, ul, ol, dl, details, div, p";
const quick = ".empty, .problem, .exchanged";
const marks = ["selected", "changed", "gone"];
const named = (nodes) => {
  const seen = {};
  return new Map(nodes.map((node) => {
    const name = `${node.nodeName}#${node.id}.${[...node.classList].find((one) => !marks.includes(one))}`;
    seen[name] = (seen[name] ?? 0) + 1;
    return [name + seen[name], node];
  }));
};
const isBusy = (node) => isSelected(node) || node.contains(document.activeElement);

/** Takes over parts of a page. A new part waits for the user if it would move those below it. */
const takeParts = (old, next) => {
  const ours = named([...old.children].filter((part) => !part.matches(".newer")));
  const theirs = named([...next.children]);
  const last = (all, others) => [...all.keys()].findLastIndex((name) => others.has(name));
  let place = null;
  [...theirs].forEach(([name, part], index) => {
    const own = ours.get(name);
    if (own) { take(own, part); place = own; return; }
    if (index < last(theirs, ours) && !part.matches(quick)) { moved++; return; }
    const copy = document.importNode(part, true);
    place ? place.after(copy) : old.prepend(copy);
    place = copy;
  });
  [...ours].forEach(([name, part], index) => {
    if (!theirs.has(name) && (index > last(ours, theirs) || part.matches(quick)) && !isBusy(part)) part.remove();
  });
};

/** True if a part of another height would move everything below it. */
const grows = (old, next) => {
  const copy = document.importNode(next, true);
  copy.className = old.className;
  find("details", copy)?.toggleAttribute("open", !!find("details[open]", old));
  old.after(copy);
  const height = copy.offsetHeight;
  copy.remove();
  return height !== old.offsetHeight;
};

const isHiddenField = (node) => node.nodeName === "INPUT" && node.type === "hidden";

/** Takes over all hidden fields of a form, so that it does what its new label says. */
const takeHiddenFields = (old, next) => {
  const ours = [...old.children].filter(isHiddenField);
  const theirs = [...next.children].filter(isHiddenField);
  if (ours.length === theirs.length && ours.every((field, index) => field.isEqualNode(theirs[index]))) return;
  for (const field of ours) field.remove();
  old.prepend(...theirs.map((field) => document.importNode(field, true)));
};

/** Makes one element equal to another. What the user typed or chose stays. */
const take = (old, next) => {
  if (old.isEqualNode(next) || "keep" in old.dataset || old.matches("input, select, textarea, dialog")) return;
  if ("still" in old.dataset && !asked && grows(old, next)) { moved++; return; }
  takeAttributes(old, next);
  if (old.tagName === "FORM") takeHiddenFields(old, next);
  if (old.tagName === "TBODY") { moved += takeRows(old, next); return; }
  const nodes = [...old.childNodes, ...next.childNodes];
  if (nodes.every((node) => node.nodeType === 1) && nodes.some((node) => node.matches(parts))) { takeParts(old, next); return; }
  const ours = [...old.childNodes].filter((node) => !node.classList?.contains("newer") && !isHiddenField(node));
  const theirs = [...next.childNodes].filter((node) => !isHiddenField(node));
  theirs.forEach((node, index) => {
    const own = ours[index];
    if (!own) { old.insertBefore(document.importNode(node, true), find(":scope > .newer", old)); return; }
    if (own.nodeName === node.nodeName && own.nodeType === 1) { take(own, node); return; }
    if (own.isEqualNode(node) || isBusy(own)) return;
    own.replaceWith(document.importNode(node, true));
    changed(old);
  });
  for (const extra of ours.slice(theirs.length)) if (!isBusy(extra)) extra.remove();
};

export const showNewer = () => {
  moved = 0;
  const top = find("main table")?.getBoundingClientRect().top;
  find("main").replaceChildren(...document.importNode(latest, true).childNodes);
  showTimes();
  if (top < 0) find("main table").scrollIntoView();
  document.dispatchEvent(new Event("refreshed"));
};

const offer = () => {
  let button = find("main > .newer");
  if (!moved) { button?.remove(); return; }
  if (!button) {
    button = Object.assign(document.createElement("button"), { className: "newer primary", onclick: showNewer });
    find("main").append(button);
  }
  button.textContent = `${moved} ${moved === 1 ? "part" : "parts"} changed: show (n)`;
};

/** Reads the page again, not during a drag. If the user asked for it, parts may move. Returns the final URL. */
export const refresh = async (isAsked) => {
  while (busy && isAsked) await new Promise(requestAnimationFrame);
  if (busy || document.hidden || !isAsked && find(".range")) return;
  busy = true;
  readAt = Date.now();
  let status;
  const slow = setTimeout(() => light("reading…", true), 2000);
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    status = response.status;
    // Whatever its status, a page says itself what is absent.
    if (!/html/.test(response.headers.get("content-type"))) throw new Error(status);
    const page = policy.createHTML(await response.text());
    const next = new DOMParser().parseFromString(page, "text/html");
    for (const button of next.querySelectorAll("[data-copy]")) button.hidden = false;
    showTimes(next);
    latest = find("main", next);
    // Scripts read so do not run.
    if (find("script", latest) && !find("main script")) return location.reload();
    shownAt = document.importNode(find("#live time", next), true);
    // AWS has throttled a read: the next one waits twice as long.
    pause = find("[data-kind=throttled]", latest) ? Math.min(2 * pause + 1, 31) : 0;
    const before = find("main").textContent;
    moved = 0;
    asked = isAsked;
    take(find("main"), latest);
    offer();
    find("#cost").replaceWith(document.importNode(find("#cost", next), true));
    if (before !== find("main").textContent && Date.now() - saidAt > 5000) {
      saidAt = Date.now();
      say(moved ? `${moved} changed.` : "Updated.");
    }
    light(pause ? "throttled" : "live", !pause);
    document.dispatchEvent(new Event("refreshed"));
    return response.url;
  } catch {
    status === 403 ? endSession() : light("not reached", false);
  } finally {
    clearTimeout(slow);
    busy = false;
  }
};

// The only text that becomes markup: a page of this console. Its scripts are never run.
const policy = globalThis.trustedTypes?.createPolicy("switchhook", { createHTML: (page) => page }) ?? { createHTML: (page) => page };

const listen = () => {
  source = new EventSource(`/live?page=${encodeURIComponent(location.pathname)}`);
  source.addEventListener("version", () => {
    if (skipped < pause && Date.now() - readAt < longestPause) { skipped++; return; }
    skipped = 0;
    refresh();
  });
  source.onopen = () => { if (!pause) light("live", true); };
  // 204 closes the stream.
  source.onerror = () => { if (source?.readyState !== EventSource.CLOSED) light("not reached", false); };
};

// A page that answered a form is not what its URL shows, so it stays as it is.
const isLive = () => "live" in find("#live").dataset;
document.addEventListener("visibilitychange", () => {
  source?.close();
  source = null;
  if (!document.hidden && isLive()) { refresh(); listen(); }
});
if (!document.hidden && isLive()) listen();
