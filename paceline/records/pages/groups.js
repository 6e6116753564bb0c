// Groups: the gradients that became one update together. How large they were and why they closed, and which replicas
// they joined when, drawn over the lanes.

const kLatestGroups = 100;
const kNamesInGroup = 12;

const total = list => list.reduce((sum, one) => sum + one, 0);
const size_text = ({from, to}) => from === to ? count_text(from) : `${count_text(from)}\u2013${count_text(to)}`;

// The members by name, and how many others: those without a lane, and those of a long list.
function members_text(run, [, , size, ids]) {
  const names = ids.slice(0, kNamesInGroup).map(id => run.names.get(id));
  const more = size - names.length;
  return [...names, ...(more > 0 ? [`${count_text(more)} ${more === 1 ? 'other' : 'others'}`] : [])].join(', ');
}

// One bar a size. `by_cause`: stacked, each cause in a color of its own, else in that of `style`. `bins`: the sizes that
// the x axis has, so that several compare.
function draw_sizes(groups, by_cause, style, bins, width) {
  const height = width < 300 ? 180 : 250;
  const bottom = height - kMargin.bottom;
  const commits = total(groups.sizes.flatMap(size => size.commits));
  const most = Math.max(...groups.sizes.map(size => total(size.commits))) / commits;
  const x = scale(0, bins.length, kMargin.left, width - kMargin.right);
  const y = scale(0, most * 1.06, bottom, kMargin.top);
  const letters = Math.max(...bins.map(bin => size_text(bin).length));
  const labels = bins.map((_, i) => i).filter(i => i % Math.ceil(bins.length * (22 + 7 * letters) / width) === 0);
  const picture = canvas(width, height, 'gradients in an update',
    axes(width, height, i => x(i + 0.5), y, labels, ticks(0, most * 1.06, 4),
      {x: {label: 'gradients in an update', format: i => size_text(bins[i])}, y: {format: share_format}}));
  const add_bar = (i, below, number, bar_style, cause) => {
    if (number === 0) return;
    const [low, high] = [y(below / commits), y((below + number) / commits)];
    const hair = below > 0 ? 1 : 0;
    const bar = svg('rect', {class: `bar s${bar_style % 8}`, x: x(i + 0.12), width: x(0.76) - x(0), y: Math.min(high, low - 1),
      height: Math.max(low - high - hair, 1)});
    bar.addEventListener('pointermove', event => show_tooltip(event, [`${size_text(bins[i])} ${bins[i].to === 1 ? 'gradient' : 'gradients'}`,
      `${count_text(number)} ${number === 1 ? 'update' : 'updates'}, ${percent_text(number / commits, 2)}`, ...(cause ? [cause] : [])]));
    bar.addEventListener('pointerleave', hide_tooltip);
    picture.append(bar);
  };
  groups.sizes.forEach(({commits: numbers}, i) => {
    if (!by_cause) return add_bar(i, 0, total(numbers), style);
    numbers.forEach((number, cause) => add_bar(i, total(numbers.slice(0, cause)), number, cause, groups.causes[cause]));
  });
  return picture;
}

// The sizes of all these runs; a few at least.
function size_bins(runs) {
  const longest = runs.map(run => run.groups.sizes).reduce((a, b) => b.length > a.length ? b : a);
  return Array.from({length: Math.max(4, longest.length)}, (_, i) => longest[i] ?? {from: i + 1, to: i + 1});
}

function cause_key(groups) {
  const commits = groups.causes.map((_, cause) => total(groups.sizes.map(size => size.commits[cause])));
  return html('ul', {class: 'legend'}, ...groups.causes.map((cause, i) => html('li', {class: `s${i % 8}`},
    svg('svg', {width: 10, height: 10, 'aria-hidden': 'true'}, svg('rect', {class: 'bar', width: 10, height: 10, rx: 2})),
    `${cause}: ${percent_text(commits[i] / total(commits))}`)));
}

function size_chart(title, groups, by_cause, style, bins, note) {
  const holder = html('div', {});
  kept_drawn(holder, width => groups.sizes.length ? draw_sizes(groups, by_cause, style, bins, width)
                                                  : html('p', {class: 'soft'}, 'Nothing was committed.'));
  return html('div', {class: 'chart'}, html('h3', {}, title), holder, by_cause ? cause_key(groups) : null, note ? html('p', {class: 'note'}, note) : null);
}

// What grouping saved, and what it cost, each beside what there is to compare it with.
function group_facts({summary}) {
  const {deviation} = summary;
  const bound = known(summary.staleness_bound);
  const rows = [
    ['updates an epoch', or_dash(summary.commits_per_epoch, plain),
      or_dash(summary.gradients_per_epoch, each => `${plain(each)} if every gradient were one (ASP)`)],
    ['gradients in an update', or_dash(summary.group_size_mean, mean => fixed(mean, 2)), `mean; at most ${count_text(summary.group_size_max)}`],
    ['staleness \u03c4', or_dash(summary.staleness_mean, mean => fixed(mean, 2)),
      `mean; at most ${count_text(summary.staleness_max)}, ${bound ? `allowed S = ${count_text(summary.staleness_bound)}` : 'without a bound'}`]];
  if (deviation) rows.push(['weight deviation', `${plain(deviation.measured)}\u00a0G`,
    `\u03b7\u00b7q\u00b7\u03c4 for the largest \u03c4; ${bound ? `the bound \u03b7\u00b7q\u00b7S is ${plain(deviation.bound)}\u00a0G` : 'without a bound'}`]);
  const used = deviation && deviation.used_weights;
  if (used) rows.push(['measured deviation', `${plain(used.most)}\u00a0G`,
    `at most; ${plain(used.mean)}\u00a0G on average. Theory allows ${plain(used.most_bound)} and ${plain(used.mean_bound)}\u00a0G. G = ${plain(used.gradient)}`]);
  const note = deviation ? `The weights a gradient was computed on were at most so far from those it was applied to, in multiples of G, the largest norm of a gradient. `
    + `\u03b7 = ${plain(deviation.learning_rate)} is the largest learning rate, q = ${plain(deviation.fraction)} the largest part of the bulk in one update. `
    + 'This is for plain SGD: momentum \u03bc, without look-ahead, makes it up to 1/(1\u00a0\u2212\u00a0\u03bc) times as far.' : null;
  return html('div', {class: 'facts'}, table(['what', 'this run', 'compared with'], rows, 'What grouping saved'), note ? html('p', {class: 'note'}, note) : null);
}

function latest_groups(run) {
  if (run.groups.formed.length === 0) return null;
  const rows = run.groups.formed.slice(-kLatestGroups).reverse().map(group => html('tr', {}, html('td', {}, seconds_text(group[0])),
    html('td', {}, members_text(run, group)), html('td', {}, group[4] >= 0 ? run.reasons[group[4]] : '')));
  return html('div', {}, html('h3', {class: 'next'}, 'The latest groups'), html('div', {class: 'tall short', tabindex: '0', role: 'region', 'aria-label': 'The latest groups'}, html('table', {class: 'events'},
    html('thead', {}, html('tr', {}, ...['time', 'who', 'why it closed'].map(head => html('th', {class: 'left'}, head)))), html('tbody', {}, ...rows))));
}

function groups_section(run) {
  if (run.groups.sizes.length === 0) return null;
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Groups')),
    html('div', {class: 'columns'}, size_chart('Updates by their number of gradients', run.groups, true, 0, size_bins([run])), group_facts(run)), latest_groups(run));
}

const groups_differ = run => run.groups.sizes.filter(size => total(size.commits) > 0).length > 1;

function compared_groups(runs) {
  if (!runs.some(groups_differ)) return null;
  const note = ({summary}) => `mean ${or_dash(summary.group_size_mean, mean => fixed(mean, 2))}, at most ${count_text(summary.group_size_max)}`;
  const bins = size_bins(runs);
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Gradients in an update')),
    html('div', {class: 'columns small'}, ...runs.map(run => size_chart(run.policy, run.groups, false, style_of(run), bins, note(run)))));
}

// ---- Over the lanes ----

// The groups that formed in the window; none where they would hide the lanes, the sooner the more lanes they cross.
function groups_in(run, lanes, view, width) {
  const formed = run.groups.formed;
  const first = first_index(formed, group => group[0] >= view.from);
  const end = first_index(formed, group => group[0] > view.to);
  return (end - first) * Math.max(5, lanes.length) > width ? [] : formed.slice(first, end);
}

// Edged, so that it stands out from whatever it is drawn over.
const group_mark = (lines, dots) => svg('g', {}, ...['edge', ''].flatMap(edge => [
  svg('path', {class: `group-line ${edge}`, d: lines}), svg('path', {class: `group-dots ${edge}`, d: dots})]));

// A thin line from the first to the last member's lane, and a dot on each member's.
function draw_groups(lanes, groups, x, row) {
  const middle = new Map(lanes.map((replica, i) => [replica.id, i * row + row * 0.36]));
  let lines = '';
  let dots = '';
  for (const [time, , , ids] of groups) {
    const at = x(time).toFixed(1);
    const ys = ids.filter(id => middle.has(id)).map(id => middle.get(id)).sort((a, b) => a - b);
    if (ys.length === 0) continue;
    lines += `M${at} ${ys[0]}V${ys[ys.length - 1]}`;
    dots += ys.map(y => `M${at} ${y}h0`).join('');
  }
  return group_mark(lines, dots);
}

// The words of the group whose dot on this lane is within `reach` of `time`, or nothing.
function group_words(run, replica, groups, time, reach) {
  const near = groups.filter(group => Math.abs(group[0] - time) <= reach && group[3].includes(replica.id));
  if (near.length === 0) return null;
  const group = near.reduce((a, b) => Math.abs(b[0] - time) < Math.abs(a[0] - time) ? b : a);
  return [`update ${count_text(group[1])}: ${members_text(run, group)}`, seconds_text(group[0]), ...(group[4] >= 0 ? [run.reasons[group[4]]] : [])];
}

const group_key = () => html('li', {}, svg('svg', {width: 12, height: 14, 'aria-hidden': 'true'},
  group_mark('M6 3V11', 'M6 3h0M6 11h0')), 'one update');
