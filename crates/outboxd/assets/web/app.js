// What a page can do more with JavaScript: live figures, charts, keys, copying, relative times. Everything else works without.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  const one = (selector, from = document) => from.querySelector(selector);

  // Times: how long ago, with the exact one as a hint.
  const STEPS = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "d"]];

  function ago(then, now) {
    const seconds = Math.round((now - then) / 1000);
    const [, unit, word] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
    const count = Math.floor(Math.abs(seconds) / unit);
    if (count === 0) return "just now";
    return seconds > 0 ? `${count} ${word} ago` : `in ${count} ${word}`;
  }

  function tellTimes() {
    const now = Date.now();
    for (const time of all("time[datetime]")) {
      if (time.closest("[data-exact-times]")) continue;
      const then = Date.parse(time.dateTime);
      if (!Number.isNaN(then)) time.textContent = ago(then, now);
    }
  }

  // Copying.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const place = one("pre", button.parentElement);
    // A page over plain HTTP has no clipboard, and a browser may refuse it.
    const select = () => {
      getSelection().selectAllChildren(place);
      button.textContent = "Selected: copy it";
    };
    if (!navigator.clipboard) return select();
    navigator.clipboard.writeText(place.textContent.trim()).then(() => { button.textContent = "Copied"; }, select);
  });

  // Charts of the last hour.
  const HOUR = 3600;
  let charts = [];
  let columns = null;

  const SHOWN = {
    rate: (value) => `${round(value)} /s`,
    errors: (value) => `${round(value)} /s`,
    lag: (value) => (value < 120 ? `${round(value)} s` : `${round(value / 60)} min`),
  };

  function round(value) {
    return value >= 100 ? Math.round(value).toLocaleString("en") : (Math.round(value * 10) / 10).toString();
  }

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(name).trim();
  }

  function clock(seconds) {
    return new Date(seconds * 1000).toISOString().slice(11, 16);
  }

  // From the first point to the last, and at least some minutes.
  function span() {
    const last = columns.at[columns.at.length - 1] || Date.now() / 1000;
    return [Math.min(columns.at[0] || last, last - HOUR / 12), last];
  }

  function draw() {
    for (const { plot } of charts) plot.destroy();
    charts = [];
    for (const place of all("[data-chart]")) {
      const name = place.dataset.chart;
      const line = colour(`--chart-${name}`);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const options = {
        width: place.clientWidth,
        height: 132,
        legend: { show: false },
        cursor: { y: false, points: { size: 5 } },
        scales: { x: { time: true, range: span }, y: { range: (_, least, most) => [0, most > 0 ? most * 1.15 : 1] } },
        axes: [
          { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map(clock) },
          { ...axis, size: 42, space: 32, values: (_, ticks) => ticks.map((tick) => round(tick)) },
        ],
        series: [{}, { stroke: line, width: 1.5, fill: `${line}22`, points: { show: false } }],
      };
      const plot = new uPlot(options, [columns.at, columns[name]], place);
      charts.push({ name, plot, place });
      tellLast(name);
    }
  }

  function tellLast(name) {
    const figure = one(`[data-last="${name}"]`);
    const values = columns[name];
    if (figure) figure.textContent = values.length ? SHOWN[name](values[values.length - 1]) : "–";
  }

  function addPoint(point) {
    if (!columns || (columns.at.length && columns.at[columns.at.length - 1] >= point.at)) return;
    for (const name of ["at", "rate", "errors", "lag"]) {
      columns[name].push(point[name]);
      if (columns[name].length > HOUR / 5) columns[name].shift();
    }
    for (const { name, plot } of charts) {
      plot.setData([columns.at, columns[name]]);
      tellLast(name);
    }
  }

  async function startCharts() {
    if (!one("[data-chart]") || typeof uPlot === "undefined") return;
    const answer = await fetch("/charts.json");
    if (!answer.ok) return;
    columns = await answer.json();
    draw();
    new ResizeObserver(() => {
      for (const { plot, place } of charts) plot.setSize({ width: place.clientWidth, height: 132 });
    }).observe(one(".charts"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  // Live: told at every sample, as long as somebody can see the page.
  const AGAIN = 5000;
  let events = null;
  let lostAt = null;
  let again = null;
  let wanted = sessionStorage.getItem("live") !== "off";

  function showLive() {
    const dot = one(".live-dot");
    if (!dot) return;
    const isLive = events !== null && lostAt === null;
    dot.classList.toggle("on", isLive);
    const button = one("[data-live]");
    const lost = lostAt && `not live since ${lostAt.toISOString().slice(11, 19)} UTC`;
    button.title = !events ? "held; press to go on" : lost ? `${lost}; press to hold` : "live; press to hold";
    button.setAttribute("aria-pressed", String(events !== null));
    const words = one("[data-lost]");
    words.textContent = (events && lost) || "";
    words.hidden = words.textContent === "";
  }

  // What is shown grows old: that is said, and a stream which the browser has given up is opened again.
  function lose(stream) {
    if (stream !== events) return;
    lostAt = lostAt || new Date();
    if (stream.readyState === EventSource.CLOSED && again === null) {
      again = setTimeout(() => {
        again = null;
        if (stream !== events) return;
        events = null;
        listen();
      }, AGAIN);
    }
    showLive();
  }

  function regain(stream) {
    if (stream !== events || lostAt === null) return;
    lostAt = null;
    showLive();
  }

  // Whoever types, or has typed something, must not lose it.
  function isBusy() {
    const isTyped = (field) => field.value !== field.defaultValue;
    return one("#live :focus") !== null || all("#live input, #live textarea").some(isTyped);
  }

  function listen() {
    const should = wanted && !document.hidden && one("[data-live]") !== null;
    if (should && !events) {
      const stream = new EventSource("/events");
      events = stream;
      stream.addEventListener("open", () => regain(stream));
      stream.addEventListener("error", () => lose(stream));
      stream.addEventListener("tick", (event) => {
        regain(stream);
        const tick = JSON.parse(event.data);
        if (tick.point) addPoint(tick.point);
        if (!isBusy()) document.body.dispatchEvent(new Event("tick"));
      });
    } else if (!should && events) {
      events.close();
      events = null;
      lostAt = null;
    }
    showLive();
  }

  // Keys.
  let gone = 0;

  function isTyping(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const after = Date.now() - gone < 1500;
    gone = 0;
    if (after) {
      const place = one(`.places a[data-key="${CSS.escape(event.key)}"]`);
      if (place) place.click();
      return;
    }
    if (event.key === "g") gone = Date.now();
    else if (event.key === "r") location.reload();
    else if (event.key === "?") one("#keys").showModal();
    else if (event.key === "/") {
      const filter = one("[data-filter]");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
      filter.select();
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    tellTimes();
    setInterval(tellTimes, 10000);
    document.body.addEventListener("htmx:afterSwap", tellTimes);
    document.body.addEventListener("htmx:afterSettle", tellTimes);
    // Who is not known any more is shown where to sign in, and not an empty page.
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      const isPage = event.detail.serverResponse.includes('id="live"');
      if (isPage && !isBusy()) return;
      event.detail.shouldSwap = false;
      if (!isPage) location.reload();
    });
    const button = one("[data-live]");
    if (button) {
      button.addEventListener("click", () => {
        wanted = !wanted;
        sessionStorage.setItem("live", wanted ? "on" : "off");
        listen();
      });
    }
    const map = one("[data-map]");
    if (map) map.addEventListener("click", () => one("#keys").showModal());
    document.addEventListener("visibilitychange", listen);
    window.addEventListener("pagehide", () => { if (events) { events.close(); events = null; } });
    window.addEventListener("pageshow", listen);
    listen();
    startCharts();
  });
})();
