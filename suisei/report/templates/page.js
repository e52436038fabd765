"use strict";
const said = document.getElementById("said");

function valueOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent.trim().toLowerCase();
  return cell.dataset.value === "" ? null : Number(cell.dataset.value);
}

function compare(a, b) {
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}

/* Sorts by a column; rows without a value stay last, whichever way. */
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
  const first = column === 0 ? "ascending" : "descending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = heading.getAttribute("aria-sort") === first ? other : first;
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
  rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
  for (const each of heading.parentNode.cells) each.setAttribute("aria-sort", each === heading ? order : "none");
  body.append(...rows.map(([, row]) => row));
  said.textContent = `sorted by ${heading.textContent.trim()}, ${order}`;
}

for (const heading of document.querySelectorAll("table.sortable thead th"))
  heading.querySelector("button").addEventListener("click", () => sortBy(heading));

const themes = ["auto", "light", "dark"], button = document.getElementById("theme");
const described = { auto: "as the system has them", light: "light", dark: "dark" };

function stored(theme) {
  try {
    if (theme !== undefined) localStorage.setItem("suisei-theme", theme);
    return localStorage.getItem("suisei-theme");
  } catch {
    return null; /* a browser may keep nothing for a page that is a file */
  }
}

function show(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.querySelector("span").textContent = theme;
  button.setAttribute("aria-label", `Colours: ${described[theme]}`);
  button.dataset.theme = theme;
}

show(themes.includes(stored()) ? stored() : "auto");
button.addEventListener("click", () => {
  const next = themes[(themes.indexOf(button.dataset.theme) + 1) % themes.length];
  show(next);
  stored(next);
});

addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) {
    each.open = true;
    each.dataset.opened = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-opened]")) {
    each.open = false;
    delete each.dataset.opened;
  }
});
