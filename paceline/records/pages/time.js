// Where the time went: of each device a bar of causes, who was waited for, and the same in numbers.

// Words of report::TimeCause, and how each looks.
const kCauseLook = {computing: 'computing s0', waiting: 'waiting', servers: 'servers', 'on the way': 'way', 'other stages': 'stages', loading: 'loading', weights: 'weights', starting: 'starting', recovering: 'recovering', 'no work': 'no-work', gone: 'gone'};
const cause_class = cause => `cause ${kCauseLook[cause] ?? ''}`;

// `rows`: [name, seconds of each cause…].
function draw_time(causes, rows, wall_s, width) {
  const [row, left] = [rows.length > 16 ? 14 : 24, width < 560 ? 58 : 110];
  const bar = (device, i) => {
    let at = left;
    const parts = causes.map((cause, c) => {
      const share = device[c + 1] / (wall_s || 1);
      const part = share > 0 ? svg('rect', {class: cause_class(cause), x: at, width: share * (width - left), y: i * row, height: row * 0.74},
        svg('title', {}, `${device[0]}: ${cause} ${plain(device[c + 1])} s, ${percent_text(share)}`)) : null;
      at += share * (width - left);
      return part;
    });
    return svg('g', {}, svg('text', {class: 'strong', x: 0, y: i * row + row * 0.5 + 1}, clipped_text(device[0], left < 100 ? 7 : 14)), ...parts);
  };
  return canvas(width, rows.length * row, `where the time went, of ${rows.length} devices; the table below has the numbers`, ...rows.map(bar));
}

const time_key = causes => causes.map(cause => html('li', {}, svg('svg', {width: 14, height: 12, 'aria-hidden': 'true'},
  svg('rect', {class: cause_class(cause), width: 14, height: 12, rx: 2})), cause));

// The causes that any of these has, and the rows with those alone.
function used_causes(causes, rows) {
  const used = causes.map((_, c) => c).filter(c => rows.some(row => row[c + 1] > 0));
  return [used.map(c => causes[c]), rows.map(row => [row[0], ...used.map(c => row[c + 1])])];
}
