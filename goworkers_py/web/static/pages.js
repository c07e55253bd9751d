// What the pages do beyond links and forms: all of them work without this file too.
(() => {
  "use strict";
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const typing = () => document.activeElement?.matches("input, textarea, select, [contenteditable]");

  // --- theme
  const theme = one("#theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const dark = document.documentElement.dataset.theme
        ? document.documentElement.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("pyworkers-theme", dark ? "light" : "dark"); } catch {}
    });
  }

  // --- the menu is open where there is room
  const menu = one("#menu"), wide = matchMedia("(min-width: 900px)");
  const unfold = () => { if (menu) menu.open = wide.matches; };
  wide.addEventListener("change", unfold);
  unfold();

  // --- live pages: not while the tab is hidden, something is selected or unfolded, or a field is in use
  document.addEventListener("htmx:before:request", event => {
    const live = event.target;
    if (live.id !== "live") return;
    const busy = document.hidden || one("#live input:checked, #live details[open], dialog[open]")
      || (typing() && live.contains(document.activeElement)) || String(getSelection()).length > 0;
    if (busy) event.preventDefault();
  });

  // --- tables of jobs: select all, how many are selected
  document.addEventListener("change", event => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    const form = box.form;
    if (!form) return;
    if (box.dataset.all !== undefined) all("input[data-job]", form).forEach(each => { each.checked = box.checked; });
    const count = all("input[data-job]:checked", form).length;
    all("[data-selected]", form).forEach(each => { each.textContent = count ? `${count} selected` : "Select jobs, or:"; });
    const every = one("input[data-all]", form);
    if (every && box !== every) every.checked = count > 0 && count === all("input[data-job]", form).length;
  });

  // --- a change of many jobs goes on by itself
  const goOn = one("form[data-go-on]");
  if (goOn) setTimeout(() => goOn.requestSubmit(), 30);

  // --- the keyboard
  const palette = one("#palette"), menuLinks = () => all("#menu nav a");
  const pages = { o: "Overview", q: "Queues", j: "Jobs", f: "Failures", m: "Metrics", p: "Processes", e: "Periodic", b: "Batches", l: "Limits" };
  let waiting = false;
  const go = name => menuLinks().find(link => link.textContent.trim() === name)?.click();

  const rows = () => all("#content tbody tr").filter(row => one("a, input", row));
  const step = by => {
    const found = rows(), at = found.findIndex(row => row.contains(document.activeElement));
    const next = found[Math.max(0, Math.min(found.length - 1, at + by))];
    if (next) one("a", next)?.focus();
  };

  let options = [];
  const openPalette = () => {
    if (!palette || palette.open) return;
    palette.replaceChildren();
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Jump to a page, queue, class or jid";
    field.setAttribute("aria-label", field.placeholder);
    field.setAttribute("role", "combobox");
    field.setAttribute("aria-expanded", "true");
    field.setAttribute("aria-controls", "palette-list");
    const list = document.createElement("ul");
    list.id = "palette-list";
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Places to go");
    const hint = document.createElement("p");
    hint.className = "muted";
    hint.textContent = "Keys: / jump · g then o q j f m p: pages · j k: rows · x: select · ? this";
    palette.append(field, list, hint);
    let asked = 0;
    const choose = index => {
      all("li", list).forEach((item, at) => item.setAttribute("aria-selected", at === index));
      list.dataset.at = index;
      const item = all("li", list)[index];
      if (item) { field.setAttribute("aria-activedescendant", item.id); item.scrollIntoView({ block: "nearest" }); }
    };
    const show = found => {
      options = found;
      list.replaceChildren(...found.map((option, at) => {
        const item = document.createElement("li"), link = document.createElement("a"), kind = document.createElement("span");
        item.id = `palette-${at}`;
        item.setAttribute("role", "option");
        link.href = option.to;
        link.tabIndex = -1;
        link.textContent = option.name;
        kind.textContent = option.kind;
        kind.className = "muted";
        item.append(link, kind);
        return item;
      }));
      choose(0);
    };
    const search = async () => {
      const text = field.value.trim(), mine = ++asked;
      const links = menuLinks().map(link => ({ name: link.textContent.trim(), kind: "page", to: link.href }))
        .filter(option => option.name.toLowerCase().includes(text.toLowerCase()));
      show(links);
      const form = one("form.jump");
      if (!text || !form) return;
      const url = new URL(form.action);
      url.pathname = url.pathname.replace(/\/find$/, "/api/find");
      url.searchParams.set("q", text);
      try {
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        const told = await answer.json();
        if (mine === asked) show([...links, ...(told.found ?? [])]);
      } catch {} // no answer: the pages are still there
    };
    field.addEventListener("input", search);
    field.addEventListener("keydown", event => {
      const at = Number(list.dataset.at ?? 0);
      if (event.key === "ArrowDown") choose(Math.min(options.length - 1, at + 1));
      else if (event.key === "ArrowUp") choose(Math.max(0, at - 1));
      else if (event.key === "Enter" && options[at]) location.assign(options[at].to);
      else return;
      event.preventDefault();
    });
    palette.showModal();
    search();
    field.focus();
  };

  document.addEventListener("keydown", event => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing()) return;
    const key = event.key;
    if (waiting && pages[key]) { waiting = false; go(pages[key]); return; }
    waiting = key === "g";
    if (waiting) { setTimeout(() => { waiting = false; }, 1500); return; }
    if (key === "/" || key === "?") { event.preventDefault(); openPalette(); }
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "x") one("input[data-job]", document.activeElement?.closest("tr") ?? document.createElement("i"))?.click();
  });
})();
