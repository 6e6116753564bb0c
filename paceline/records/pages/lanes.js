// The lanes: what each replica did when. All runs of a page share one window of time, so that they compare.

const kDoing = {c: 'computing', w: 'waiting', p: 'done'};

const lane_left = width => width < 560 ? 70 : 120;
const lane_right = 84;
const kReach = 4;  // how near a pointer has to be
// Lanes of many replicas are slim.
const row_height = run => shown_lanes(run).length > 24 ? 14 : 26;
const shown_lanes = run => run.replicas.filter(replica => replica.lane);

function clipped(text, letters) {
  const all = [...text];
  return all.length > letters ? `${all.slice(0, letters - 1).join('')}\u2026` : text;
}

// The intervals of a lane that meet the window.
function intervals_in(lane, view) {
  const first = first_index(lane.intervals, interval => interval[1] > view.from);
  const end = first_index(lane.intervals, interval => interval[0] >= view.to);
  return lane.intervals.slice(first, end);
}

// One block an interval, with a hair between neighbours where there is room.
function draw_blocks(intervals, x, {top, height}, bounds) {
  const paths = {c: '', w: '', p: ''};
  for (const [start, end, doing] of intervals) {
    const from = Math.max(x(start), bounds[0]);
    const length = Math.min(x(end), bounds[1]) - from;
    const hair = length > 4 ? 1 : 0;
    paths[doing] += `M${from.toFixed(2)} ${top}h${(length - hair).toFixed(2)}v${height}h${(hair - length).toFixed(2)}z`;
  }
  return paths;
}

// Too many intervals to draw: each column is filled by the shares of its time, computing at the bottom.
function draw_shares(intervals, view, {top, height}, bounds, columns) {
  const span = (view.to - view.from) / columns;
  const share = {c: new Float64Array(columns), w: new Float64Array(columns), p: new Float64Array(columns)};
  for (const [start, end, doing] of intervals) {
    const last = Math.min(columns - 1, Math.floor((end - view.from) / span));
    for (let i = Math.max(0, Math.floor((start - view.from) / span)); i <= last; ++i) {
      const from = view.from + i * span;
      share[doing][i] += Math.max(0, Math.min(end, from + span) - Math.max(start, from)) / span;
    }
  }
  const paths = {c: '', w: '', p: ''};
  const width = (bounds[1] - bounds[0]) / columns;
  for (let i = 0; i < columns; ++i) {
    let floor = top + height;
    for (const doing of ['c', 'w', 'p']) {
      const part = share[doing][i] * height;
      floor -= part;
      if (part > 0.05) paths[doing] += `M${(bounds[0] + width * i).toFixed(2)} ${floor.toFixed(2)}h${width.toFixed(2)}v${part.toFixed(2)}h${(-width).toFixed(2)}z`;
    }
  }
  return paths;
}

// What is known of the time whose intervals are left out: spans of [start, end, share computing, share waiting].
function coarse_spans(lane) {
  if (lane.left_out === 0) return [];
  const from = lane.intervals[lane.left_out_after - 1][1];
  const to = lane.intervals[lane.left_out_after][0];
  const spans = lane.activity.slice(1).map(([end, computing, waiting], i) => {
    const [start, computed, waited] = lane.activity[i];
    return [start, end, (computing - computed) / (end - start), (waiting - waited) / (end - start)];
  });
  return spans.map(([start, end, ...shares]) => [Math.max(start, from), Math.min(end, to), ...shares])
    .filter(([start, end]) => end > start);
}

function add_coarse(paths, lane, view, x, {top, height}, bounds) {
  for (const [start, end, computing, waiting] of lane.coarse) {
    if (end <= view.from || start >= view.to) continue;
    const from = Math.max(x(start), bounds[0]);
    const width = Math.min(x(end), bounds[1]) - from;
    const floor = top + height * (1 - computing);
    paths.c += `M${from.toFixed(2)} ${floor.toFixed(2)}h${width.toFixed(2)}V${top + height}h${(-width).toFixed(2)}z`;
    paths.w += `M${from.toFixed(2)} ${floor.toFixed(2)}h${width.toFixed(2)}v${(-height * waiting).toFixed(2)}h${(-width).toFixed(2)}z`;
  }
}

// `columns`: 0 to draw the intervals themselves.
function draw_lane(replica, view, x, place, bounds, hatch, columns) {
  const intervals = intervals_in(replica.lane, view);
  const paths = columns > 0 ? draw_shares(intervals, view, place, bounds, columns) : draw_blocks(intervals, x, place, bounds);
  add_coarse(paths, replica.lane, view, x, place, bounds);
  const line = place.top + place.height / 2 + 4;
  return svg('g', {},
    svg('text', {class: 'strong', x: 0, y: line}, clipped(replica.name, bounds[0] < 100 ? 9 : 15), svg('title', {}, replica.name)),
    svg('rect', {class: 'idle', x: bounds[0], width: bounds[1] - bounds[0], y: place.top, height: place.height, rx: 3}),
    svg('path', {fill: `url(#${hatch})`, d: paths.w}),
    svg('path', {class: 'computing', d: paths.c}),
    svg('path', {class: 'done', d: paths.p}),
    svg('text', {x: bounds[1] + 10, y: line}, or_dash(replica.wait_share, share => `${percent_text(share, 0)} wait`)));
}

// How many intervals there would be in the window if those that are left out were as short as those that are not.
function intervals_as_if_all(lane, view) {
  const intervals = intervals_in(lane, view);
  if (lane.left_out === 0 || intervals.length === 0) return intervals.length;
  const covered = intervals.reduce((sum, [start, end]) => sum + Math.min(end, view.to) - Math.max(start, view.from), 0);
  return covered > 0 ? intervals.length * (view.to - view.from) / covered : intervals.length;
}

// All lanes of a picture are drawn alike. A column is wide enough for some intervals of the busiest lane, so that it shows
// shares and not whatever happened to fall into it.
function columns_for(lanes, view, width) {
  const busiest = Math.max(0, ...lanes.map(({lane}) => intervals_as_if_all(lane, view)));
  return busiest > width / 2.5 ? Math.ceil(Math.min(width / 2, Math.max(width / 16, busiest / 8))) : 0;
}

function hatching(id) {
  return svg('defs', {}, svg('pattern', {id, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
    svg('rect', {class: 'hatch-ground', width: 6, height: 6}),
    svg('line', {class: 'hatch-line', x1: 0, x2: 0, y1: 0, y2: 6})));
}

// What a lane did at a moment, in words.
function lane_words(run, replica, at) {
  const list = replica.lane.intervals;
  const interval = list[first_index(list, each => each[1] > at)];
  const coarse = replica.lane.coarse.find(each => each[0] <= at && at < each[1]);
  if (coarse) return [replica.name, `${seconds_text(coarse[0])} to ${seconds_text(coarse[1])}`,
    `computing ${percent_text(coarse[2])}, waiting ${percent_text(coarse[3])}`];
  if (!interval || interval[0] > at) return [replica.name, 'not in the run'];
  const [start, end, doing, iteration, why] = interval;
  const what = {c: `computing iteration ${iteration}`, w: `waiting after iteration ${iteration}`, p: 'done'}[doing];
  const until = {c: 'ended early', w: 'released', p: 'ended'}[doing];
  return [`${replica.name}: ${what}`, `${seconds_text(start)} to ${seconds_text(end)}, for ${plain(end - start)}\u00a0s`,
    ...(why >= 0 ? [`${until}: ${run.reasons[why]}`] : [])];
}

// Hovering tells, dragging chooses a window, Ctrl and the wheel zoom, a double click shows everything.
function lane_pointer(picture, run, lanes, groups, view, x, bounds, window_of) {
  let started = null;
  const row = row_height(run);
  const picked = svg('rect', {class: 'picked', y: 0, height: lanes.length * row, width: 0});
  picture.append(picked);
  const time_of = event => Math.min(view.to, Math.max(view.from, x.back(picture_point(event, picture)[0])));
  picture.addEventListener('pointerdown', event => { started = time_of(event); picture.setPointerCapture(event.pointerId); });
  picture.addEventListener('pointermove', event => {
    const at = time_of(event);
    if (started !== null) {
      picked.setAttribute('x', x(Math.min(started, at)));
      picked.setAttribute('width', Math.abs(x(at) - x(started)));
    }
    const [px, py] = picture_point(event, picture);
    const lane = lanes[Math.floor(py / row)];
    if (lane && px >= bounds[0] && px <= bounds[1]) {
      show_tooltip(event, group_words(run, lane, groups, at, x.back(kReach) - x.back(0)) ?? lane_words(run, lane, at));
    }
    else hide_tooltip();
  });
  picture.addEventListener('pointerleave', hide_tooltip);
  picture.addEventListener('pointerup', event => {
    const [a, b] = [started, time_of(event)].sort((p, q) => p - q);
    started = null;
    picked.setAttribute('width', 0);
    if (x(b) - x(a) > 6) window_of.set(a, b);
  });
  picture.addEventListener('dblclick', () => window_of.all());
  picture.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    window_of.zoom(event.deltaY > 0 ? 1.25 : 0.8, time_of(event));
  }, {passive: false});
}

// The time below lanes that end at `bottom`.
function seconds_axis(view, x, width, bottom) {
  const at_s = ticks(view.from, view.to, Math.max(2, width / 110));
  const words = tick_labels(at_s, plain);
  return at_s.map((value, i) => svg('g', {},
    svg('line', {class: 'axis', x1: x(value), x2: x(value), y1: bottom - 4, y2: bottom + 1}),
    svg('text', {x: x(value), y: bottom + 15, 'text-anchor': 'middle'}, `${words[i]} s`)));
}

function draw_lanes(run, index, view, width, window_of) {
  const lanes = shown_lanes(run);
  const bounds = [lane_left(width), width - lane_right];
  const x = scale(view.from, view.to, ...bounds);
  x.back = scale(...bounds, view.from, view.to);
  const columns = columns_for(lanes, view, bounds[1] - bounds[0]);
  const hatch = `hatch${index}`;
  const row = row_height(run);
  const bottom = lanes.length * row;
  const groups = groups_in(run, lanes, view, bounds[1] - bounds[0]);
  const picture = canvas(width, bottom + 22, 'what each replica did when', hatching(hatch),
    ...lanes.map((replica, i) => draw_lane(replica, view, x, {top: i * row, height: row * 0.72}, bounds, hatch, columns)),
    draw_groups(lanes, groups, x, row),
    ...seconds_axis(view, x, width, bottom));
  picture.classList.add('lanes', `s${style_of(run) % 8}`);
  lane_pointer(picture, run, lanes, groups, view, x, bounds, window_of);
  return picture;
}

// At first the window shows some iterations of the slowest replica, so that the waiting can be seen.
function opening_window(runs, whole) {
  const slowest = Math.max(0, ...runs.flatMap(run => run.replicas.map(replica => replica.mean_compute_s ?? 0)));
  return {from: whole.from, to: Math.min(whole.to, whole.from + (slowest * 12 || whole.to - whole.from))};
}

function shared_window(whole, view, changed) {
  const set = (from, to) => {
    const length = Math.min(whole.to - whole.from, Math.max(to - from, (whole.to - whole.from) * 1e-6));
    view.from = Math.max(whole.from, Math.min(from, whole.to - length));
    view.to = view.from + length;
    changed();
  };
  return {
    set,
    all: () => set(whole.from, whole.to),
    zoom: (factor, at) => set(at - (at - view.from) * factor, at + (view.to - at) * factor),
    shift: share => set(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from)),
  };
}

function lane_tools(view, opening, window_of, label) {
  const button = (text, meaning, act) => {
    const node = html('button', {type: 'button', 'aria-label': meaning, title: meaning}, text);
    node.addEventListener('click', act);
    return node;
  };
  const middle = () => (view.from + view.to) / 2;
  return html('div', {class: 'tools'}, label,
    button('\u2190', 'earlier', () => window_of.shift(-0.5)), button('\u2192', 'later', () => window_of.shift(0.5)),
    button('+', 'zoom in', () => window_of.zoom(0.5, middle())), button('\u2212', 'zoom out', () => window_of.zoom(2, middle())),
    button('Start', 'Start: the first iterations', () => window_of.set(opening.from, opening.to)),
    button('Whole run', 'Whole run: everything', window_of.all));
}

function lane_note(runs) {
  const notes = ['Drag to zoom, double-click for everything, hover for the reason. Where intervals are too short to draw, each column shows shares of its time.'];
  if (runs.some(run => run.replicas.some(replica => replica.lane?.left_out > 0))) {
    notes.push('If a replica has very many intervals, only the first and the latest are recorded one by one; between them the lane shows shares of the time.');
  }
  if (runs.some(run => run.groups.formed.length)) notes.push('A thin line joins the replicas whose gradients became one update; zoom in where there are too many to draw.');
  if (runs.some(run => run.groups.left_out > 0)) notes.push('Of very many groups only the first and the latest are recorded.');
  for (const run of runs) {
    const all = run.replicas.length + (run.replicas_left_out ?? 0);
    const shown = shown_lanes(run).length;
    if (shown < all) notes.push(`${run.policy}: lanes of the first ${shown} of ${count_text(all)} replicas.`);
  }
  return notes.join(' ');
}

const lane_key = runs => html('ul', {class: 'legend'}, ...['c', 'w', 'p'].map(doing => html('li', {class: 's0'},
  svg('svg', {width: 22, height: 12, 'aria-hidden': 'true'}, hatching('key-hatch'),
    doing === 'w' ? svg('rect', {width: 22, height: 12, fill: 'url(#key-hatch)'})
                  : svg('rect', {width: 21, height: 11, x: 0.5, y: 0.5, class: kDoing[doing]})),
  kDoing[doing])), runs.some(run => run.groups.formed.length) ? group_key() : null);

function lanes_section(runs) {
  if (!runs.some(run => shown_lanes(run).length)) return null;
  for (const {lane} of runs.flatMap(shown_lanes)) lane.coarse = coarse_spans(lane);
  const whole = {from: Math.min(...runs.map(run => run.summary.start_s)), to: Math.max(...runs.map(run => run.summary.end_s))};
  const opening = opening_window(runs, whole);
  const view = {...opening};
  const redraws = [];
  const label = html('span', {class: 'soft'});
  const changed = () => {
    label.textContent = `${seconds_text(view.from)} to ${seconds_text(view.to)}`;
    for (const redraw of redraws) redraw();
  };
  const window_of = shared_window(whole, view, changed);
  const pictures = runs.map((run, index) => {
    const holder = html('div', {});
    redraws.push(kept_drawn(holder, width => draw_lanes(run, index, view, width, window_of)));
    const title = runs.length > 1 ? html('h3', {}, `${run.policy} \u2014 waiting ${or_dash(run.summary.wait_share, share => percent_text(share, 0))}`) : null;
    return html('div', {class: 'chart lane-run'}, title, holder);
  });
  changed();
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Who worked and who waited'), lane_key(runs),
    lane_tools(view, opening, window_of, label)), ...pictures, html('p', {class: 'note'}, lane_note(runs)));
}
