"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const charts = [];

  // All digits that matter: what is shown can be compared with the trace.
  const show = (value) => (value == null ? "–" : String(Number(value.toPrecision(10))));

  const wholeSteps = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((n) => [1, 2, 5].map((k) => k * 10 ** n));

  // An axis has room for short numbers.
  const short = (value) => {
    if (value == null) return "";
    const text = String(Number(value.toPrecision(6)));
    return text.length > 7 ? value.toExponential(0) : text;
  };

  // Runs know values at places of their own; in between, and after its end, a value holds.
  const holding = (plot, series, place) => {
    while (place > 0 && plot.data[series][place] === undefined) place -= 1;
    return place;
  };

  function build(chart) {
    const spec = chart.spec;
    const [xName, xTitle] = spec.xs[chart.x];
    const positive = (value) => (chart.log && !(value > 0) ? null : value);
    const tables = spec.lines.map((line) => {
      const columns = page.tables[line.table];
      return [columns[xName], columns[line.y].map(positive)];
    });
    const data = uPlot.join(tables);
    const axis = (label) => ({
      label,
      labelSize: 22,
      stroke: color("--soft"),
      grid: { stroke: color("--line"), width: 1 },
      ticks: { stroke: color("--line"), width: 1 },
    });
    const whole = page.tables.every((columns) => (columns[xName] || []).every(Number.isInteger));
    // Of a logarithmic scale only powers of ten have a line.
    const lined = (plot, values) =>
      chart.log ? values.map((v) => (Math.abs(Math.log10(v) % 1) < 1e-9 ? v : null)) : values;
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = spec.lines.map((line) => ({
      label: line.label,
      stroke: color(`--line-${line.color}`),
      width: 2,
      dash: line.dashed ? [6, 3] : undefined,
      paths: spec.steps ? stepped : undefined,
      spanGaps: true,
      points: { show: !spec.steps && page.tables[line.table][xName].length < 40, size: 7 },
      value: (plot, value) => show(value),
    }));
    const range = spec.range;
    const fixed = range && (!chart.log || range[0] > 0);
    const options = {
      width: Math.max(chart.place.clientWidth, 200),
      height: 320,
      // A zoom across changes what is shown upwards only where no range is given.
      scales: {
        x: { time: false },
        y: { distr: chart.log ? 3 : 1, range: fixed ? () => range : undefined },
      },
      cursor: { dataIdx: holding },
      axes: [
        { ...axis(xTitle), ...(whole ? { incrs: wholeSteps } : {}) },
        {
          ...axis(spec.title),
          size: 70,
          grid: { stroke: color("--line"), width: 1, filter: lined },
          values: (plot, ticks) => ticks.map(short),
        },
      ],
      series: [{ label: xTitle, value: (plot, value) => show(value) }, ...series],
    };
    if (chart.plot) chart.plot.destroy();
    chart.plot = new uPlot(options, data, chart.place);
  }

  function button(parent, text, pressed, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (pressed !== null) made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", () => act(made));
    parent.append(made);
    return made;
  }

  for (const spec of page.charts) {
    const figure = document.getElementById(spec.id);
    const chart = { spec, x: 0, log: spec.log, place: document.createElement("div"), plot: null };
    const tools = document.createElement("div");
    tools.className = "tools";
    if (spec.xs.length > 1) {
      const choices = spec.xs.map(([, title], place) =>
        button(tools, title, place === 0, () => {
          chart.x = place;
          choices.forEach((each, other) => each.setAttribute("aria-pressed", other === place));
          build(chart);
        }),
      );
    }
    if (spec.loggable) {
      button(tools, "log scale", chart.log, (made) => {
        chart.log = !chart.log;
        made.setAttribute("aria-pressed", chart.log);
        build(chart);
      });
    }
    button(tools, "whole picture", null, () => build(chart));
    figure.querySelector(".chart-static").hidden = true;
    figure.append(tools, chart.place);
    build(chart);
    charts.push(chart);
  }

  const repaint = () => charts.forEach(build);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", repaint);
  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    repaint();
  });

  // A new width, of a window that is turned or resized.
  let width = root.clientWidth;
  addEventListener("resize", () => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    for (const chart of charts) chart.plot.setSize({ width: chart.place.clientWidth, height: 320 });
  });
  addEventListener("beforeprint", () => {
    for (const chart of charts) chart.plot.setSize({ width: chart.place.clientWidth, height: 320 });
  });
})();
