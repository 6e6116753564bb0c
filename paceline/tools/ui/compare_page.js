// Several runs side by side.

function compare_page(ids) {
  const runs = new Map(ids.map(id => [id, {head: null, curves: null}]));
  const accuracy = line_chart('Test accuracy', kNothingYet);
  const loss = line_chart('Test loss', kNothingYet);
  const training = line_chart('Training loss', kNothingYet);
  const rate = line_chart('Samples per second', kNothingYet);
  const heads = ['run', 'policy', 'state', 'progress', 'samples/s', 'waiting (%)', 'staleness', 'gradients an update', 'training loss', 'test loss', 'accuracy (%)', 'best (%)', 'seconds', 'what holds it back'];
  const table = plain_table('The runs in numbers', heads, [0, 1, 2, 13]);
  // Its title where that tells it from the others, else with its policy.
  const name_of = id => {
    const head = runs.get(id).head;
    if (!known(head?.title)) return id;
    const alike = ids.filter(other => runs.get(other).head?.policy === head.policy);
    return alike.length === 1 ? head.policy : `${head.policy} (${id})`;
  };
  // The best so far has the boldest line.
  const best_run = () => {
    const with_number = key => ids.filter(id => known(runs.get(id).head?.[key]));
    const [by, better] = with_number('best_accuracy').length ? ['best_accuracy', (a, b) => a > b] : ['loss', (a, b) => a < b];
    return with_number(by).reduce((best, id) => best === null || better(runs.get(id).head[by], runs.get(best).head[by]) ? id : best, null);
  };
  const lines = (part, column) => ids.map((id, style) => ({name: name_of(id), style, look: id === best_run() ? 'best' : '', points: runs.get(id).curves ? curve_of(runs.get(id).curves[part], column) : []}));
  const draw = () => {
    const first = [...runs.values()].find(run => run.curves?.target)?.curves.target;
    const any = column => [...runs.values()].some(run => run.curves?.evaluations.some(point => known(point[column])));
    accuracy.node.hidden = !any(4);
    const x = x_of();
    accuracy.set({x, y: kAccuracyAxis, rules: target_rules(first, 'accuracy'), series: lines('evaluations', 4)});
    loss.node.hidden = !any(3);
    loss.set({x, y: kLossAxis, rules: target_rules(first, 'loss'), series: lines('evaluations', 3)});
    training.set({x, y: kLossAxis, series: lines('training', 3)});
    rate.set({x, y: kRateAxis, series: lines('rate', 3)});
    const percent = value => or_dash(value, share => fixed(100 * share, 1));
    table.set(ids.map((id, style) => {
      const head = runs.get(id).head;
      const name = html('a', {href: `#/run/${encodeURIComponent(id)}`, class: `keyed s${style % 8}`, title: id}, svg('svg', {width: 12, height: 12, 'aria-hidden': 'true'}, svg('rect', {class: 'bar', width: 12, height: 12, rx: 2})), ` ${id.split('/').pop()}`);
      if (!known(head?.title)) return [name, ...Array(heads.length - 2).fill('\u2013'), head ? head.holds_back || head.why : ''];
      return [name, head.policy, head.state, done_text(head), or_dash(head.samples_per_s, short_count), percent(head.wait_share), or_dash(head.staleness_mean, mean => fixed(mean, 2)),
        or_dash(head.group_size, size => fixed(size, 1)), digits4(head.training_loss), digits4(head.loss), percent(head.accuracy), percent(head.best_accuracy), fixed(head.elapsed_s, 1), head.held_back];
    }));
  };
  let asked = false;
  const soon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
  return {
    title: 'Comparison',
    node: html('div', {}, html('header', {}, html('h1', {}, `${ids.length} runs compared`)),
      html('section', {}, html('div', {class: 'title'}, html('h2', {}, 'Learning'), axis_switch(soon)), html('div', {class: 'columns'}, accuracy.node, loss.node, training.node, rate.node)),
      section('In numbers', table.node)),
    address: `/api/events?part=compare${ids.map(id => `&run=${encodeURIComponent(id)}`).join('')}`,
    on: {
      part: ({run, part, data}) => { if (runs.has(run)) { runs.get(run)[part] = data; soon(); } },
      gone: ({run}) => { if (runs.has(run)) { runs.get(run).head = {why: 'there is no such run any more'}; soon(); } },
    },
  };
}
