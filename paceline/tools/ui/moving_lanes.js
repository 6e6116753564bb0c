// The lanes of a run that trains: who computes, and who waits for whom and why.

// As report::TimeCause counts them.
const kCauses = ['computing', 'loading samples', 'waiting for weights', 'waiting', 'waiting for the servers', 'waiting for messages on the way', 'waiting for other stages', 'starting', 'recovering', 'no work', 'gone'];
const [kComputing, kWaiting, kServers] = [0, 3, 4];
const kCauseClass = ['computing', 'loading', 'weights', 'waiting', 'servers', 'way', 'stages', 'starting', 'recovering', 'no-work', 'gone'];

// A waiting block has the color of the one it waits for.
function wait_patterns(id, count) {
  const pattern = (name, style) => svg('pattern', {id: `${id}-${name}`, class: style, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
    svg('rect', {class: 'hatch-ground', width: 6, height: 6}), svg('line', {class: style ? 'hatch-own' : 'hatch-line', x1: 0, x2: 0, y1: 0, y2: 6}));
  return svg('defs', {}, pattern('any', ''), ...Array.from({length: Math.min(8, count)}, (_, i) => pattern(i, `s${i}`)));
}

function whom_text(data, on) {
  if (on === -2) return 'the servers';
  return on >= 0 ? data.names[on] : 'nobody in particular';
}

function span_words(data, lane, [start, length, cause, on, rule]) {
  const waits = cause === kWaiting || cause === kServers;
  const open = start + length >= data.to_s - 1e-6;
  return [`${lane.device}: ${kCauses[cause]}${waits && on >= 0 ? ` for ${whom_text(data, on)}` : ''}`,
    `${open ? 'for' : 'took'} ${plain(length)}\u00a0s${open ? ' now' : ''}`, ...(waits && rule >= 0 && !open ? [data.rules[rule]] : [])];
}

// The pattern of a wait for this name: of a pipeline "w1+w2", its first device's. A device without a lane has no color.
function wait_pattern(data, name) {
  const first = name.split('+')[0];
  const lane = data.lanes.findIndex(({device}) => device === name || device === first);
  return lane < 0 ? kCauseClass[kWaiting] : `w${lane % 8}`;
}

function draw_moving(all, width) {
  // Where there is little room, the newest part of it.
  const data = width < 560 ? {...all, from_s: Math.max(all.from_s, all.to_s - (all.to_s - all.from_s) * 0.4)} : all;
  const row = data.lanes.length > 16 ? 16 : 28;
  const left = width < 560 ? 58 : 110;
  const right = width - 6;
  const bottom = data.lanes.length * row;
  const x = scale(data.from_s, data.to_s, left, right);
  const id = 'wait';
  const lane_node = (lane, i) => {
    const [top, height] = [i * row, row * 0.72];
    const paths = new Map();
    const labels = [];
    for (const [start, length, cause, on] of lane.spans) {
      if (start + length <= data.from_s) continue;
      const key = cause === kWaiting && on >= 0 ? wait_pattern(data, data.names[on]) : kCauseClass[cause];
      const from = x(Math.max(start, data.from_s));
      const wide = Math.max(0.4, x(start + length) - from);
      const hair = wide > 4 ? 1 : 0;
      paths.set(key, `${paths.get(key) ?? ''}M${from.toFixed(1)} ${top.toFixed(1)}h${(wide - hair).toFixed(1)}v${height.toFixed(1)}h${(hair - wide).toFixed(1)}z`);
      if (cause === kWaiting && on >= 0 && row > 20 && wide > 20 + 7 * data.names[on].length)
        labels.push(svg('text', {class: 'strong on-wait', x: from + wide / 2, y: top + height / 2 + 4, 'text-anchor': 'middle'}, `for ${data.names[on]}`));
    }
    const path = ([key, d]) => /^w\d$/.test(key) ? svg('path', {fill: `url(#${id}-${key.slice(1)})`, d})
      : key === 'waiting' || key === 'servers' ? svg('path', {fill: `url(#${id}-any)`, d}) : svg('path', {class: `cause ${key} s${i % 8}`, d});
    return svg('g', {}, svg('text', {class: 'strong', x: 0, y: top + height / 2 + 4}, clipped_text(lane.device, left < 100 ? 7 : 14), svg('title', {}, lane.device)),
      svg('rect', {class: 'idle', x: left, width: right - left, y: top, height, rx: 3}), ...[...paths].map(path), ...labels);
  };
  const seen = data.groups.filter(one => one[0] >= data.from_s);
  const groups = seen.length * 12 < right - left ? seen : [];
  let [lines, dots] = ['', ''];
  for (const [time, , , members] of groups) {
    const at = x(time).toFixed(1);
    const ys = members.map(i => i * row + row * 0.36).sort((a, b) => a - b);
    if (!ys.length) continue;
    lines += `M${at} ${ys[0]}V${ys[ys.length - 1]}`;
    dots += ys.map(y => `M${at} ${y}h0`).join('');
  }
  const at_s = ticks(data.from_s, data.to_s, Math.max(2, width / 120));
  const seconds = tick_labels(at_s, plain);
  const picture = canvas(width, bottom + 20, lanes_words(data), wait_patterns(id, data.lanes.length), ...data.lanes.map(lane_node), group_mark(lines, dots),
    ...at_s.map((value, i) => svg('text', {x: Math.min(Math.max(x(value), left + 12), right - 14), y: bottom + 14, 'text-anchor': 'middle'}, `${seconds[i]} s`)));
  const back = scale(left, right, data.from_s, data.to_s);
  picture.addEventListener('pointermove', event => {
    const [px, py] = picture_point(event, picture);
    const lane = data.lanes[Math.floor(py / row)];
    const group = lane && groups.find(one => Math.abs(x(one[0]) - px) < 4 && one[3].includes(Math.floor(py / row)));
    const at = back(px);
    const span = lane?.spans.find(([start, length]) => start <= at && at < start + length);
    if (group) show_tooltip(event, [`update ${count_text(group[1])} of ${group[2]} gradients`, data.rules[group[4]]]);
    else if (span && px >= left) show_tooltip(event, span_words(data, lane, span));
    else hide_tooltip();
  });
  picture.addEventListener('pointerleave', hide_tooltip);
  return picture;
}

// For those who cannot see them: how long each device waited of what is shown.
function lanes_words(data) {
  const share = lane => {
    const sum = cause => total(lane.spans.filter(span => cause === null || span[2] === cause).map(span => span[1]));
    return sum(null) > 0 ? (sum(kWaiting) + sum(kServers)) / sum(null) : 0;
  };
  return `what each device did in the last ${plain(data.to_s - data.from_s)} seconds; waiting: ${data.lanes.map(lane => `${lane.device} ${percent_text(share(lane), 0)}`).join(', ')}`;
}

function lanes_key() {
  const entry = (node, text) => html('li', {}, svg('svg', {width: 22, height: 12, 'aria-hidden': 'true'}, node), text);
  return html('ul', {class: 'legend'},
    entry(svg('rect', {class: 'cause computing s0', width: 22, height: 12, rx: 2}), 'computing'),
    entry(svg('g', {}, svg('defs', {}, svg('pattern', {id: 'key-wait', class: 's1', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
      svg('rect', {class: 'hatch-ground', width: 6, height: 6}), svg('line', {class: 'hatch-own', x1: 0, x2: 0, y1: 0, y2: 6}))), svg('rect', {fill: 'url(#key-wait)', width: 22, height: 12})), 'waiting, in the color of whom it waits for'),
    entry(svg('rect', {class: 'cause way', width: 22, height: 12, rx: 2}), 'on the way'),
    entry(svg('rect', {class: 'cause recovering', width: 22, height: 12, rx: 2}), 'recovering'), group_key());
}

function lanes_part() {
  let data = null;
  const holder = html('div', {class: 'moving'});
  const redraw = kept_drawn(holder, width => data && data.lanes.length ? draw_moving(data, width) : html('p', {class: 'soft'}, 'Nobody has computed yet.'));
  const note = html('p', {class: 'note'});
  return {
    node: section('Who computes, and who waits for whom', lanes_key(), holder, note),
    set(next) {
      data = next;
      note.textContent = `The last ${plain(data.to_s - data.from_s)} seconds. Point at a block for the reason.`
        + (data.left_out > 0 ? ` Of many devices these are the ones that the others wait for most; ${count_text(data.left_out)} more are not shown.` : '');
      redraw();
    },
  };
}
