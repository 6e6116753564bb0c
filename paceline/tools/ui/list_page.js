// The list of all runs.

const kOrders = {
  'newest first': (a, b) => b.made_s - a.made_s,
  'best accuracy': (a, b) => (b.best_accuracy ?? -1) - (a.best_accuracy ?? -1),
  'lowest loss': (a, b) => (a.best_loss ?? Infinity) - (b.best_loss ?? Infinity),
  'samples/s': (a, b) => (b.samples_per_s ?? 0) - (a.samples_per_s ?? 0),
  'name': (a, b) => a.id.localeCompare(b.id),
};
const chosen_runs = new Set();
const kMostCompared = 8;

function spark(values) {
  const shown = values.filter(known);
  if (shown.length < 2) return html('span', {class: 'spark'});
  const x = scale(0, shown.length - 1, 1, 99);
  const y = scale(Math.min(...shown), Math.max(...shown), 25, 3);
  return svg('svg', {class: 'spark s0', viewBox: '0 0 100 28', preserveAspectRatio: 'none', role: 'img', 'aria-label': `loss from ${plain(shown[0])} to ${plain(shown[shown.length - 1])}`},
    svg('path', {class: 'line solid', d: shown.map((value, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join('')}));
}

function made_text(seconds) {
  return seconds > 0 ? new Date(seconds * 1000).toLocaleString('sv-SE', {dateStyle: 'short', timeStyle: 'short'}) : '';
}

function run_row(run, changed) {
  const box = html('input', {type: 'checkbox', 'aria-label': `compare ${run.id}`});
  box.checked = chosen_runs.has(run.id);
  box.addEventListener('change', () => {
    if (box.checked) chosen_runs.add(run.id);
    else chosen_runs.delete(run.id);
    changed();
  });
  const bar = run.total_samples ? html('progress', {max: 1, value: run.samples / run.total_samples, 'aria-label': `${done_text(run)} of the samples`}) : null;
  const state = run.state === 'training' && known(run.left_s) ? `${ago_text(run.left_s)} left` : run.state === 'failed' || run.state === 'lost' || run.state === 'stopped' ? run.why : '';
  const best = known(run.best_accuracy) ? [`${fixed(100 * run.best_accuracy, 1)}\u00a0%`, 'best accuracy'] : known(run.best_loss) ? [digits4(run.best_loss), 'best test loss'] : [digits4(run.training_loss), 'training loss'];
  return html('li', {class: 'run'}, box,
    html('div', {class: 'name'}, html('a', {href: `#/run/${encodeURIComponent(run.id)}`}, run.title), html('div', {class: 'soft small-text'}, `${run.policy} \u00b7 ${run.devices} devices${run.world === 'virtual' ? ' in virtual time' : ''} \u00b7 ${made_text(run.made_s)}`),
      run.trouble ? html('div', {class: 'trouble small-text'}, run.trouble) : null),
    html('div', {class: 'where'}, state_badge(run.state), html('span', {class: 'soft small-text'}, state)),
    html('div', {class: 'how-far'}, bar, html('span', {class: 'soft small-text'}, done_text(run))),
    spark(run.spark),
    html('div', {class: 'figure'}, html('strong', {}, best[0]), html('span', {class: 'soft small-text'}, best[1])),
    html('div', {class: 'figure'}, html('strong', {}, or_dash(run.samples_per_s, short_count)), html('span', {class: 'soft small-text'}, 'samples/s')));
}

let [list_filter, list_order] = ['', 'newest first'];

function list_page() {
  let runs = null;
  let left_out = 0;
  let shown = '';
  const list = html('ul', {class: 'runs'});
  const count = html('p', {class: 'soft', role: 'status'}, 'Looking for runs\u2026');
  const filter = html('input', {type: 'search', id: 'filter', placeholder: 'name, policy or state', value: list_filter});
  const order = html('select', {id: 'order'}, ...Object.keys(kOrders).map(name => html('option', {value: name, ...(name === list_order ? {selected: ''} : {})}, name)));
  const compare = html('button', {type: 'button', class: 'main'}, 'Compare');
  const compare_changed = () => {
    compare.disabled = chosen_runs.size < 2 || chosen_runs.size > kMostCompared;
    compare.textContent = chosen_runs.size > kMostCompared ? `Compare at most ${kMostCompared}` : chosen_runs.size ? `Compare ${chosen_runs.size}` : 'Compare';
  };
  const draw = () => {
    if (!runs) return;
    for (const id of [...chosen_runs]) if (!runs.some(run => run.id === id)) chosen_runs.delete(id);
    const words = list_filter.toLowerCase().split(' ').filter(Boolean);
    const fitting = runs.filter(run => words.every(word => `${run.id} ${run.title} ${run.policy} ${run.state}`.toLowerCase().includes(word))).sort(kOrders[list_order]);
    // Drawn again only where something changed, so that a click is not lost.
    const now = JSON.stringify(fitting);
    if (now !== shown) {
      const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute('aria-label') ?? document.activeElement.getAttribute('href') : null;
      list.replaceChildren(...fitting.slice(0, 300).map(run => run_row(run, compare_changed)));
      if (focused) [...list.querySelectorAll('input, a')].find(node => node.getAttribute('aria-label') === focused || node.getAttribute('href') === focused)?.focus();
    }
    shown = now;
    const training = runs.filter(run => run.state === 'training').length;
    text_node(count)(runs.length === 0 ? 'There is no run here yet. It appears as soon as one begins.' : `${runs.length === 1 ? '1 run' : `${count_text(runs.length)} runs`}, ${training} training${fitting.length < runs.length ? `; ${fitting.length} fit` : ''}${fitting.length > 300 ? '; the first 300 are shown' : ''}${left_out ? `; ${count_text(left_out)} older ones are left out` : ''}.`);
    compare_changed();
  };
  filter.addEventListener('input', () => { list_filter = filter.value; draw(); });
  order.addEventListener('change', () => { list_order = order.value; draw(); });
  compare.addEventListener('click', () => { location.hash = `#/compare/${[...chosen_runs].map(encodeURIComponent).join('/')}`; });
  compare_changed();
  return {
    title: 'Runs',
    node: html('div', {}, html('header', {}, html('h1', {}, 'Runs'), count),
      html('div', {class: 'tools list-tools'}, html('label', {for: 'filter'}, 'Filter'), filter, html('label', {for: 'order'}, 'Sort by'), order, compare), list),
    address: '/api/events?part=list',
    on: {list: data => { runs = data.runs; left_out = data.left_out; draw(); }},
  };
}
