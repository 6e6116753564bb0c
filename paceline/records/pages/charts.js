// Legends, axes and histograms.

const kMargin = {left: 54, right: 16, top: 14, bottom: 38};

function legend(entries) {
  return html('ul', {class: 'legend'}, ...entries.map(entry => html('li', {class: `s${entry.style % 8} d${dash_of(entry.style)}`},
    svg('svg', {width: 28, height: 10, 'aria-hidden': 'true'},
      svg('line', {class: `line ${entry.look ?? ''}`, x1: 0, x2: 28, y1: 5, y2: 5})),
    entry.name)));
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
