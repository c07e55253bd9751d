// The search of the site, in place of Sphinx's: it ranks sections, shows them while one types, and works from a file.
// `/` or Ctrl-K opens it. bin/docs writes the sections into sections.js, which is read when the search is first opened.
"use strict";

const WEAK = new Set("a an and are at be by do does for from how i in is it its my of on or that the there this to was what when why with".split(" "));
const MOST = 30;
let sections = null; // each: {page, title, heading, text, words: Map of a word to its count, length}
let known = new Map(); // in how many sections a word is

const wordsOf = (text) => (text.toLowerCase().match(/[a-z0-9_]+/g) || []).map(stem);

// "retries", "retry" and "retried" are one word; so are "runs", "run" and "running".
function stem(word) {
  if (word.length < 4 || word.includes("_")) return word;
  return word
    .replace(/(ies|ied)$/, "y")
    .replace(/([^aeiou])\1(ing|ed)$/, "$1")
    .replace(/(ing|ed|es|s|e)$/, (end) => (end === "s" && word.endsWith("ss") ? "s" : ""));
}

function read() {
  if (sections) return Promise.resolve();
  return new Promise((done) => {
    const script = document.createElement("script");
    script.src = root() + "_static/sections.js";
    script.onload = () => {
      sections = window.docsSections.map(([page, title, heading, weight, text]) => {
        const words = new Map();
        const all = wordsOf(text);
        for (const word of all) words.set(word, (words.get(word) || 0) + 1);
        const headings = new Set(wordsOf(heading));
        const titles = new Set(wordsOf(title));
        for (const word of new Set([...words.keys(), ...headings, ...titles])) known.set(word, (known.get(word) || 0) + 1);
        return { page, title, heading, weight, text, words, headings, titles, length: all.length };
      });
      done();
    };
    document.head.append(script);
  });
}

const root = () => document.documentElement.dataset.content_root || "./";

function search(query) {
  const asked = wordsOf(query);
  const strong = asked.filter((word) => !WEAK.has(word) && word !== "not");
  const terms = [...new Set(strong.length ? strong : asked)];
  const last = /[a-z0-9_]$/i.test(query) ? asked[asked.length - 1] : ""; // it may be the beginning of a word
  const meant = terms.map((term) => {
    const found = known.has(term) ? [term] : [];
    if (term === last) found.push(...[...known.keys()].filter((word) => word !== term && word.startsWith(term)));
    return found.map((word) => ({ word, rare: Math.log(1 + sections.length / known.get(word)) * (word === term ? 1 : 0.6) }));
  });
  const wanted = new Set(asked);
  const ranked = [];
  for (const section of sections) {
    let score = 0;
    let hits = 0;
    for (const words of meant) {
      let best = 0;
      for (const { word, rare } of words) {
        const count = section.words.get(word) || 0;
        const inText = count && (2.2 * count) / (count + 1.2 * (0.3 + section.length / 150));
        const value = rare * (inText + (section.headings.has(word) ? 3 : 0) + (section.titles.has(word) ? 2 : 0));
        best = Math.max(best, value);
      }
      score += best;
      hits += best > 0;
    }
    if (!hits) continue;
    const both = [...section.headings].filter((word) => wanted.has(word)).length;
    const alike = both / (section.headings.size + wanted.size - both); // of the heading and the question
    ranked.push([score * (hits / meant.length) ** 2 * (1 + 2 * alike) * section.weight, section]);
  }
  return ranked.sort((one, other) => other[0] - one[0]).slice(0, MOST).map(([, section]) => section);
}

function excerpt(section, query) {
  const wanted = new Set(wordsOf(query).filter((word) => !WEAK.has(word)));
  const pieces = section.text.split(/([A-Za-z0-9_]+)/);
  const first = Math.max(0, pieces.findIndex((piece, at) => at % 2 && wanted.has(stem(piece.toLowerCase()))) - 24);
  const shown = document.createElement("p");
  if (first) shown.append("… ");
  for (const piece of pieces.slice(first, first + 70)) {
    if (wanted.has(stem(piece.toLowerCase()))) shown.append(Object.assign(document.createElement("mark"), { textContent: piece }));
    else shown.append(piece);
  }
  return shown;
}

function build() {
  const dialog = document.createElement("dialog");
  dialog.className = "docs-search";
  dialog.innerHTML = '<input type="search" aria-label="Search" placeholder="Search: words, an option, an error" autocomplete="off"><ol></ol>';
  const [input, list] = dialog.children;

  function show() {
    list.replaceChildren();
    if (!sections || !input.value.trim()) return;
    const found = search(input.value);
    for (const section of found) {
      const link = document.createElement("a");
      link.href = root() + section.page;
      link.append(Object.assign(document.createElement("strong"), { textContent: section.heading }));
      if (section.heading !== section.title) link.append(Object.assign(document.createElement("small"), { textContent: section.title }));
      link.append(excerpt(section, input.value));
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    if (!found.length) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing was found." }));
  }

  function open(text) {
    input.value = text;
    dialog.showModal();
    read().then(show);
  }

  input.addEventListener("input", show);
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "Enter" && at < 0 && links.length) links[0].click();
    else if (event.key === "ArrowDown") (links[at + 1] || input).focus();
    else if (event.key === "ArrowUp") (at < 0 ? links[links.length - 1] || input : links[at - 1] || input).focus();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => (event.target === dialog || event.target.closest("a")) && dialog.close());
  document.addEventListener("keydown", (event) => {
    const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (dialog.open || !((event.key === "/" && !writes) || (event.key === "k" && (event.ctrlKey || event.metaKey)))) return;
    event.preventDefault();
    open("");
  });
  for (const field of document.querySelectorAll(".sidebar-search")) {
    field.addEventListener("focus", () => {
      field.blur();
      open(field.value);
    });
  }
  document.body.append(dialog);
  const asked = new URLSearchParams(location.search).get("q");
  if (asked && location.pathname.endsWith("/search.html")) open(asked); // a link to Sphinx's own page of results
}

document.addEventListener("DOMContentLoaded", build);
