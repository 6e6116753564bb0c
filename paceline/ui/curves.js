// Charts that change while one looks, by uPlot.

const kChartHeight = 230;
const kDashes = [[], [9, 3], [4, 3], [10, 3, 2, 3], [1.5, 3], [14, 4], [7, 2, 1, 2, 1, 2], [2, 5]];
const style_value = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const series_color = style => style_value(`--s${style % 8}`);
const all_charts = new Set();

// Of these series, whose points lie at times of their own, the table that uPlot draws.
function joined(series) {
  const tables = series.map(one => [one.points.map(point => point[0]), one.points.map(point => point[1])]);
  return tables.length ? uPlot.join(tables) : [[]];
}

function uplot_options(now, width, title) {
  const axis = {stroke: style_value('--soft'), grid: {stroke: style_value('--grid'), width: 1}, ticks: {show: false},
    font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif', labelSize: 18};
  return {
    width, height: kChartHeight, legend: {show: false}, cursor: {y: false, points: {size: 7}},
    scales: {x: {time: false}, y: {distr: now.log ? 3 : 1, range: now.log ? undefined : (_, low, high) => y_range(now, low, high)}},
    axes: [{...axis, label: now.x_label, size: 30, values: (_, list) => tick_labels(list, plain)},
      {...axis, size: 58, values: (_, list) => tick_labels(list, (value, exact, step) => known(value) ? now.format(value, exact, now.log ? 0.01 : step) : '')}],
    series: [{}, ...now.series.map(one => ({label: one.name, stroke: series_color(one.style), width: one.thin ? 1.4 : one.best ? 3.4 : 2,
      dash: one.plain ? [] : kDashes[one.style % 8], spanGaps: true,
      points: {show: one.points.length === 1, size: 6, fill: series_color(one.style)}}))],
    hooks: {setCursor: [plot => tell_cursor(plot, now)], drawAxes: now.rule ? [plot => draw_rule(plot, now)] : []},
    title: undefined, id: undefined, class: title,
  };
}

function y_range(now, low, high) {
  if (!known(low)) return [0, 1];
  const ends = now.rule ? [Math.min(low, now.rule.y), Math.max(high, now.rule.y)] : [low, high];
  const spare = (ends[1] - ends[0] || Math.abs(ends[1]) || 1) * 0.07;
  return [now.from_zero ? Math.min(0, ends[0]) : ends[0] - spare, Math.min(now.most ?? Infinity, ends[1] + spare)];
}

function draw_rule(plot, {rule}) {
  const {ctx, bbox} = plot;
  const y = plot.valToPos(rule.y, 'y', true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = style_value('--soft');
  ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = 'right';
  ctx.fillText(rule.text, bbox.left + bbox.width, y - 5 * devicePixelRatio);
  ctx.restore();
}

function tell_cursor(plot, now) {
  const {idx, left, top} = plot.cursor;
  if (!known(idx) || left < 0 || !plot.over.matches(':hover')) return hide_tooltip();
  const box = plot.over.getBoundingClientRect();
  // The latest point of each series up to there.
  const lines = now.series.map((one, i) => {
    const values = plot.data[i + 1];
    let at = idx;
    while (at > 0 && !known(values[at])) --at;
    return known(values[at]) ? `${one.name}: ${now.format(values[at], true)}` : null;
  }).filter(known);
  show_tooltip({clientX: box.left + left, clientY: box.top + top}, [`${plain(plot.data[0][idx])} ${now.x_unit}`, ...lines.slice(0, 16)]);
}

const worth_a_log = series => {
  const values = series.flatMap(one => one.points.map(point => point[1]));
  return values.length > 1 && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 12;
};

// A chart of lines. set({series: [{name, style, points, thin, best, plain}], x_label, x_unit, format(value, exact), from_zero, most,
// rule: {y, text}, may_be_log, words}): `words` say for those who cannot see it what it shows.
function live_chart(title, note) {
  const holder = html('div', {class: 'uplot-holder', role: 'img', 'aria-label': title});
  const empty = html('p', {class: 'soft'}, 'Nothing was recorded yet.');
  const keys = html('div', {});
  const node = html('div', {class: 'chart'}, html('h3', {}, title), holder, empty, keys, note ? html('p', {class: 'note'}, note) : null);
  let plot = null;
  let shape = '';
  let now = null;
  let width = 0;
  const make = () => {
    plot?.destroy();
    plot = new uPlot(uplot_options(now, width, 'live'), joined(now.series), holder);
  };
  const draw = () => {
    const any = now?.series.some(one => one.points.length);
    empty.hidden = Boolean(any);
    holder.hidden = !any;
    if (!any || width === 0) return;
    const own = JSON.stringify([now.series.map(one => [one.name, one.style, one.best, one.points.length === 1]), now.x_label, now.log, now.rule]);
    if (!plot || own !== shape) {
      shape = own;
      make();
      keys.replaceChildren(...(now.series.length > 1 ? [legend(now.series.map(one => ({name: one.name, style: one.style, look: `${one.plain ? 'solid' : ''} ${one.best ? 'best' : ''}`})))] : []));
    } else {
      plot.setData(joined(now.series));
    }
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
      now = {...next, log: Boolean(next.may_be_log) && worth_a_log(next.series)};
      holder.setAttribute('aria-label', next.words ? `${title}: ${next.words}` : title);
      draw();
    },
    again() { if (plot && now) { shape = ''; draw(); } },
    forget() { all_charts.delete(chart); plot?.destroy(); },
  };
  all_charts.add(chart);
  return chart;
}

// Colors are read when a chart is made.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { for (const chart of all_charts) chart.again(); });
