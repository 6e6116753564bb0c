// Charts of lines, by uPlot: in the finished report, and in pages whose data change while one looks.

const kChartHeight = 240;
const kDashes = [[], [9, 3], [4, 3], [10, 3, 2, 3], [1.5, 3], [14, 4], [7, 2, 1, 2, 1, 2], [2, 5]];
const kWidths = {thin: 1.4, best: 3.4};
const kMarkSize = 5;
const style_value = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const series_color = style => style_value(`--s${style % 8}`);
const has_look = (one, word) => (one.look ?? '').split(' ').includes(word);
const all_charts = new Set();

// Of these series, whose points lie at x of their own, the table that uPlot draws.
function joined(series) {
  const tables = series.map(one => [one.points.map(point => point[0]), one.points.map(point => point[1])]);
  return tables.length ? uPlot.join(tables) : [[]];
}

// What several curves are on average as far as all of them go, and a band of a standard error on both sides.
function mean_curve(curves) {
  if (curves.length === 1) return {points: curves[0]};
  if (curves.some(points => points.length === 0)) return {points: []};
  const from = Math.max(...curves.map(points => points[0][0]));
  const to = Math.min(...curves.map(points => points[points.length - 1][0]));
  const places = [...new Set(curves.flat().map(point => point[0]))].filter(x => x >= from && x <= to).sort((a, b) => a - b);
  const spread = places.map(x => {
    const values = curves.map(points => value_at(points, x));
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    return [x, mean, Math.sqrt(variance / values.length)];
  });
  return {points: spread.map(([x, mean]) => [x, mean]), band: spread.map(([x, mean, error]) => [x, mean - error, mean + error])};
}

// Between the points of a curve it is straight. Requires: x is not beyond its ends.
function value_at(points, x) {
  const after = first_index(points, point => point[0] >= x);
  const [right, high] = points[after];
  if (after === 0 || right === x) return high;
  const [left, low] = points[after - 1];
  return low + (high - low) * (x - left) / (right - left);
}

// A line, and below it the edges of its band, if it has one.
const with_edges = one => one.band ? [one, ...[2, 1].map(edge => ({...one, band: null, edge: true, points: one.band.map(point => [point[0], point[edge]])}))] : [one];

function series_options(one) {
  if (one.edge) return {stroke: 'transparent', width: 0, spanGaps: true, points: {show: false}};
  const color = series_color(one.style);
  return {label: one.name, stroke: color, alpha: has_look(one, 'faint') ? 0.7 : 1, spanGaps: true,
    width: kWidths[Object.keys(kWidths).find(word => has_look(one, word))] ?? 2,
    dash: has_look(one, 'solid') ? [] : kDashes[dash_of(one.style)],
    paths: one.step ? uPlot.paths.stepped({align: 1}) : undefined,
    points: {show: one.points.length === 1, size: 6, fill: color}};  // a line of one point cannot be seen
}

function uplot_options(now, width) {
  const axis = {stroke: style_value('--soft'), grid: {stroke: style_value('--grid'), width: 1}, ticks: {show: false},
    font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif', labelSize: 18};
  const y_format = (value, exact, step) => known(value) ? now.y.format(value, exact, now.log ? 0.01 : step) : '';
  return {
    width, height: kChartHeight, legend: {show: false}, cursor: {y: false, points: {size: 7}, drag: {x: false, y: false}},
    scales: {x: {time: false, range: (_, low, high) => x_range(now, low, high)},
      y: {distr: now.log ? 3 : 1, range: now.log ? undefined : (_, low, high) => y_range(now, low, high)}},
    axes: [{...axis, label: now.x.label, size: 30, values: (_, list) => tick_labels(list, now.x.format)},
      {...axis, size: 58, values: (_, list) => tick_labels(list, y_format)}],
    series: [{}, ...now.drawn.map(series_options)],
    bands: now.drawn.flatMap((one, i) => one.band ? [{series: [i + 2, i + 3], fill: `${series_color(one.style)}30`}] : []),
    hooks: {setCursor: [plot => tell_cursor(plot, now)], drawAxes: [plot => draw_rules(plot, now)], draw: [plot => draw_marks(plot, now)]},
  };
}

function x_range(now, low, high) {
  const from = now.x.low ?? low ?? 0;
  return [from, known(high) && high > from ? high : from + 1];
}

function y_range(now, low, high) {
  if (!known(low)) return [0, 1];
  const rules = now.rules.map(rule => rule.y);
  const ends = [Math.min(low, ...rules), Math.max(high, ...rules)];
  const spare = (ends[1] - ends[0] || Math.abs(ends[1]) || 1) * 0.07;
  return [now.y.from_zero ? Math.min(0, ends[0]) : ends[0] - spare, Math.min(now.y.most ?? Infinity, ends[1] + spare)];
}

function draw_rules(plot, now) {
  const {ctx, bbox} = plot;
  for (const rule of now.rules) {
    const y = plot.valToPos(rule.y, 'y', true);
    if (y < bbox.top || y > bbox.top + bbox.height) continue;  // a logarithmic axis may end before it
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = style_value('--soft');
    ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = 'right';
    ctx.fillText(rule.text, bbox.left + bbox.width, y + (rule.below ? 15 : -5) * devicePixelRatio);
    ctx.restore();
  }
}

function draw_marks(plot, now) {
  const {ctx} = plot;
  for (const mark of now.marks) {
    ctx.save();
    ctx.fillStyle = style_value('--card');
    ctx.strokeStyle = series_color(mark.style);
    ctx.lineWidth = 2.2 * devicePixelRatio;
    ctx.beginPath();
    ctx.arc(plot.valToPos(mark.x, 'x', true), plot.valToPos(mark.y, 'y', true), kMarkSize * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
    ctx.restore();
  }
}

function tell_cursor(plot, now) {
  const {idx, left, top} = plot.cursor;
  if (!known(idx) || left < 0 || !plot.over.matches(':hover')) return hide_tooltip();
  const box = plot.over.getBoundingClientRect();
  // The latest point of each series up to there.
  const lines = now.drawn.map((one, i) => {
    if (one.edge) return null;
    const values = plot.data[i + 1];
    let at = idx;
    while (at > 0 && !known(values[at])) --at;
    return known(values[at]) ? `${one.name}: ${now.y.format(values[at], true)}` : null;
  }).filter(known);
  const marks = now.marks.filter(mark => Math.abs(plot.valToPos(mark.x, 'x') - left) <= kMarkSize).map(mark => mark.text);
  show_tooltip({clientX: box.left + left, clientY: box.top + top}, [`${now.x.format(plot.data[0][idx])} ${now.x.unit}`, ...lines.slice(0, 12), ...marks]);
}

// A loss that falls over more than a decade is drawn on a logarithmic axis.
function worth_a_log(series) {
  let low = Infinity;
  let high = -Infinity;
  for (const one of series) {
    for (const point of one.points) {
      low = Math.min(low, point[1]);
      high = Math.max(high, point[1]);
    }
  }
  return low > 0 && high / low > 12;
}

// For those who cannot see it.
function words_of(title, now) {
  const line = ({name, points}) => points.length ? `${name} ${now.y.format(points[0][1], true)} at first, ${now.y.format(points[points.length - 1][1], true)} at last` : `${name} nothing`;
  return `${title}: ${now.series.slice(0, 8).map(line).join('; ')}`;
}

// set({series: [{name, style, look, step, points, band: [[x, low, high]]}], x: {label, unit, format, low}, y: {format(value, exact, step), from_zero, most, may_be_log},
// rules: [{y, text, below}], marks: [{x, y, style, text}]}) draws it. `look`: words of "thin", "best", "solid" and "faint".
function line_chart(title, {note = null, empty = 'Nothing was recorded.', with_legend = true} = {}) {
  const holder = html('div', {class: 'uplot-holder', role: 'img', 'aria-label': title});
  const nothing = html('p', {class: 'soft'}, empty);
  const keys = html('div', {});
  const node = html('div', {class: 'chart'}, html('h3', {}, title), holder, nothing, keys, note ? html('p', {class: 'note'}, note) : null);
  let plot = null;
  let shape = '';
  let now = null;
  let width = 0;
  const draw = () => {
    const any = now?.series.some(one => one.points.length);
    nothing.hidden = Boolean(any);
    holder.hidden = !any;
    if (!any || width === 0) return;
    holder.setAttribute('aria-label', words_of(title, now));
    const own = JSON.stringify([now.series.map(one => [one.name, one.style, one.look, one.points.length === 1]), now.x.label, now.log, now.rules, now.marks]);
    if (plot && own === shape) return plot.setData(joined(now.drawn));
    shape = own;
    plot?.destroy();
    plot = new uPlot(uplot_options(now, width), joined(now.drawn), holder);
    keys.replaceChildren(...(with_legend && now.series.length > 1 ? [legend(now.series)] : []));
  };
  new ResizeObserver(([entry]) => {
    const wide = Math.floor(entry.contentRect.width);
    if (wide === width || wide === 0) return;
    width = wide;
    requestAnimationFrame(() => plot ? plot.setSize({width, height: kChartHeight}) : draw());
  }).observe(node);
  const chart = {
    node,
    set(next) {
      now = {rules: [], marks: [], ...next, drawn: next.series.flatMap(with_edges), log: Boolean(next.y.may_be_log) && worth_a_log(next.series)};
      draw();
    },
    again() { if (plot && now) { shape = ''; draw(); } },
    forget() { all_charts.delete(chart); plot?.destroy(); },
  };
  all_charts.add(chart);
  return chart;
}

// Colors are read when a chart is made.
for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', () => { for (const chart of all_charts) chart.again(); });
