// Keys, and the settings of this browser: theme, time zone, keys on or off. No key changes data.

const pages = { h: "/", c: "/calls", e: "/events", r: "/repair", d: "/dials", t: "/try" };
const help = [
  ["/", "search"], ["g h", "Health; then c calls, e events, r repair, d dials, t try"], ["j k", "next, previous row"],
  ["Enter", "open the row"], ["[ ]", "previous, next event of a call"], [", .", "step Known at"],
  ["+ - 0", "zoom of the drawing"], ["t", "table or drawing"], ["n", "show newer rows"], ["y", "copy the id"], ["c", "copy the command"],
  ["u", "UTC or local time"], ["f", "filters"], ["Esc", "back"], ["?", "this help"],
];
const root = document.documentElement;
export const find = (selector, within = document) => within.querySelector(selector);

/** Says a sentence in the one polite status line of the page. */
export const say = (text) => { find("#status").textContent = text; };

const setting = (name, fallback) => localStorage.getItem(name) ?? fallback;
const showTheme = () => {
  const theme = setting("theme", "auto");
  theme === "auto" ? delete root.dataset.theme : root.dataset.theme = theme;
  return theme;
};
showTheme();

/** Shows every time of the page in the chosen zone. Of times in the same `data-days`, the first of each day has its date. */
export const showTimes = (within = document) => {
  const local = setting("zone", "UTC") === "local";
  const days = {};
  for (const time of within.querySelectorAll("time")) {
    time.dataset.utc ??= time.textContent;
    const at = new Date(time.dateTime);
    const shown = /^(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(\.\d{3})?$/.exec(time.dataset.utc);
    if (shown && !Number.isNaN(+at)) {
      const here = new Date(at - at.getTimezoneOffset() * 60000).toISOString().replace("T", " ");
      const group = time.closest("[data-days]")?.dataset.days;
      const hasDate = group ? days[group] !== here.slice(0, 10) : shown[1];
      if (group) days[group] = here.slice(0, 10);
      const text = local ? here.slice(hasDate ? 0 : 11, shown[2] ? 23 : 19) : time.dataset.utc;
      if (time.textContent !== text) time.textContent = text;
    }
  }
  for (const word of within.querySelectorAll(".zone-word")) word.textContent = local ? "local time" : "UTC";
  const zone = find("#zone");
  zone.textContent = local ? "Local time" : "UTC";
  zone.setAttribute("aria-label", `Time zone: ${zone.textContent}`);
};

const copy = (text, what) => navigator.clipboard.writeText(text).then(() => say(`Copied ${what}.`), () => say("The browser refused to copy."));

// Rows of all tables of the page that are visible.
let selected = null;
const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.checkVisibility());
const select = (step) => {
  const all = rows();
  const index = all.indexOf(selected);
  const next = all[index < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(index + step, 0), all.length - 1)];
  if (!next) return;
  selected?.classList.remove("selected");
  selected = next;
  next.classList.add("selected");
  const target = next.querySelector("a, button, summary") ?? next;
  if (target === next) next.tabIndex = -1;
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  next.dispatchEvent(new CustomEvent("rowselected", { bubbles: true }));
};

const make = (tag, ...content) => {
  const made = document.createElement(tag);
  made.append(...content);
  return made;
};

const showHelp = () => {
  let dialog = find("dialog#keys");
  if (!dialog) {
    dialog = make("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-labelledby", "keys-title");
    const title = make("h2", "Keys");
    title.id = "keys-title";
    const list = make("dl");
    for (const [keys, meaning] of help) {
      list.append(make("dt", ...keys.split(" ").flatMap((key) => [make("kbd", key), " "])), make("dd", meaning));
    }
    const toggle = make("button");
    const next = () => setting("keys", "on") === "on" ? "off" : "on";
    const label = () => { toggle.textContent = `Switch keys ${next()}`; };
    toggle.onclick = () => { localStorage.setItem("keys", next()); label(); };
    label();
    const close = make("button", "Close");
    close.className = "primary";
    close.onclick = () => dialog.close();
    const row = make("div", close, toggle);
    row.className = "row";
    dialog.append(title, list, row);
    document.body.append(dialog);
  }
  dialog.showModal();
};

let going = 0;
const actions = {
  "/": () => find("#search").focus(),
  "?": showHelp,
  g: () => { going = Date.now(); },
  j: () => select(1),
  k: () => select(-1),
  y: () => {
    const id = selected?.querySelector("[data-id], a.id")?.title || find("[data-copy]")?.dataset.copy;
    if (id) copy(id, "the id");
  },
  c: () => copy(find("footer code").textContent, "the command"),
  u: () => find("#zone").click(),
  f: () => find("main form.filters :is(input, select)")?.focus(),
  n: () => find(".newer")?.click(),
};

export const isField = (element) => element.matches("input:not([type=checkbox], [type=radio], [type=range]), select, textarea, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && isField(event.target)) return event.target.blur();
  if (isField(event.target) || find("dialog[open]") || setting("keys", "on") === "off") return;
  const page = Date.now() - going < 3000 && find(`nav a[href="${pages[event.key]}"]`);
  going = 0;
  if (page) {
    page.click();
  } else if (event.key === "Escape" && history.length > 1 && location.pathname !== "/") {
    history.back();
  } else if (event.key === "Enter" && selected && event.target === selected) {
    selected.querySelector("a, summary")?.click();
  } else if (Object.hasOwn(actions, event.key)) {
    actions[event.key]();
  } else {
    return;
  }
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy, "the id");
});

const ready = () => {
  const theme = find("#theme");
  const themes = ["auto", "light", "dark"];
  const label = () => { theme.textContent = `Theme: ${showTheme()}`; };
  theme.onclick = () => { localStorage.setItem("theme", themes[(themes.indexOf(setting("theme", "auto")) + 1) % 3]); label(); };
  label();
  find("#zone").onclick = () => { localStorage.setItem("zone", setting("zone", "UTC") === "UTC" ? "local" : "UTC"); showTimes(); say(`Times are shown in ${find("#zone").textContent}.`); };
  find("#help").onclick = showHelp;
  for (const button of document.querySelectorAll("#theme, #zone, #help, [data-copy]")) button.hidden = false;
  showTimes();
};
document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", ready) : ready();
