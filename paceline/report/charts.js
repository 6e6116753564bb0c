// Line charts and histograms.

const kMargin = {left: 54, right: 16, top: 14, bottom: 38};

function legend(entries) {
  return html('ul', {class: 'legend'}, ...entries.map(entry => html('li', {class: `s${entry.style % 8}`},
    svg('svg', {width: 28, height: 10, 'aria-hidden': 'true'},
      svg('line', {class: `line ${entry.look ?? ''}`, x1: 0, x2: 28, y1: 5, y2: 5})),
    entry.name)));
}

// What the y axis spans. A loss that falls over more than a decade is drawn on a logarithmic axis.
function y_axis(options) {
  const values = options.series.flatMap(series => series.points.map(point => point[1]));
  values.push(...(options.rules ?? []).map(rule => rule.y));
  let low = values.length ? Math.min(...values) : 0;
  let high = values.length ? Math.max(...values) : 1;
  const log = Boolean(options.y.may_be_log) && low > 0 && high / low > 12;
  if (options.y.from_zero) low = Math.min(0, low);
  if (log) return {low: low / 1.1, high: high * 1.1, log};
  const spare = (high - low || Math.abs(high) || 1) * 0.06;
  return {low: options.y.from_zero ? low : low - spare, high: Math.min(high + spare, options.y.most ?? Infinity), log};
}

function y_scale(axis, from, to) {
  if (!axis.log) return scale(axis.low, axis.high, from, to);
  const linear = scale(Math.log(axis.low), Math.log(axis.high), from, to);
  return value => linear(Math.log(value));
}

function path_of(series, x, y) {
  return series.points.map(([px, py], i) => {
    const X = x(px).toFixed(1);
    const Y = y(py).toFixed(1);
    if (i === 0) return `M${X} ${Y}`;
    return series.step ? `H${X}V${Y}` : `L${X} ${Y}`;
  }).join('');
}

function axes(width, height, x, y, x_ticks, y_ticks, options) {
  const right = width - kMargin.right;
  const bottom = height - kMargin.bottom;
  const y_labels = tick_labels(y_ticks, options.y.format);
  const x_labels = tick_labels(x_ticks, options.x.format);
  return svg('g', {},
    ...y_ticks.map((value, i) => svg('g', {},
      svg('line', {class: 'grid', x1: kMargin.left, x2: right, y1: y(value), y2: y(value)}),
      svg('text', {x: kMargin.left - 8, y: y(value) + 4, 'text-anchor': 'end'}, y_labels[i]))),
    svg('line', {class: 'axis', x1: kMargin.left, x2: right, y1: bottom, y2: bottom}),
    ...x_ticks.map((value, i) => svg('text', {x: x(value), y: bottom + 17, 'text-anchor': 'middle'}, x_labels[i])),
    svg('text', {x: (kMargin.left + right) / 2, y: height - 3, 'text-anchor': 'middle'}, options.x.label));
}

// The point of a series that stands for `at`: the latest one of a step curve, else the nearest.
function point_at(series, at) {
  const after = first_index(series.points, point => point[0] > at);
  const before = series.points[after - 1];
  const next = series.points[after];
  if (!before || !next || series.step) return before ?? (series.step ? null : next);
  return at - before[0] < next[0] - at ? before : next;
}

function cursor(picture, options, x, y, height) {
  const layer = svg('g', {});
  picture.append(layer);
  const leave = () => { layer.replaceChildren(); hide_tooltip(); };
  picture.addEventListener('pointerleave', leave);
  picture.addEventListener('pointermove', event => {
    const [px] = picture_point(event, picture);
    const at = x.back(px);
    if (px < kMargin.left || at > x.high) return leave();
    const found = options.series.map(series => [series, point_at(series, at)]).filter(([, point]) => point);
    layer.replaceChildren(
      svg('line', {class: 'cursor', x1: px, x2: px, y1: kMargin.top, y2: height - kMargin.bottom}),
      ...found.map(([series, point]) => svg('circle', {class: `dot s${series.style % 8}`, cx: x(point[0]), cy: y(point[1]), r: 3.5})));
    show_tooltip(event, [`${options.x.format(at)} ${options.x.unit}`,
      ...found.slice(0, 12).map(([series, point]) => `${series.name}: ${options.y.format(point[1], true)}`)]);
  });
}

function draw_lines(options, width) {
  const height = options.height ?? 250;
  const right = width - kMargin.right;
  const bottom = height - kMargin.bottom;
  const ends = options.series.flatMap(series => series.points.map(point => point[0]));
  const low = options.x.low ?? 0;
  const high = ends.length ? Math.max(...ends) : 1;
  const x = scale(low, high, kMargin.left, right);
  x.back = scale(kMargin.left, right, low, high);
  x.high = high;
  const axis = y_axis(options);
  const y = y_scale(axis, bottom, kMargin.top);
  const y_ticks = axis.log ? log_ticks(axis.low, axis.high) : ticks(axis.low, axis.high, 5);
  const picture = canvas(width, height, options.title,
    axes(width, height, x, y, ticks(low, high, Math.max(2, width / 90)), y_ticks, options),
    ...(options.rules ?? []).map(rule => svg('g', {},
      svg('line', {class: 'rule', x1: kMargin.left, x2: right, y1: y(rule.y), y2: y(rule.y)}),
      svg('text', {class: 'strong', x: right, y: y(rule.y) + (rule.below ? 15 : -6), 'text-anchor': 'end'}, rule.text))),
    ...options.series.map(series =>
      svg('path', {class: `line s${series.style % 8} ${series.look ?? ''}`, d: path_of(series, x, y)})),
    // A line of one point cannot be seen.
    ...options.series.filter(series => series.points.length === 1).map(({style, points: [[px, py]]}) =>
      svg('circle', {class: `dot s${style % 8}`, cx: x(px), cy: y(py), r: 3.5})),
    ...(options.marks ?? []).map(mark =>
      svg('circle', {class: `mark s${mark.style % 8}`, cx: x(mark.x), cy: y(mark.y), r: 5}, svg('title', {}, mark.text))));
  cursor(picture, options, x, y, height);
  return picture;
}

// options(): {title, note, x: {label, unit, low, format}, y: {format, from_zero, most, may_be_log}, series: [{name, style, look,
// step, points}], rules: [{y, text, below}], marks: [{x, y, style, text}], with_legend}. Asked again at each redraw.
function line_chart(options) {
  const first = options();
  const holder = html('div', {});
  const redraw = kept_drawn(holder, width => {
    const now = options();
    return now.series.some(series => series.points.length) ? draw_lines(now, width)
                                                           : html('p', {class: 'soft'}, 'Nothing was recorded.');
  });
  const node = html('div', {class: 'chart'}, html('h3', {}, first.title), holder,
    first.with_legend && first.series.length > 1 ? legend(first.series) : null, first.note ? html('p', {class: 'note'}, first.note) : null);
  return {node, redraw};
}

// Shares of the contributions by staleness. `bins`: how many the x axis has at least, so that several compare.
function draw_histogram(staleness, style, bins, width) {
  const height = width < 300 ? 180 : 250;
  const bottom = height - kMargin.bottom;
  const total = staleness.counts.reduce((sum, count) => sum + count, 0);
  const most = Math.max(...staleness.counts) / total;
  const reach = Math.max(bins, staleness.counts.length) * staleness.bin_width;
  const x = scale(0, reach, kMargin.left, width - kMargin.right);
  const y = scale(0, most * 1.06, bottom, kMargin.top);
  const centre = staleness.bin_width === 1 ? 0.5 : 0;
  const place = value => x(value + centre);
  const x_ticks = ticks(0, Math.max(1, reach - centre * 2), Math.min(reach, Math.max(2, width / 60))).filter(Number.isInteger);
  const picture = canvas(width, height, 'staleness of the committed gradients',
    axes(width, height, place, y, x_ticks, ticks(0, most * 1.06, 4),
      {x: {label: 'staleness \u03c4 (versions)', format: count_text}, y: {format: share_format}}));
  staleness.counts.forEach((count, i) => {
    if (count === 0) return;
    const low = i * staleness.bin_width;
    const name = staleness.bin_width === 1 ? `\u03c4 = ${low}` : `\u03c4 = ${low} to ${low + staleness.bin_width - 1}`;
    const gap = Math.min(2, (x(staleness.bin_width) - x(0)) / 5);
    const bar = svg('rect', {class: `bar s${style % 8}`, x: x(low) + gap, width: x(low + staleness.bin_width) - x(low) - 2 * gap,
      y: Math.min(y(count / total), bottom - 1), height: Math.max(bottom - y(count / total), 1), rx: 1.5});
    bar.addEventListener('pointermove', event =>
      show_tooltip(event, [name, `${count_text(count)} gradients, ${percent_text(count / total, 2)}`]));
    bar.addEventListener('pointerleave', hide_tooltip);
    picture.append(bar);
  });
  return picture;
}

function histogram(title, note, staleness, style, bins) {
  const holder = html('div', {});
  kept_drawn(holder, width => staleness.counts.length ? draw_histogram(staleness, style, bins, width)
                                                      : html('p', {class: 'soft'}, 'Nothing was committed.'));
  return html('div', {class: 'chart'}, html('h3', {}, title), holder, html('p', {class: 'note'}, note));
}
