// The search of the site, in place of Sphinx's: it ranks sections, shows them while one types, and works from a file.
// `/` or Ctrl-K opens it. bin/docs writes the sections into sections.js, which is read when the search is first opened.
"use strict";

const WEAK = new Set("a an and are at be by do does for from how i in is it its my of on or that the there this to was what when why with".split(" "));
// Words that people type, and the words of the pages for the same. A hit of these counts for less.
const ALSO = `
  backoff: retry  broken: fail  cron: periodic  crash: die vanish kill poison  dashboard: page  delayed: later schedule
  delete: clear stop  die: vanish dead kill  dlq: dead set  duplicate: twice unique  execute: run  fan: batch  fanout: batch
  fifo: order push  freeze: stuck stall  frozen: stuck  gil: core cpu  graceful: drain stop term  hang: stall stuck end
  healthcheck: health  helm: kubernetes  k8s: kubernetes  kill: cancel end vanish  leak: grow  letter: dead set
  liveness: health live  many: grow  much: grow  multiple: several  oom: full memory  parallel: concurrency thread
  permission: access right acl  pick: take  pod: kubernetes  probe: ready live health  process: run  purge: clear delete
  quit: end stop  readiness: ready health  remote: address host  right: access rule acl  segfault: vanish crash
  sequential: sequence order  serial: sequence order  shutdown: drain end stop term  sigkill: kill vanish
  sigterm: term drain  slow: late  start: run  stay: wait  stop: end  stuck: wait stall  task: job  terminate: end stop term
  throttle: limit rate  throttling: limit rate  timeout: limit  ui: page web  unprocessed: wait  worker: process
  workflow: chain batch
`;
// How much a hit in a page counts: the first that fits. Most of these pages name nearly everything, and are seldom the answer.
const WEIGHTS = [
  [/^troubleshooting/, 1.5], // its headings are what people see
  [/^coming-from-(?!sidekiq)/, 0.7], // about other systems
  [/^(api-brokers|benchmarks|changelog|comparison|contributing|history|index|internals\/)/, 0.3],
  [/^(api|commands|http-paths)/, 0.5], // their headings are names, which are found all the same
];
const MOST = 30;
let sections = null; // each: {page, title, heading, text, weight, words: Map of a word to its count, length}
let known = new Map(); // in how many sections a word is

const wordsOf = (text) => (text.toLowerCase().replace(/n['’]t\b/g, " not").match(/[a-z0-9_]+/g) || []).map(stem);

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
      sections = window.docsSections.map(([page, title, heading, text]) => {
        const [, weight] = WEIGHTS.find(([pages]) => pages.test(page)) || [null, 1];
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

const also = new Map(ALSO.split(/\s{2,}|\n/).filter((line) => line.includes(":")).map((line) => {
  const [typed, words] = line.split(": ");
  return [stem(typed.trim()), wordsOf(words)];
}));

function search(query) {
  const words = wordsOf(query);
  const telling = words.filter((word) => word !== "python"); // all is Python here
  const asked = telling.length ? telling : words;
  const strong = asked.filter((word) => !WEAK.has(word) && word !== "not");
  const terms = [...new Set(strong.length ? strong : asked)];
  const last = /[a-z0-9_]$/i.test(query) ? asked[asked.length - 1] : ""; // it may be the beginning of a word
  const meant = terms.map((term) => {
    const found = known.has(term) ? [[term, 1]] : [];
    if (term === last) found.push(...[...known.keys()].filter((word) => word !== term && word.startsWith(term)).map((word) => [word, 0.6]));
    found.push(...(also.get(term) || []).filter((word) => known.has(word)).map((word) => [word, 0.6]));
    return found.map(([word, share]) => ({ word, rare: Math.log(1 + sections.length / known.get(word)) * share }));
  });
  const weights = meant.map((words) => Math.max(0, ...words.map(({ rare }) => rare)));
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const wanted = new Set([...asked, ...terms.flatMap((term) => also.get(term) || [])]);
  const ranked = [];
  for (const section of sections) {
    let score = 0;
    let covered = 0; // of the question, by the words that tell much
    for (const words of meant) {
      let best = 0;
      let rarest = 0;
      for (const { word, rare } of words) {
        const count = section.words.get(word) || 0;
        const inText = count && (2.2 * count) / (count + 1.2 * (0.3 + section.length / 150));
        const value = rare * (inText + (section.headings.has(word) ? 2.5 : 0) + (section.titles.has(word) ? 2 : 0));
        best = Math.max(best, value);
        if (value) rarest = Math.max(rarest, rare);
      }
      score += best;
      covered += rarest;
    }
    if (!covered) continue;
    const both = [...section.headings].filter((word) => wanted.has(word)).length;
    const alike = both / Math.max(1, section.headings.size + asked.length - both); // of the heading and the question
    ranked.push([score * (covered / whole) ** 2 * (1 + 2 * alike) * section.weight, section]);
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
