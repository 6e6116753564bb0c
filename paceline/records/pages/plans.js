// A planned run: who holds which layers, what batches took against what was predicted, and how much each device
// computed of that time.

const plan_of = run => run.plan ?? null;
const ms_text = value => or_dash(value, ms => `${plain(ms)}\u00a0ms`);

// The plan that was in use at a time, as an index into the list.
const plan_index = (plan, time) => Math.max(0, first_index(plan.plans, each => each.from_s > time) - 1);

function plan_table(run) {
  const plan = plan_of(run);
  // Devices that begin at the same layer share a stage.
  const begins = replica => replica.devices.map((_, i) => i === 0 ? 0 : replica.cuts[i - 1]);
  const stages = (replica, names) => {
    const first = begins(replica), starts = [...new Set(first)];
    return starts.map((start, s) => {
      const devices = replica.devices.filter((_, i) => first[i] === start).map(device => names[device] ?? device);
      const end = (s + 1 < starts.length ? starts[s + 1] : plan.layers) - 1;
      return `${devices.join(' + ')}: ${start}\u2013${end}`;
    }).join(' \u2192 ');
  };
  const words = each => html('div', {}, ...each.replicas.map(replica =>
    html('div', {}, `${stages(replica, plan.devices)}, ${count_text(replica.samples)} samples`)));
  const row = each => html('tr', {}, html('td', {}, seconds_text(each.from_s)), html('td', {class: 'left'}, words(each)),
    html('td', {}, ms_text(each.predicted_ms)), html('td', {}, ms_text(each.measured_ms)), html('td', {}, count_text(each.batches)),
    html('td', {class: 'left'}, each.why));
  const left_out = plan.plans_left_out > 0 ? html('p', {class: 'note'}, `${count_text(plan.plans_left_out)} plans in the middle of the run are not kept.`) : null;
  return html('div', {class: 'tall scroll', tabindex: '0', role: 'region', 'aria-label': 'Plans'}, html('table', {class: 'plans'}, html('thead', {}, html('tr', {},
    ...['from', 'devices and their layers', 'predicted', 'measured', 'batches', 'why'].map((head, i) => html('th', i === 1 || i === 5 ? {class: 'left'} : {}, head)))),
    html('tbody', {}, ...plan.plans.map(row))), left_out);
}

function batch_chart(run) {
  const plan = plan_of(run);
  const line = (name, style, index, look) => ({name, style, look, points: plan.batches.filter(each => known(each[index])).map(each => [each[0], each[index]])});
  const note = 'Predicted: by the planner before the batch, from what it had measured until then. Batches with a change of plans in them are left out.';
  return kept_chart('Time of a batch', {note}, () => ({x: time_axis(), y: {format: (value, exact) => exact ? ms_text(value) : plain(value), from_zero: true},
    series: [line('measured (ms)', 0, 3, 'solid'), line('predicted (ms)', 1, 2, '')]})).node;
}

// What stages got from other hosts; nothing where all are on one.
function link_chart(run) {
  const links = plan_of(run).links;
  if (!links.length) return [];
  const note = 'Measured between the stages of pipelines, at the receiving end. A link that no stage uses is not drawn.';
  return [html('div', {class: 'next'}, kept_chart('Speed of links between hosts (Mb/s)', {note}, () => ({x: time_axis(),
    y: {format: (value, exact) => exact ? `${plain(value)}\u00a0Mb/s` : plain(value), from_zero: true},
    series: links.map((link, i) => ({name: `host ${link.from} \u2192 host ${link.to}`, style: i % 8,
      look: i < 8 ? 'solid' : '', points: link.points}))})).node)];
}

// What batches cost against the budget, and how far that has run ahead of it.
function budget_charts(run) {
  const points = plan_of(run).batches.filter(each => each[6]);
  if (!points.length) return [];
  const line = (name, style, index, look) => ({name, style, look, points: points.map(each => [each[0], each[6][index]])});
  const chart = (title, series, note) => kept_chart(title, {note}, () => ({x: time_axis(), y: {format: value => plain(value), from_zero: true}, series})).node;
  return [html('div', {class: 'columns next'},
    chart('Cost of a batch', [line('cost', 0, 0, 'solid'), line('allowed', 1, 1, '')], 'In the unit of the budget: the currency of the prices, joules, or bytes between sites. Allowed is the average over the run.'),
    chart('Ahead of the budget', [line('queue', 0, 2, 'solid')], 'In batches of budget: the virtual queue that a plan is weighed with.'))];
}

// One lane a device: the height of each column is the share of the time that it computed, the color is its replica's.
function draw_load(run, width) {
  const plan = plan_of(run);
  const row = plan.devices.length > 16 ? 16 : 26;
  const bounds = [lane_left(width), width - lane_right];
  const {start_s, end_s} = run.summary;
  const x = scale(start_s, end_s, ...bounds);
  const bottom = plan.devices.length * row;
  const lane = (name, device) => {
    const [top, height] = [device * row, row * 0.72];
    const paths = {};
    let [busy, all] = [0, 0];
    plan.batches.forEach(([time, , , , elapsed_ms, shares], i) => {
      const from = Math.max(i === 0 ? start_s : plan.batches[i - 1][0], time - elapsed_ms / 1e3);
      const share = Math.min(1, shares[device] ?? 0);
      const group = plan.plans[plan_index(plan, from)].replicas.findIndex(replica => replica.devices.includes(device));
      all += time - from;
      busy += share * (time - from);
      if (share <= 0) return;
      const key = Math.max(0, group) % 8;
      paths[key] = (paths[key] ?? '') + `M${x(from).toFixed(2)} ${top + height}V${(top + height * (1 - share)).toFixed(2)}H${x(time).toFixed(2)}V${top + height}z`;
    });
    return svg('g', {},
      svg('text', {class: 'strong', x: 0, y: top + height / 2 + 4}, clipped(name, bounds[0] < 100 ? 9 : 15), svg('title', {}, name)),
      svg('rect', {fill: 'url(#bubbles)', x: bounds[0], width: bounds[1] - bounds[0], y: top, height, rx: 3}),
      ...Object.entries(paths).map(([key, d]) => svg('path', {class: `computing s${key}`, d})),
      svg('text', {x: bounds[1] + 10, y: top + height / 2 + 4}, all > 0 ? `${percent_text(busy / all, 0)} busy` : ''));
  };
  return canvas(width, bottom + 22, 'how much each device computed', hatching('bubbles'), ...plan.devices.map(lane),
    ...plan.plans.slice(1).map(each => svg('line', {class: 'rule', x1: x(each.from_s), x2: x(each.from_s), y1: 0, y2: bottom - 4}, svg('title', {}, each.why))),
    ...seconds_axis({from: start_s, to: end_s}, x, width, bottom));
}

function load_chart(run) {
  const holder = html('div', {});
  kept_drawn(holder, width => draw_load(run, width));
  const groups = Math.min(8, Math.max(...plan_of(run).plans.map(each => each.replicas.length)));
  return html('div', {class: 'chart'}, html('h3', {class: 'next'}, 'What devices computed'), holder,
    legend(Array.from({length: groups}, (_, i) => ({name: `replica ${i + 1} of the plan`, style: i, look: 'solid'}))),
    html('p', {class: 'note'}, 'The height is the share of the time in which the device computed; the rest is bubbles, transfers, waiting and synchronizing. A dotted line is a change of plans.'));
}

function plan_section(run) {
  const plan = plan_of(run);
  if (!plan) return null;
  const verdict = known(plan.measured_ms)
    ? `A batch took ${ms_text(plan.measured_ms)}; ${ms_text(plan.predicted_ms)} were predicted, ${percent_text(plan.error)} off on average. ${plan.re_plans === 1 ? '1 re-plan.' : `${count_text(plan.re_plans)} re-plans.`}`
    : 'No batch was measured.';
  return html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Plan'), html('span', {class: 'soft'}, verdict)),
    plan_table(run), ...(plan.batches.length ? [html('div', {class: 'next'}, batch_chart(run)), load_chart(run), ...link_chart(run), ...budget_charts(run)] : []));
}
