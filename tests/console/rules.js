// Rules for every page. Returns one sentence for each breach. Runs in the page, over its computed styles.
() => {
  const breaches = [];
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const isHidden = (element) => element.closest(".hidden, .skip, [aria-hidden=true]") !== null;
  const name = (element) => {
    const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
    return `<${element.tagName.toLowerCase()}${element.id && ` id=${element.id}`} class="${element.getAttribute("class") ?? ""}"> ${text}`;
  };
  const must = (holds, element, rule) => { if (!holds) breaches.push(`${rule}: ${element ? name(element) : ""}`); };

  // Language, landmarks, headings.
  must(document.documentElement.lang === "en", null, "the page names its language");
  must(document.title.length > 0, null, "the page has a title");
  for (const tag of ["header", "main", "footer"]) must(all(`body > ${tag}`).length === 1, null, `one ${tag}`);
  must(all("h1").length === 1, null, "one h1");
  for (const nav of all("nav")) must(nav.hasAttribute("aria-label"), nav, "navigation has a label");
  let level = 1;
  for (const heading of all("h1, h2, h3, h4").filter(shown)) {
    must(+heading.tagName[1] <= level + 1, heading, "no level of headings is left out");
    level = +heading.tagName[1];
  }
  const ids = all("[id]").map((element) => element.id);
  must(new Set(ids).size === ids.length, null, `ids are unique: ${ids.filter((id, index) => ids.indexOf(id) !== index)}`);
  must(all("[style], style").length === 0, all("[style], style")[0], "no inline style");

  // Names of what can be used.
  for (const field of all("input:not([type=hidden]), select, textarea")) {
    must(field.labels.length > 0 || field.hasAttribute("aria-label") || field.hasAttribute("aria-labelledby"), field, "a field has a label");
  }
  for (const control of all("a[href], button, summary")) {
    must(control.textContent.trim() || control.getAttribute("aria-label"), control, "a control has a name");
  }
  for (const drawing of all("svg")) must(drawing.getAttribute("aria-hidden") === "true" || drawing.hasAttribute("aria-label"), drawing, "a drawing is hidden or has a name");

  // Tables.
  for (const table of all("table")) {
    must(all("th", table).length > 0, table, "a table has headers");
    must(table.caption || table.hasAttribute("aria-label") || table.hasAttribute("aria-labelledby") || table.closest("section")?.querySelector("h2"), table, "a table has a caption or a heading");
    for (const cell of all("th", table)) must(["col", "row", "colgroup", "rowgroup"].includes(cell.scope), cell, "a header has a scope");
  }

  // Contrast of text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const seen = new Map();
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || !shown(element) || isHidden(element) || element.closest("svg, select, textarea, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 1 && box.height > 1) texts.push({ element, box, node });
    const style = getComputedStyle(element);
    const key = `${style.color} ${element.className} ${element.tagName}`;
    if (seen.has(key)) continue;
    seen.set(key, true);
    const [one, other] = [luminance(parse(style.color)), luminance(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    must(ratio >= 4.5, element, `contrast ${ratio.toFixed(2)} is at least 4.5`);
  }

  // Targets: at least 24 px, links inside a sentence excepted.
  for (const target of all("a[href], button, summary, input:not([type=hidden]), select, textarea").filter(shown)) {
    if (isHidden(target)) continue;
    const box = target.getBoundingClientRect();
    const inSentence = target.matches("p a, figcaption a, dd a, li a, caption a") && getComputedStyle(target).display === "inline";
    must(inSentence || (box.width >= 24 && box.height >= 23.5) , target, `target ${box.width.toFixed(0)} × ${box.height.toFixed(0)} px is at least 24`);
  }

  // Geometry: nothing scrolls the page sideways, leaves its box or covers other text.
  must(document.documentElement.scrollWidth <= innerWidth, null, `the page does not scroll sideways (${document.documentElement.scrollWidth} of ${innerWidth} px)`);
  const clips = (element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return at;
    }
    return null;
  };
  for (const { element, box } of texts) {
    const own = clips(element);
    must(own || (box.left >= -1 && box.right <= innerWidth + 1), element, "text stays on the page");
    const cell = element.closest("td, th, dd, dt, button, .badge, .panel, figcaption");
    if (cell && !own) {
      const around = cell.getBoundingClientRect();
      must(box.right <= around.right + 1.5 && box.left >= around.left - 1.5, element, "text stays in its box");
    }
  }
  const floats = (element) => element.closest(".newer, dialog");
  const sorted = texts.filter(({ element }) => !floats(element) && !clips(element)).sort((a, b) => a.box.top - b.box.top);
  sorted.forEach(({ element, box, node }, index) => {
    for (const next of sorted.slice(index + 1, index + 60)) {
      if (next.box.top >= box.bottom - 4) break;
      if (next.node === node) continue;
      const wide = Math.min(box.right, next.box.right) - Math.max(box.left, next.box.left);
      const high = Math.min(box.bottom, next.box.bottom) - Math.max(box.top, next.box.top);
      must(wide <= 2 || high <= 4, element, `text covers no other text (${name(next.element)})`);
    }
  });
  return breaches;
}
