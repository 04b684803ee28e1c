// Everything here is a convenience: each page and each form works without it.
"use strict";
(() => {
  const page = document.body.dataset;
  const policy = window.trustedTypes
    ? trustedTypes.createPolicy("skillwire", { createHTML: (html) => html })
    : { createHTML: (html) => html };
  // Pages come from this server alone, and a parsed page runs no script.
  const parse = (html) => new DOMParser().parseFromString(policy.createHTML(html), "text/html");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const announce = (text) => { const box = document.getElementById("said"); if (box) box.textContent = text; };

  // Live updates: fetch the page again and put its parts in place of ours. A search replaces a request under
  // way; a change counts as shown only once the whole page has arrived, and is fetched again until then.
  let running = null;
  let changes = 0;
  let shown = 0;
  async function refresh(url = location.href, only = null) {
    if (!only && (running || shown === changes)) return;
    if (running) running.abort();
    const control = (running = new AbortController());
    const until = changes;
    let pause = 0;
    try {
      const answer = await fetch(url, {
        signal: control.signal, credentials: "same-origin", redirect: "error", headers: { "Skillwire-Update": "1" },
      });
      if (answer.ok) swap(parse(await answer.text()), only);
      else if (answer.status >= 500) throw new Error(answer.statusText);
      if (!only) { shown = until; outOfDate(!answer.ok); }
    } catch (error) {
      if (running !== control) return;
      if (!only) { pause = 2000; outOfDate(true); }
    }
    if (running === control) running = null;
    if (!running && shown !== changes) setTimeout(refresh, pause);
  }
  function outOfDate(yes) { const told = document.getElementById("out-of-date"); if (told) told.hidden = !yes; }

  function swap(fresh, only) {
    for (const part of all("[data-live]")) {
      if (only && part.id !== only) continue;
      const next = fresh.getElementById(part.id);
      if (!next || next.outerHTML === part.outerHTML) continue;
      // What the user is deciding about is not replaced: a notice offers the new version.
      if (part.dataset.live === "ask" && part.dataset.digest !== next.dataset.digest) {
        const told = document.getElementById("changed-meanwhile");
        if (told) told.hidden = false;
        continue;
      }
      const active = document.activeElement;
      if (part.contains(active) && active.matches("select, textarea, input:not([type=checkbox])")) continue;
      const picked = new Set(all("input[type=checkbox]:checked", part).map((box) => box.value));
      const opened = part.contains(active) ? active.id : "";
      const before = new Map(all("[data-item]", part).map((item) => [item.id, versionOf(item)]));
      const current = part.querySelector(".is-current");
      const focused = part.contains(document.activeElement);
      part.replaceWith(document.adoptNode(next));
      // A box stays selected for the version that it was selected for.
      for (const box of all("input[type=checkbox]", next)) if (box.name && picked.has(box.value)) box.checked = true;
      showPicks();
      for (const item of all("[data-item]", next)) {
        const isKnown = before.has(item.id) && before.get(item.id) === versionOf(item);
        if (!isKnown && (before.size || !only)) readableFrom.set(item.id, Date.now() + 1000);
        if (readableFrom.get(item.id) > Date.now()) hold(item);
      }
      if (current) {
        const same = document.getElementById(current.id);
        // A new version was not selected: it must be selected again.
        if (same && same.dataset.digest === current.dataset.digest) choose(same, focused && !opened);
      }
      const same = opened && document.getElementById(opened);
      const item = same && same.closest("[data-item]");
      // A button keeps the focus only for the version that it would answer about.
      if (same && !(item && same.matches("button") && before.get(item.id) !== versionOf(item))) same.focus({ preventScroll: true });
    }
  }

  // Its files, and whether it could be approved here.
  const versionOf = (item) => item.dataset.digest + (item.querySelector("button.yes") ? " yes" : "");

  // A new item accepts no decision for a moment, also if the page changes again: nobody has read it yet.
  const readableFrom = new Map();
  function hold(item) {
    item.classList.add("is-fresh");
    const buttons = all("button", item);
    for (const button of buttons) button.setAttribute("aria-disabled", "true");
    const left = readableFrom.get(item.id) - Date.now();
    setTimeout(() => { for (const button of buttons) button.removeAttribute("aria-disabled"); }, left);
  }
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && button.getAttribute("aria-disabled") === "true") event.preventDefault();
  });

  // Keys: j and k move, Enter opens, a approves, d declines, / searches, ? explains.
  function choose(item, focus = true) {
    for (const other of all(".is-current")) other.classList.remove("is-current");
    item.classList.add("is-current");
    const link = item.querySelector("a");
    if (link && focus) link.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }
  function move(step) {
    const items = all("[data-item]");
    if (!items.length) return;
    const at = items.findIndex((item) => item.classList.contains("is-current"));
    choose(items[Math.min(Math.max(at + step, 0), items.length - 1)]);
  }
  function answer(name) {
    const place = document.querySelector(".is-current") || document.querySelector("[data-decide]");
    const button = place && place.querySelector(`button[data-key="${name}"]`);
    if (place && !button && name === "a") {
      const read = place.querySelector(".acts a.button");
      if (read) { read.focus(); announce("Open it before you approve it."); }
    }
    if (button && button.getAttribute("aria-disabled") !== "true") button.form.requestSubmit(button);
  }
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    a: () => answer("a"),
    d: () => answer("d"),
    "/": () => { const box = document.querySelector('input[type="search"]'); if (box) box.focus(); else location.assign(page.root + "/skills#q"); },
    "?": () => { const help = document.getElementById("keys"); if (help) help.open ? help.close() : help.showModal(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  document.addEventListener("focusin", (event) => {
    const item = event.target.closest("[data-item]");
    if (item && !item.classList.contains("is-current")) choose(item, false);
  });
  const show = document.getElementById("show-keys");
  if (show) { show.hidden = false; show.addEventListener("click", keys["?"]); }

  // Boxes of the inbox: all of a page at once.
  function showPicks() {
    const label = document.getElementById("pick-all");
    if (label) label.hidden = false;
  }
  showPicks();
  document.addEventListener("change", (event) => {
    if (event.target.id === "all") for (const box of all("input[name=pick]")) box.checked = event.target.checked;
  });

  // Search as you type.
  if (location.hash === "#q") { const box = document.getElementById("q"); if (box) box.focus(); }
  const search = document.querySelector("form[data-search]");
  if (search) {
    let timer = 0;
    const run = () => {
      const url = new URL(search.action);
      for (const [name, value] of new FormData(search)) if (value) url.searchParams.set(name, value);
      history.replaceState(null, "", url);
      refresh(url, "results").then(() => {
        const told = document.querySelector("#results [data-count]");
        if (told) announce(told.textContent);
      });
    };
    search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(run, 120); });
    search.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); run(); });
  }

  // Events of the server.
  const light = document.getElementById("live");
  function listen() {
    const stream = new EventSource(page.root + "/events?after=" + encodeURIComponent(page.revision || "0"));
    const set = (on) => {
      if (!light) return;
      light.classList.toggle("on", on);
      light.textContent = on ? "Live" : "Not connected";
    };
    stream.addEventListener("open", () => set(true));
    stream.addEventListener("error", () => set(false));
    stream.addEventListener("change", (event) => {
      page.revision = event.lastEventId;
      changes += 1;
      refresh();
    });
    addEventListener("pagehide", () => stream.close());
  }
  if (page.live) listen();
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
