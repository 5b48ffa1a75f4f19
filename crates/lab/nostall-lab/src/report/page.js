"use strict";
// Draws the pictures, and adds the theme switch and the downloads. All text is in the page
// without it.
{
  const root = document.documentElement;
  const json = (id) => JSON.parse(document.getElementById(id).textContent);
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  // A bar can be read with the pointer and with the keyboard.
  function readable(svg, selector, texts, figure) {
    const status = figure.querySelector(".value");
    svg.querySelectorAll(selector).forEach((bar, n) => {
      const text = texts[n] ?? "";
      bar.setAttribute("tabindex", "0");
      bar.setAttribute("role", "img");
      bar.setAttribute("aria-label", text);
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = text;
      bar.replaceChildren(title);
      const show = () => { status.textContent = text; };
      bar.addEventListener("focus", show);
      bar.addEventListener("pointerenter", show);
    });
  }

  // A text too long for its place ends in a mark. The text under the pointer is whole.
  const fit = (pixels) => (text) => {
    const most = Math.round(pixels / 7.2);
    return text.length > most ? `${text.slice(0, most - 1)}…` : text;
  };

  function bars(picture, place, figure) {
    const sources = [...new Set(picture.bars.map((bar) => bar.source))];
    const rows = picture.bars.map((bar) => ({
      ...bar,
      row: sources.length > 1 ? `${bar.strategy} (${bar.source})` : bar.strategy,
    }));
    const width = place.clientWidth;
    const longest = Math.max(...rows.map((row) => row.row.length));
    const values = rows.map((row) => row.value);
    const domain = [Math.min(0, ...values), Math.max(0, ...values)];
    const left = Math.min(longest * 7.2 + 12, width * 0.42);
    const marks = [
      Plot.barX(rows, {
        x: "value", y: "row", className: "bars",
        fill: (row) => (row.is_ours ? "nostall" : "other"),
      }),
      Plot.text(rows, { x: "value", y: "row", text: "text", textAnchor: "start", dx: 4 }),
      Plot.ruleX([0]),
    ];
    if (picture.limit && picture.limit.value > 0) {
      marks.push(Plot.ruleX([picture.limit.value], { stroke: "var(--text)", strokeWidth: 1.5, strokeDasharray: "4 3" }));
    }
    const svg = Plot.plot({
      width, height: rows.length * 28 + 34, marginLeft: left, marginRight: 78, marginTop: 4,
      style: { background: "transparent", color: "var(--text)", fontSize: "12px" },
      x: { label: null, domain, ticks: Math.max(2, Math.floor((width - left - 78) / 90)), tickFormat: short(rows), nice: true },
      y: { label: null, domain: rows.map((row) => row.row), tickSize: 0, tickFormat: fit(left - 12) },
      color: { domain: ["nostall", "other"], range: ["var(--accent)", "var(--slow)"] },
      marks,
    });
    place.replaceChildren(svg);
    const texts = rows.map((row) => `${row.row}: ${row.text}${row.range ? `, ${row.range}` : ""}`);
    readable(svg, "g[aria-label='bar'] rect", texts, figure);
  }

  // The unit of an axis is that of its values.
  function short(rows) {
    const unit = /^[-\d.,e]+ (ns|us|ms|s)(\/B)?$/.exec(rows[0].text);
    if (!unit) return (value) => (Math.abs(value) < 1e15 ? value.toLocaleString("en") : value.toExponential());
    return (ns) => (ns === 0 ? "0" : time(ns) + (unit[2] ?? ""));
  }

  function time(ns) {
    for (const [size, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
      if (ns >= size) return `${+(ns / size).toPrecision(3)} ${name}`;
    }
    return `${+ns.toPrecision(3)} ns`;
  }

  const COLORS = {
    "CPU is free": "var(--free)", "polls": "var(--poll)", "writes": "var(--write)",
    "bytes in the FIFO": "var(--fifo)", "prints in a task": "var(--write)",
    "prints in an interrupt handler": "var(--slow)", "prints in a panic": "var(--warn)",
    "waits for the console": "var(--fifo)",
  };

  function lanes(picture, place, figure) {
    const kinds = [...new Set(picture.lines.flatMap((line) => line.bars.map((bar) => bar.kind)))];
    const legend = element("div", "");
    legend.className = "legend";
    for (const kind of kinds) {
      const entry = element("span", "", legend);
      element("i", "", entry).style.background = COLORS[kind] ?? "var(--slow)";
      entry.append(kind);
    }
    const made = [legend];
    const marked = picture.lines.some((line) => line.marks.length);
    if (marked) element("span", "▼ a watchdog fires", legend).style.color = "var(--warn)";
    const span = Math.max(...picture.lines.map((line) => line.span_ns));
    const width = place.clientWidth;
    for (const line of picture.lines) {
      made.push(element("h4", `${line.strategy}: ${line.text}`));
      const rows = line.bars.filter((bar) => line.lanes[bar.lane] !== undefined)
        .map((bar) => ({ ...bar, name: line.lanes[bar.lane] }));
      const events = line.marks.map((mark) => ({ ...mark, name: line.lanes[mark.lane] }));
      const svg = Plot.plot({
        width, height: line.lanes.length * 26 + 26, marginLeft: 52, marginRight: 24, marginTop: 6,
        marginBottom: 20,
        style: { background: "transparent", color: "var(--text)", fontSize: "12px" },
        x: { domain: [0, span], label: null, tickFormat: time0, ticks: Math.max(2, Math.floor(width / 110)) },
        y: { axis: null, domain: [0, 1] },
        fy: { domain: line.lanes, label: null, axis: "left", padding: 0.15, tickFormat: fit(52) },
        color: { domain: kinds, range: kinds.map((kind) => COLORS[kind] ?? "var(--slow)") },
        marks: [
          Plot.rect(line.lanes, { x1: 0, x2: line.span_ns, y1: 0, y2: 1, fy: (d) => d, fill: "var(--panel)", ariaLabel: "lane" }),
          Plot.rect(rows, {
            x1: "from_ns", x2: "until_ns", y1: "base",
            y2: (row) => Math.min(1, row.base + Math.max(row.share, 0.06)),
            fy: "name", fill: "kind", ariaLabel: "held",
          }),
          Plot.dot(events, { x: "at_ns", y: 1, fy: "name", symbol: "triangle", rotate: 180, r: 4, fill: "var(--warn)", title: "text" }),
        ],
      });
      made.push(svg);
      // In the order in which the library draws: lane after lane.
      const drawn = line.lanes.flatMap((name) => rows.filter((row) => row.name === name));
      const texts = drawn.map((row) =>
        `${line.strategy}, ${row.name}: ${row.kind}, ${time0(row.from_ns)} to ${time0(row.until_ns)}` +
        (row.share < 1 ? `, ${(row.share * 100).toFixed(row.share < 0.1 ? 1 : 0)} %` : ""));
      readable(svg, "g[aria-label='held'] rect, rect[aria-label='held']", texts, figure);
    }
    place.replaceChildren(...made);
  }

  function time0(ns) { return ns === 0 ? "0" : time(ns); }

  const pictures = json("pictures");
  const places = [...document.querySelectorAll("[data-picture]")];
  function draw(place) {
    const picture = pictures[Number(place.dataset.picture)];
    const figure = place.closest("figure");
    (picture.kind === "bars" ? bars : lanes)(picture, place, figure);
    place.dataset.width = place.clientWidth;
  }
  places.forEach(draw);
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.clientWidth > 0 && String(target.clientWidth) !== target.dataset.width) draw(target);
    }
  });
  places.forEach((place) => observer.observe(place));

  for (const link of document.querySelectorAll("[data-download]")) {
    const holder = document.getElementById(`document-${link.dataset.download}`);
    const blob = new Blob([holder.textContent], { type: "application/json" });
    const name = holder.dataset.name.split(/[\\/]/).pop();
    link.href = URL.createObjectURL(blob);
    link.download = /\.json$/.test(name) ? name : "nostall.json";
    link.hidden = false;
  }

  const themes = ["", "light", "dark"];
  const names = ["as the system", "light", "dark"];
  const button = document.getElementById("theme");
  let theme = 0;
  const remember = (action) => { try { return action(); } catch { return null; } };
  function show() {
    if (themes[theme]) root.dataset.theme = themes[theme];
    else delete root.dataset.theme;
    button.textContent = `Theme: ${names[theme]}`;
  }
  theme = Math.max(0, themes.indexOf(remember(() => localStorage.getItem("nostall-theme")) ?? ""));
  button.addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    remember(() => localStorage.setItem("nostall-theme", themes[theme]));
    show();
  });
  button.hidden = false;
  show();
}
