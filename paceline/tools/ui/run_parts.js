// The parts of the page of one run. Each is {node, set(data)}, and gets its data whenever they have changed.

const section = (title, ...children) => html('section', {}, html('div', {class: 'title'}, html('h2', {}, title)), ...children);
const ago_text = seconds => !known(seconds) ? '\u2013' : seconds < 90 ? `${fixed(seconds, seconds < 10 ? 1 : 0)}\u00a0s` : seconds < 5400 ? `${fixed(seconds / 60, 0)}\u00a0min` : `${fixed(seconds / 3600, 1)}\u00a0h`;
// Rounded down: 100 % means that all is done.
const done_text = run => run.total_samples ? `${Math.floor(100 * run.samples / run.total_samples)}\u00a0%` : `${short_count(run.samples)} samples`;
const digits4 = value => or_dash(value, short_value);

// Elements that keep their place and change their text: what did not change is left alone.
function text_node(node) {
  return text => { if (node.textContent !== text) node.textContent = text; };
}

const state_badge = state => html('span', {class: `state ${state}`}, state);

// Rows by key: those that stay keep their elements, so that a selection or a focus survives.
function plain_table(label, heads, wordy) {
  const body = html('tbody', {});
  const cell = (tag, i, value) => html(tag, wordy.includes(i) ? {class: 'left'} : {}, value);
  const scroller = html('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label},
    html('table', {}, html('thead', {}, html('tr', {}, ...heads.map((head, i) => html('th', {scope: 'col', ...(wordy.includes(i) ? {class: 'left'} : {})}, head)))), body));
  return {
    node: scroller,
    set(rows) {
      while (body.rows.length > rows.length) body.deleteRow(-1);
      rows.forEach((row, r) => {
        const line = body.rows[r] ?? body.appendChild(html('tr', {}, ...row.map((_, i) => cell('td', i, ''))));
        row.forEach((value, i) => {
          const place = line.cells[i];
          if (value instanceof Node) place.replaceChildren(value);
          else if (place.textContent !== value) place.textContent = value;
        });
      });
    },
  };
}

function head_part(run, ask) {
  const title = html('h1', {}, run);
  const below = html('p', {class: 'soft'});
  const verdict = html('p', {class: 'verdict', id: 'verdict'});
  const long = html('p', {class: 'note'});
  const trouble = html('p', {class: 'trouble', role: 'alert', hidden: ''});
  const bar = html('progress', {'aria-label': 'progress', max: 1, value: 0});
  const buttons = html('div', {class: 'tools', hidden: ''}, ...[['evaluate', 'Evaluate now\u2026'], ['stop', 'Stop\u2026']].map(([what, words]) => {
    const button = html('button', {type: 'button', class: `ask-${what}`}, words);
    button.addEventListener('click', () => ask(what));
    return button;
  }));
  const badge = html('span', {});
  const tiles = html('dl', {class: 'tiles'});
  const node = html('div', {}, html('header', {}, html('div', {class: 'run-title'}, title, badge, buttons), below, verdict, long, trouble, bar), tiles);
  const show_tiles = data => {
    const list = [
      ...(known(data.accuracy) ? [['Test accuracy', fixed(100 * data.accuracy, 1), '%', `best ${fixed(100 * data.best_accuracy, 1)}\u00a0%`]] : []),
      ...(known(data.loss) ? [['Test loss', digits4(data.loss), '', 'of the last evaluation']] : []),
      ['Training loss', digits4(data.training_loss), '', `learning rate ${or_dash(data.learning_rate, plain)}`],
      ['Samples/s', or_dash(data.samples_per_s, short_count), '', data.state === 'training' ? 'of the last 10 seconds' : 'mean of the run'],
      ['Waiting', known(data.wait_of_late) ? fixed(100 * data.wait_of_late, 0) : '\u2013', known(data.wait_of_late) ? '%' : '', `${or_dash(data.wait_share, share => percent_text(share, 0))} over the whole run`],
      ['Staleness', or_dash(data.staleness_mean, mean => fixed(mean, 2)), '', `mean; at most ${count_text(data.staleness_max)}`],
      ['Updates', short_count(data.commits), '', known(data.update_s) ? `${plain(1e3 * data.update_s)}\u00a0ms each on the servers` : `${or_dash(data.group_size, size => fixed(size, 1))} gradients each`],
      ['Replicas', count_text(data.live), '', data.live < data.replicas ? `of ${count_text(data.replicas)}; ${data.attempts > 1 ? `attempt ${data.attempts}` : 'the others left'}` : data.attempts > 1 ? `attempt ${data.attempts}, ${count_text(data.lost_commits)} updates lost` : 'all here'],
    ];
    const same = tiles.children.length === list.length;
    if (!same) tiles.replaceChildren(...list.map(() => html('div', {}, html('dt', {}), html('dd', {}), html('dd', {}))));
    list.forEach(([name, value, unit, words], i) => {
      const [dt, dd, more] = tiles.children[i].children;
      text_node(dt)(name);
      if (dd.dataset.shown !== value + unit) dd.replaceChildren(value, ...(unit ? [html('span', {class: 'unit'}, unit)] : []));
      dd.dataset.shown = value + unit;
      dd.className = tile_class(value + unit);
      text_node(more)(words);
    });
  };
  return {
    node,
    set(data) {
      badge.replaceChildren(state_badge(data.state));
      buttons.hidden = data.state !== 'training' || (known(data.world) && data.world !== 'live');
      trouble.hidden = !data.trouble;
      text_node(trouble)(data.trouble ? `This page may be behind: ${data.trouble}` : '');
      if (!known(data.title)) {
        text_node(verdict)(capital(data.holds_back || data.why));
        return;
      }
      text_node(title)(data.title);
      const kWorld = {live: 'live', virtual: 'in virtual time', simulated: 'simulated'};
      text_node(below)(`${data.policy} \u00b7 ${count_text(data.replicas)} replicas \u00b7 ${kWorld[data.world]} \u00b7 ${run}`);
      text_node(verdict)(`${capital(data.holds_back)}.`);
      const ended = data.state !== 'training';
      text_node(long)(ended ? `It ${data.state === 'lost' ? 'was lost' : data.state === 'stopped' ? 'was stopped' : data.state}${data.why ? `: ${data.why}` : ''}. It took ${ago_text(data.elapsed_s)}.`
        : `Over the whole run: ${data.held_back}. ${ago_text(data.elapsed_s)} so far${known(data.left_s) ? `, about ${ago_text(data.left_s)} left` : ''}.`);
      if (data.total_samples) bar.value = data.samples / data.total_samples;
      else bar.removeAttribute('value');
      bar.hidden = ended && !data.total_samples;
      bar.setAttribute('aria-label', `${count_text(data.samples)}${data.total_samples ? ` of ${count_text(data.total_samples)}` : ''} samples`);
      show_tiles(data);
    },
  };
}

const kAxes = {seconds: {index: 0, label: 'seconds', unit: 's'}, samples: {index: 1, label: 'samples committed', unit: 'samples'}, updates: {index: 2, label: 'updates', unit: 'updates'}};
let axis_name = 'seconds';

function axis_switch(changed) {
  return html('fieldset', {class: 'switch'}, html('legend', {class: 'hidden'}, 'horizontal axis'), ...Object.keys(kAxes).map(name => {
    const input = html('input', {type: 'radio', name: 'axis', ...(name === axis_name ? {checked: ''} : {})});
    input.addEventListener('change', () => { axis_name = name; changed(); });
    return html('label', {}, input, name);
  }));
}

const curve_of = (points, column) => {
  const {index} = kAxes[axis_name];
  return points.filter(point => known(point[column])).map(point => [point[index], point[column]]);
};
const x_of = () => ({label: kAxes[axis_name].label, unit: kAxes[axis_name].unit, format: plain});
const kNothingYet = {empty: 'Nothing was recorded yet.'};
const target_rules = (target, metric) => target?.metric === metric ? [{y: target.value, text: `target: ${target.text}`}] : [];
const kLossAxis = {format: value => plain(value), may_be_log: true};
const kAccuracyAxis = {format: share_format, most: 1.0001};
const kRateAxis = {format: short_count, from_zero: true};

function curves_part() {
  const loss = line_chart('Loss', kNothingYet);
  const accuracy = line_chart('Test accuracy', kNothingYet);
  const rate = line_chart('Samples per second', kNothingYet);
  let data = null;
  const draw = () => {
    if (!data) return;
    const x = x_of();
    loss.set({x, y: kLossAxis, rules: target_rules(data.target, 'loss'), series: [
      {name: 'training', style: 1, look: 'solid thin', points: curve_of(data.training, 3)}, {name: 'test', style: 0, look: 'solid', points: curve_of(data.evaluations, 3)}]});
    accuracy.node.hidden = !data.evaluations.some(point => known(point[4]));
    accuracy.set({x, y: kAccuracyAxis, rules: target_rules(data.target, 'accuracy'), series: [{name: 'test accuracy', style: 0, look: 'solid', points: curve_of(data.evaluations, 4)}]});
    rate.set({x, y: kRateAxis, series: [{name: 'samples/s', style: 2, look: 'solid', points: curve_of(data.rate, 3)}]});
  };
  return {
    node: html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Learning'), axis_switch(draw)), html('div', {class: 'columns three'}, loss.node, accuracy.node, rate.node)),
    set(next) { data = next; draw(); },
  };
}

// "+12 %" against its own past, "3.1 times slower" than the others' middle.
function against(now, other) {
  if (!known(now) || !known(other) || other === 0 || now === 0) return '\u2013';
  const times = now / other;
  if (times > 0.95 && times < 1.05) return 'the same';
  return times < 1 ? `${fixed(1 / times, 1)}\u00d7 slower` : `${fixed(times, 1)}\u00d7 faster`;
}

function devices_part() {
  const table = plain_table('Devices', ['device', 'does now', 'others waited for it (s)', 'speed (samples/s)', 'against the others', 'against its past', 'waiting (%)', 'iterations', 'samples', 'discarded'], [0, 1]);
  const note = html('p', {class: 'note'});
  return {
    node: section('Devices', table.node, note),
    set(data) {
      table.set(data.rows.map(row => [row.name, row.why && (row.doing === 'gone' || row.doing === 'done') ? `${row.doing}: ${row.why}` : row.doing, fixed(row.waited_for_s ?? 0, 1), or_dash(row.speed, plain), against(row.speed, data.middle),
        against(row.speed, row.past), or_dash(row.wait_share, share => fixed(100 * share, 0)), count_text(row.iterations), count_text(row.samples), count_text(row.discarded)]));
      text_node(note)(`Those that are here come first, and of these those that the others waited for most.${data.left_out > 0 ? ` ${count_text(data.left_out)} more are not shown.` : ''}`);
    },
  };
}

function groups_part() {
  let data = null;
  const redraws = [];
  const chart = (title, any, draw) => {
    const holder = html('div', {});
    redraws.push(kept_drawn(holder, width => data && any() ? draw(width) : html('p', {class: 'soft'}, 'Nothing was committed yet.')));
    return html('div', {class: 'chart'}, html('h3', {}, title), holder);
  };
  const staleness = chart('Staleness of the committed gradients', () => data.staleness.counts.length, width => draw_histogram(data.staleness, 0, 6, width));
  const sizes = chart('Gradients in an update', () => data.sizes.length, width => draw_sizes(data, true, 0, size_bins([{groups: data}]), width));
  const keys = html('div', {});
  sizes.append(keys);
  const latest = plain_table('The latest groups', ['time', 'update', 'gradients', 'whose', 'why it closed'], [3, 4]);
  const latest_title = html('h3', {class: 'next'}, 'The latest groups');
  return {
    node: section('Groups and staleness', html('div', {class: 'columns'}, staleness, sizes), latest_title, latest.node),
    set(next) {
      data = next;
      for (const redraw of redraws) redraw();
      keys.replaceChildren(...(data.causes.length ? [cause_key(data)] : []));
      latest.node.hidden = latest_title.hidden = !data.latest.length;
      latest.set(data.latest.map(([time, version, size, who, why]) => [seconds_text(time), count_text(version), count_text(size), who, why]));
    },
  };
}

function events_part() {
  const table = plain_table('Events', ['time', 'replica', 'what happened'], [1, 2]);
  table.node.classList.add('tall');
  const note = html('p', {class: 'note'});
  return {
    node: section('Faults, joins, leaves and restarts', table.node, note),
    set(data) {
      table.set(data.list.map(([time, replica, text]) => [seconds_text(time), replica, text]));
      text_node(note)(data.left_out > 0 ? `The newest first; ${count_text(data.left_out)} earlier ones are not shown.` : 'The newest first.');
    },
  };
}

function plan_part() {
  const words = html('p', {});
  const table = plain_table('Plans', ['from', 'plan', 'why'], [1, 2]);
  const node = section('Plan', words, table.node);
  node.hidden = true;
  return {
    node,
    set(data) {
      node.hidden = !data;
      if (!data) return;
      text_node(words)(known(data.measured_ms) ? `A batch takes ${plain(data.measured_ms)}\u00a0ms; ${plain(data.predicted_ms)}\u00a0ms were predicted. ${data.re_plans === 1 ? '1 re-plan' : `${count_text(data.re_plans)} re-plans`}.` : 'No batch was measured yet.');
      table.set(data.plans.map(([from, plan, why]) => [seconds_text(from), plan, why]));
    },
  };
}

function time_part() {
  let data = null;
  const holder = html('div', {});
  const redraw = kept_drawn(holder, width => data?.devices.length ? draw_time(...used_causes(data.causes, data.devices), data.wall_s, width) : html('p', {class: 'soft'}, 'Nothing is known yet.'));
  const keys = html('ul', {class: 'legend'});
  const table_place = html('div', {});
  const waits = plain_table('Who was waited for', ['waited for', 's', 'by the rule'], [0, 2]);
  const waits_title = html('h3', {class: 'next'}, 'Who was waited for, and by what rule');
  const note = html('p', {class: 'note'});
  let [table, shape] = [null, null];
  return {
    node: section('Where the time went', holder, keys, html('details', {}, html('summary', {}, 'As numbers'), table_place), waits_title, waits.node, note),
    set(next) {
      data = next;
      redraw();
      const [causes, rows] = used_causes(data.causes, data.devices);
      if (shape !== causes.join()) {
        shape = causes.join();
        keys.replaceChildren(...time_key(causes));
        table = plain_table('Where the time went, in seconds', ['device', ...causes.map(cause => `${cause} (s)`), 'together (s)'], [0]);
        table_place.replaceChildren(table.node);
      }
      table.set(rows.map(row => [row[0], ...row.slice(1).map(value => fixed(value, 1)), fixed(total(row.slice(1)), 1)]));
      waits.node.hidden = waits_title.hidden = !data.waits.length;
      waits.set(data.waits.slice(0, 12).map(([on, rule, seconds]) => [on || 'nobody in particular', fixed(seconds, 1), rule]));
      text_node(note)(`Every device's parts add up to the wall time of ${fixed(data.wall_s, 1)}\u00a0s, to ${plain(1e3 * data.off_by_s)}\u00a0ms.${data.left_out > 0 ? ` ${count_text(data.left_out)} devices that computed more are not shown.` : ''}`);
    },
  };
}
