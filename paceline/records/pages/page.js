// The page: one run, or several to compare.

const runs = JSON.parse(document.getElementById('data').textContent);
for (const run of runs) run.names = new Map(run.replicas.map(replica => [replica.id, replica.name]));
const single = runs.length === 1;
const kWorlds = {simulated: 'simulated time, no gradients', virtual: 'virtual time, real gradients', live: 'live'};

const kOwnTiles = 4;
const kOwnCharts = 12;
// The winner of a comparison has the boldest line.
const look_of = run => run.ranking?.fastest ? 'best' : '';
// The runs of each policy: one, or one a seed.
const group_name = run => run.group ?? run.policy;
const groups = [...new Set(runs.map(group_name))].map(name => ({name, runs: runs.filter(run => group_name(run) === name)}));
const with_seeds = runs.some(run => run.group);
const baseline = runs.find(run => group_name(run) === 'bsp') ?? runs[0];
// With several seeds each run is compared with the one of its own.
const baseline_of = run => runs.find(other => group_name(other) === group_name(baseline) && other.seed === run.seed) ?? null;
const style_of = run => groups.findIndex(group => group.runs.includes(run));
// A line for each policy. Of several seeds it is their mean, and a band of a standard error on both sides.
const lines_of = points_of => groups.map((group, style) => ({name: group.name, style, look: look_of(group.runs[0]), ...mean_curve(group.runs.map(points_of))}));
const kSeedsNote = 'Means over the seeds, up to where all of them have come, \u00b1 a standard error.';

const tile = (name, value, unit, below) => html('div', {}, html('dt', {}, name),
  html('dd', {class: tile_class(value + (unit ?? ''))}, value, unit ? html('span', {class: 'unit'}, unit) : null), below ? html('dd', {}, below) : null);

function tiles(run) {
  const {summary, target} = run;
  const last = summary.last_evaluation;
  const number = (value, digits) => or_dash(value, known_value => fixed(known_value, digits));
  const short_seconds = value => fixed(value, value < 10 ? 2 : value < 1000 ? 1 : 0);
  return html('dl', {class: 'tiles'},
    ...(last && known(last.accuracy) ? [tile('Test accuracy', number(100 * last.accuracy, 1), '%', `best ${number(100 * summary.best_accuracy, 1)}\u00a0%`)] : []),
    ...(last && !known(last.accuracy) && known(last.loss) ? [tile('Test loss', short_value(last.loss), '')] : []),
    ...Object.entries(last?.metrics ?? {}).slice(0, kOwnTiles).map(([name, value]) => tile(name, or_dash(value, short_value), '', 'of the last evaluation')),
    ...(target ? [tile('Time to target', or_dash(target.reached, met => short_seconds(met.time_s)), target.reached ? 's' : '', target.text.replace(' %', '\u00a0%'))] : []),
    tile('Samples/s', short_count(summary.samples_per_s), '', `${count_text(summary.samples)}${summary.total_samples ? ` of ${count_text(summary.total_samples)}` : ''}`),
    tile('Waiting', number(known(summary.wait_share) ? 100 * summary.wait_share : null, 1), known(summary.wait_share) ? '%' : '', 'of the replicas\u2019 time'),
    tile('Largest gap', count_text(summary.gap_max), '', 'iterations ahead of the slowest'),
    tile('Staleness', number(summary.staleness_mean, 2), '', `mean; at most ${count_text(summary.staleness_max)}`),
    tile('Commits', short_count(summary.commits), '', `${count_text(summary.iterations)} iterations`),
    tile('Elapsed', short_seconds(summary.elapsed_s), 's', summary.finished ? summary.finished_why : summary.ending === 'diverged' ? 'the training diverged' : 'it has not ended'));
}

// A chart of what data() gives. redraw() asks again.
function kept_chart(title, options, data) {
  const chart = line_chart(title, options);
  const redraw = () => chart.set(data());
  redraw();
  return {node: chart.node, redraw};
}

// The learning curves; one switch sets the x axis of both.
function learning_section() {
  if (!runs.some(run => run.evaluations.length || run.training.length)) return null;
  let by_samples = false;
  const points_of = (run, key) => run.evaluations.filter(each => known(each[key])).map(each => [by_samples ? each.samples : each.time_s, each[key]]);
  const x_axis = () => by_samples ? {label: 'samples committed', unit: 'samples', low: 0, format: short_count}
                                  : {label: `seconds (${runs[0].world})`, unit: 's', low: Math.min(...runs.map(run => run.summary.start_s)), format: plain};
  const rules = metric => runs[0].target?.metric === metric ? [{y: runs[0].target.value, text: `target: ${runs[0].target.text}`, below: metric === 'accuracy'}] : [];
  const marks = metric => with_seeds ? [] : runs.flatMap((run, style) => {
    const met = run.target?.metric === metric ? run.target.reached : null;
    const at = met && run.evaluations.find(each => each.time_s === met.time_s);
    return at ? [{x: by_samples ? met.samples : met.time_s, y: at[metric], style, text: `${run.policy} reached the target at ${seconds_text(met.time_s)}`}] : [];
  });
  const training = () => single && runs[0].training.length ? [{name: 'training loss', style: 1, look: 'thin solid faint',
    points: runs[0].training.filter(point => known(point[2])).map(point => [point[by_samples ? 1 : 0], point[2]])}] : [];
  const chart = (title, metric, y, more) => kept_chart(title, {with_legend: single, note: with_seeds ? kSeedsNote : null}, () => ({x: x_axis(), y, rules: rules(metric), marks: marks(metric),
    series: [...more(), ...lines_of(run => points_of(run, metric)).map(line => single ? {...line, name: title.toLowerCase()} : line)]}));
  const has = metric => runs.some(run => run.evaluations.some(each => known(each[metric])));
  const accuracy = chart('Test accuracy', 'accuracy', {format: share_format, most: 1.0001}, () => []);
  const loss = chart('Test loss', 'loss', {format: value => plain(value), may_be_log: true}, training);
  const own = own_charts(x_axis, () => by_samples);
  const shown = [...(has('accuracy') || !own.length ? [accuracy] : []), ...(has('loss') || training().length ? [loss] : []), ...own];
  const axis_switch = choice('x axis', ['seconds', 'samples'], picked => { by_samples = picked === 'samples'; for (const each of shown) each.redraw(); });
  const key = single ? null : legend(groups.map((group, style) => ({name: group.name, style, look: look_of(group.runs[0])})));
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Learning'), key, axis_switch),
    html('div', {class: 'columns'}, ...shown.map(each => each.node)));
}

// One chart for each number of the user's own: what evaluations gave, and of a single run what its steps gave.
function own_charts(x_axis, by_samples) {
  const tested = new Set(runs.flatMap(run => run.evaluations.flatMap(each => Object.keys(each.metrics))));
  const trained = new Set(runs.flatMap(run => Object.keys(run.summary.training_metrics)));
  return [...new Set([...tested, ...trained])].sort().slice(0, kOwnCharts).map(name => kept_chart(name, {with_legend: single}, () => {
    const target = runs[0].target?.metric === name ? runs[0].target : null;
    const of_tests = tested.has(name) ? lines_of(run => run.evaluations.filter(each => known(each.metrics[name])).map(each => [by_samples() ? each.samples : each.time_s, each.metrics[name]]))
      .map(line => single ? {...line, name: 'evaluation'} : line) : [];
    const of_steps = trained.has(name) && (single || !tested.has(name)) ? lines_of(run => run.training.filter(point => known(point[3]?.[name])).map(point => [point[by_samples() ? 1 : 0], point[3][name]]))
      .map(line => ({...line, look: 'thin solid faint', ...(single ? {name: 'training', style: 1} : {})})) : [];
    return {x: x_axis(), y: {format: value => plain(value)}, rules: target ? [{y: target.value, text: `target: ${target.text}`, below: !target.at_most}] : [],
      series: [...of_steps, ...of_tests]};
  }));
}

function choice(name, texts, act) {
  return html('fieldset', {class: 'switch', 'aria-label': name}, ...texts.map((text, i) => {
    const input = html('input', {type: 'radio', name, ...(i === 0 ? {checked: ''} : {})});
    input.addEventListener('change', () => act(text));
    return html('label', {}, input, text);
  }));
}

const time_axis = () => ({label: `seconds (${runs[0].world})`, unit: 's', low: Math.min(...runs.map(run => run.summary.start_s)), format: plain});
const whole_number = value => Number.isInteger(value) ? count_text(value) : '';

// The largest of these gaps in each of so many spans of the run: drawn one by one they would be a solid band.
function largest_gaps(run, gaps, spans = 160) {
  const {start_s, end_s} = run.summary;
  const largest = new Array(spans).fill(null);
  for (const [time, gap] of gaps) {
    const span = Math.min(spans - 1, Math.max(0, Math.floor((time - start_s) / (end_s - start_s || 1) * spans)));
    largest[span] = Math.max(largest[span] ?? 0, gap);
  }
  return largest.flatMap((gap, i) => gap === null ? [] : [[start_s + (i + 0.5) / spans * (end_s - start_s), gap]]);
}

function gap_chart() {
  const recorded = runs[0].replicas.filter(replica => replica.gap);
  const long = recorded.some(replica => replica.gap.length > 320);
  const per_replica = () => recorded.map((replica, style) => ({name: replica.name, style, look: 'thin', step: !long,
    points: long ? largest_gaps(runs[0], replica.gap) : replica.gap}));
  const any = {name: 'any replica', style: 0, look: 'thin', points: largest_gaps(runs[0], recorded.flatMap(replica => replica.gap))};
  const per_run = () => runs.map(run => ({name: run.policy, style: style_of(run), look: 'thin', points: largest_gaps(run, run.replicas.flatMap(replica => replica.gap ?? []))}));
  const few = single && recorded.length <= 8;
  return kept_chart(few ? 'Gap' : 'Largest gap', {with_legend: few, note: 'Iterations ahead of the slowest live replica; of a long run, the largest of each span.'}, () => ({
    x: time_axis(), y: {format: whole_number, from_zero: true}, series: few ? per_replica() : single ? [any] : per_run()})).node;
}

function throughput_chart() {
  return kept_chart('Samples per second', {with_legend: false, note: 'Committed samples.'}, () => ({x: time_axis(), y: {format: short_count, from_zero: true},
    series: runs.map(run => ({name: run.policy, style: style_of(run), look: look_of(run), points: run.throughput}))})).node;
}

function staleness_section() {
  const bins = Math.max(...runs.map(run => run.staleness.bin_width === 1 ? run.staleness.counts.length : 0), 6);
  const note = run => `mean ${or_dash(run.summary.staleness_mean, mean => fixed(mean, 2))}, at most ${count_text(run.summary.staleness_max)}`;
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Staleness of the committed gradients')),
    html('div', {class: 'columns small'}, ...runs.map(run => histogram(run.policy, note(run), run.staleness, style_of(run),
      run.staleness.bin_width === 1 ? bins : 0))));
}

// What scrolls sideways where there is too little room, by the keyboard too.
const scroller = (label, ...children) => html('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label}, ...children);

// The last column holds words, unless all but the first are numbers.
function table(heads, rows, label, words = true) {
  const cell = (tag, value, i) => html(tag, words && i === heads.length - 1 ? {class: 'left'} : {}, value);
  return scroller(label, html('table', {}, html('thead', {}, html('tr', {}, ...heads.map((head, i) => cell('th', head, i)))),
    html('tbody', {}, ...rows.map(row => html('tr', {}, ...row.map((value, i) => cell('td', value, i)))))));
}

function replica_table(run) {
  const row = replica => [replica.name, count_text(replica.iterations), count_text(replica.samples),
    or_dash(replica.mean_compute_s, seconds => fixed(seconds, 3)), or_dash(replica.wait_share, share => fixed(100 * share, 1)),
    or_dash(replica.mean_staleness, mean => fixed(mean, 2)), count_text(replica.discarded),
    replica.why ? `${replica.doing}: ${replica.why}` : replica.doing];
  const node = table(['replica', 'iterations', 'samples', 'compute (s)', 'waiting (%)', 'staleness', 'discarded', 'state'], run.replicas.map(row), `Replicas of ${run.policy}`);
  const more = run.replicas_left_out > 0 ? html('p', {class: 'note'}, `and ${count_text(run.replicas_left_out)} more replicas`) : null;
  return html('div', {class: 'tall'}, node, more);
}

const kDrawnDevices = 48;
const kShownWaits = 12;

// The document has a key for each cause.
function time_body(run) {
  const keys = Object.keys(run.time.devices[0]).filter(key => key.endsWith('_s'));
  const words = keys.map(key => key.slice(0, -2).replaceAll('_', ' ').replace(/^stages$/, 'other stages'));
  const [causes, rows] = used_causes(words, run.time.devices.map(device => [device.device, ...keys.map(key => device[key])]));
  const drawn = rows.slice(0, kDrawnDevices);
  const holder = html('div', {});
  kept_drawn(holder, width => draw_time(causes, drawn, run.time.wall_s, width));
  const numbers = table(['device', ...causes.map(cause => `${cause} (s)`), 'together (s)'], rows.map(row => [row[0], ...row.slice(1).map(value => fixed(value, 1)), fixed(total(row.slice(1)), 1)]), 'Where the time went, in seconds', false);
  const waits = run.time.waits.slice(0, kShownWaits).map(wait => [wait.on || 'nobody in particular', fixed(wait.s, 1), wait.rule]);
  const more = rows.length > drawn.length ? ` ${count_text(rows.length - drawn.length)} more devices are in the numbers alone.` : '';
  const left_out = run.time.devices_left_out > 0 ? ` ${count_text(run.time.devices_left_out)} more devices are left out.` : '';
  return html('div', {}, html('p', {class: 'verdict'}, `${capital(run.time.holds_back)}.`), holder, html('ul', {class: 'legend'}, ...time_key(causes)),
    html('p', {class: 'note'}, `Every device\u2019s parts add up to the wall time of ${fixed(run.time.wall_s, 1)}\u00a0s.${more}${left_out}`),
    html('details', {}, html('summary', {}, 'As numbers'), numbers),
    waits.length ? html('h3', {class: 'next'}, 'Who was waited for, and by what rule') : null,
    waits.length ? table(['waited for', 's', 'by the rule'], waits, 'Who was waited for') : null);
}

const time_section = run => run.time?.devices.length ? section('Where the time went', time_body(run)) : null;

function event_table(run) {
  const left_out = run.events_left_out > 0 ? `${count_text(run.events_left_out)} events in the middle of the run are not kept.` : null;
  const rows = run.events.map(event => html('tr', {}, html('td', {}, seconds_text(event.time_s)), html('td', {}, event.replica), html('td', {}, event.text)));
  return html('div', {class: 'tall', tabindex: '0', role: 'region', 'aria-label': `Events of ${run.policy}`}, html('table', {class: 'events'},
    html('thead', {}, html('tr', {}, ...['time', 'replica', 'what happened'].map(head => html('th', {class: 'left'}, head)))), html('tbody', {}, ...rows)), left_out ? html('p', {class: 'note'}, left_out) : null);
}

const section = (title, ...children) => html('section', {}, html('div', {class: 'title'}, html('h2', {}, title)), ...children);

// What was run, and where: what several runs have in common is said once.
function about_section() {
  const names = [...new Set(runs.flatMap(run => (run.about ?? []).map(([name]) => name)))];
  const text_of = (run, name) => run.about?.find(([own]) => own === name)?.[1] ?? '\u2013';
  const rows = names.flatMap(name => {
    const texts = runs.map(run => text_of(run, name));
    const different = [...new Set(texts)];
    const said = different.length === 1 ? texts[0] : name === 'begun' ? `${[...texts].sort()[0]} (the first of ${runs.length})`
      : with_seeds && name === 'seed' ? different.join(', ') : texts.map((text, i) => `${runs[i].policy}: ${text}`).join('; ');
    return [html('dt', {}, name), html('dd', {}, said)];
  });
  return rows.length ? section('What was run', html('dl', {class: 'about'}, ...rows)) : null;
}

// What people should know of the data before they believe a number.
const data_notes = () => [...new Set(runs.map(run => run.summary.data_note).filter(known))].map(note => html('p', {class: 'verdict'}, `${note}.`));

function single_page(run) {
  const cut = run.staleness.bin_width > 1 ? ` Bins of ${run.staleness.bin_width}.` : '';
  return [
    html('header', {}, html('h1', {}, run.title || 'Paceline run'),
      html('p', {}, `${run.policy} \u00b7 ${count_text(run.summary.replicas)} replicas \u00b7 ${kWorlds[run.world]}`),
      ...data_notes(), run.summary.missed_paces ? html('p', {class: 'verdict'}, `Paces were not held: ${run.summary.missed_paces}.`) : null),
    tiles(run), plan_section(run), learning_section(), lanes_section(runs), groups_section(run),
    html('section', {}, html('div', {class: 'columns three'},
      histogram('Staleness', `Share of the committed gradients by \u03c4, the commits between a gradient\u2019s weights and its own commit.${cut}`, run.staleness, 0, 6),
      gap_chart(), throughput_chart())),
    time_section(run), section('Replicas', replica_table(run)), section('Events', event_table(run)), about_section()];
}

// ---- Comparison ----

const time_to_target = run => run.target?.reached?.time_s ?? null;
// The last numbers of a run that diverged, or that has not ended, are not those of its end.
const at_its_end = (run, value) => run.ranking?.ended === false ? null : value ?? null;
const accuracy_of = run => at_its_end(run, run.summary.last_evaluation?.accuracy);
const signed = (value, digits) => `${value < 0 ? '\u2212' : '+'}${fixed(Math.abs(value), digits)}`;

const fastest_run = () => runs.find(run => run.ranking?.fastest) ?? null;

// How many times as fast as the baseline, and how many points of accuracy more.
function speed_up(run) {
  const other = baseline_of(run);
  return other && known(time_to_target(run)) && time_to_target(other) ? time_to_target(other) / time_to_target(run) : null;
}
function accuracy_gain(run) {
  const other = baseline_of(run);
  return other && known(accuracy_of(run)) && known(accuracy_of(other)) ? 100 * (accuracy_of(run) - accuracy_of(other)) : null;
}

// A sentence each.
function verdict() {
  const said = (runs[0].ranking?.verdict ?? []).map(line => `${line.replace(/^none /, 'None ')}.`);
  if (runs[0].world === 'simulated') return ['No gradients were computed: this page shows which replicas wait and how old gradients are, but not which policy learns faster.'];
  if (!runs[0].target) return ['No target was set; the curves below say who learned faster.', ...said];
  if (said.length || runs.some(run => time_to_target(run) !== null)) return said;
  return [`None of the policies reached the target, ${runs[0].target.text}.`, ...said];
}

function comparison_table(fastest) {
  const heads = ['policy', 'time to target (s)', `speed vs ${group_name(baseline)} (\u00d7)`, 'samples/s', 'waiting (%)', 'largest gap', 'mean staleness', 'largest staleness',
    'updates an epoch', 'gradients an update', 'test loss', 'accuracy (%)', `accuracy vs ${group_name(baseline)} (points)`, `seconds (${runs[0].world})`];
  const cells = run => [run.policy, or_dash(time_to_target(run), seconds => fixed(seconds, 1)), or_dash(speed_up(run), times => fixed(times, 2)),
    short_count(run.summary.samples_per_s), or_dash(run.summary.wait_share, share => fixed(100 * share, 1)), count_text(run.summary.gap_max),
    or_dash(run.summary.staleness_mean, mean => fixed(mean, 2)), count_text(run.summary.staleness_max),
    or_dash(run.summary.commits_per_epoch, plain), or_dash(run.summary.group_size_mean, mean => fixed(mean, 2)),
    or_dash(at_its_end(run, run.summary.last_evaluation?.loss), short_value), or_dash(accuracy_of(run), accuracy => fixed(100 * accuracy, 2)),
    run === baseline_of(run) ? '\u2013' : or_dash(accuracy_gain(run), points => signed(points, 2)), or_dash(at_its_end(run, run.summary.elapsed_s), seconds => fixed(seconds, 1))];
  // What no run has, such as the loss of simulated ones, is no column.
  const shown = heads.map((_, i) => runs.some(run => cells(run)[i] !== '\u2013'));
  const row = run => html('tr', run === fastest ? {class: 'best'} : {}, ...cells(run).map((text, i) => !shown[i] ? null : i === 0
    ? html('td', {class: `key policy s${style_of(run) % 8}`}, svg('svg', {width: 18, height: 10, 'aria-hidden': 'true'}, svg('rect', {class: 'bar', width: 10, height: 10, rx: 2})),
      run.folder ? html('a', {href: `./${encodeURIComponent(run.folder)}/report.html`}, text) : text, run === fastest ? html('span', {class: 'badge'}, 'fastest') : null)
    : html('td', i === 1 ? {class: 'key'} : {}, text)));
  return html('section', {}, scroller('The policies in numbers', html('table', {class: 'many'}, html('thead', {}, html('tr', {}, ...heads.map((head, i) => shown[i] ? html('th', {}, head) : null))),
    html('tbody', {}, ...runs.map(row)))));
}

// Where policies were trained with several seeds each.
function seeds_section() {
  const means = runs[0].ranking?.means;
  if (!means) return null;
  const shown = means.head.map((_, i) => means.rows.some(cells => cells[i] !== '\u2013'));
  const row = cells => html('tr', cells[0].endsWith(' *') ? {class: 'best'} : {}, ...cells.map((text, i) => shown[i] ? html('td', i === 0 ? {class: 'key policy'} : {}, text) : null));
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Means of the seeds')),
    scroller('Means of the seeds', html('table', {class: 'many'}, html('thead', {}, html('tr', {}, ...means.head.map((head, i) => shown[i] ? html('th', {}, head) : null))),
      html('tbody', {}, ...means.rows.map(row)))), html('p', {class: 'note'}, '\u00b1 the standard error of the mean.'));
}

// "2 policies, 6 runs": with several seeds there is a run for each.
function counted_policies() {
  const rows = runs[0].ranking?.means?.rows;
  const policies = rows ? rows.length : runs.length;
  return `${policies} ${policies === 1 ? 'policy' : 'policies'}${rows ? `, ${runs.length} runs` : ''}`;
}

function comparison_page() {
  const fastest = fastest_run();
  const details = run => html('details', {}, html('summary', {}, run.policy), ...(run.time?.devices.length ? [html('h3', {}, 'Where the time went'), time_body(run), html('h3', {class: 'next'}, 'Replicas')] : []), replica_table(run), html('h3', {}, 'Events'), event_table(run));
  return [
    html('header', {}, html('h1', {}, runs[0].title || 'Paceline comparison'),
      html('p', {}, `${counted_policies()} \u00b7 ${count_text(runs[0].summary.replicas)} replicas \u00b7 ${kWorlds[runs[0].world]}`),
      ...verdict().map(line => html('p', {class: 'verdict'}, line)), ...data_notes()),
    seeds_section(), comparison_table(fastest), learning_section(), lanes_section(runs), staleness_section(), compared_groups(runs),
    html('section', {}, html('div', {class: 'columns'}, gap_chart(), throughput_chart())),
    section('Time, replicas and events', ...runs.map(details)), about_section()];
}

document.title = `${runs[0]?.title || 'Paceline'} \u2013 ${single ? runs[0].policy : 'comparison'}`;
document.getElementById('page').replaceChildren(...(runs.length === 0 ? [html('p', {}, 'No run to show.')] : single ? single_page(runs[0]) : comparison_page()).filter(node => node !== null));
