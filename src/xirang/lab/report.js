// Draws the plots in the colours of the page's theme, again whenever the theme changes.
(function () {
  "use strict";
  const root = document.documentElement;
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

  function themed(layout) {
    const style = getComputedStyle(document.body);
    const color = (name) => style.getPropertyValue(name).trim();
    const narrow = window.innerWidth <= 600;
    const result = Object.assign({}, layout, {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      colorway: color("--series").split(" "),
      font: { family: style.fontFamily, color: color("--ink"), size: 13 },
      margin: narrow ? { l: 52, r: 8, t: 12, b: 48 } : { l: 64, r: 16, t: 12, b: 52 },
      legend: Object.assign({ orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, layout.legend),
      hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") } },
    });
    if (root.dataset.only) delete result.height;
    for (const shape of result.shapes || []) shape.line = Object.assign({ color: color("--quiet") }, shape.line);
    const lines = { gridcolor: color("--line"), linecolor: color("--line"), zerolinecolor: color("--line") };
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout)])) {
      if (/^[xy]axis\d*$/.test(name)) {
        result[name] = Object.assign({ automargin: true }, layout[name], lines);
      }
    }
    return result;
  }

  function draw() {
    for (const source of document.querySelectorAll("script[data-plot]")) {
      const figure = JSON.parse(source.textContent);
      const height = figure.layout && figure.layout.height;
      if (height && !root.dataset.only) document.getElementById(source.dataset.plot).style.height = `${height}px`;
      Plotly.react(source.dataset.plot, figure.data, themed(figure.layout || {}), {
        responsive: true,
        displaylogo: false,
        displayModeBar: false,
      });
    }
  }

  document.getElementById("theme").addEventListener("click", function () {
    const chosen = root.dataset.theme || (systemDark.matches ? "dark" : "light");
    root.dataset.theme = chosen === "dark" ? "light" : "dark";
    draw();
  });
  systemDark.addEventListener("change", draw);

  // Opened as REPORT.html#figure-2,dark,480 the page is that plot, 480 high, for a picture of it.
  const asked = /^#(figure-\d+),(light|dark),(\d+)$/.exec(window.location.hash);
  if (asked) {
    root.dataset.theme = asked[2];
    root.dataset.only = asked[1];
    const plot = document.getElementById(asked[1]);
    plot.closest("section").dataset.only = "";
    plot.style.height = `${asked[3]}px`;
  }
  draw();
})();
