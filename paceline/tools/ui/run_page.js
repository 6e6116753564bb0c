// The page of one run.

const kAsks = {
  stop: {title: 'Stop this run?', words: 'It stops with a checkpoint, and you can go on with it later.', send: 'Stop the run', look: 'danger'},
  evaluate: {title: 'Evaluate now?', words: 'The evaluator measures the newest weights on the test set. This does not affect training.', send: 'Evaluate now', look: 'main'},
};

// Asks one thing of those who lead the run, for those who show the token of its job.
function ask_dialog(run, what) {
  const {title, words, send: send_words, look} = kAsks[what];
  const token = html('input', {type: 'password', id: `${what}-token`, autocomplete: 'off', required: ''});
  const answer = html('p', {role: 'status'});
  const send = html('button', {type: 'submit', class: look}, send_words);
  const cancel = html('button', {type: 'button'}, 'Cancel');
  const form = html('form', {method: 'dialog'}, html('h2', {id: `${what}-title`}, title),
    html('p', {}, `${words} Show the token of the job: it is in the file \u201ctoken\u201d of the run\u2019s folder, or where the job\u2019s token_file says.`),
    html('label', {for: `${what}-token`}, 'Token of the job'), token, answer, html('div', {class: 'tools'}, send, cancel));
  const dialog = html('dialog', {'aria-labelledby': `${what}-title`, class: what}, form);
  cancel.addEventListener('click', () => dialog.close());
  form.addEventListener('submit', async event => {
    event.preventDefault();
    send.disabled = true;
    answer.textContent = 'Asking\u2026';
    try {
      const reply = await fetch(`/api/${what}?run=${encodeURIComponent(run)}`, {method: 'POST', headers: {'X-Paceline-Job-Token': token.value.trim()}});
      answer.textContent = capital((await reply.text()).trim()) + '.';
      if (reply.ok) {
        token.value = '';
        setTimeout(() => dialog.close(), 1500);
      }
    } catch {
      answer.textContent = 'The server did not answer.';
    }
    send.disabled = false;
  });
  return {
    node: dialog,
    open() {
      answer.textContent = '';
      dialog.showModal();
    },
  };
}

function run_page(run) {
  const asks = {stop: ask_dialog(run, 'stop'), evaluate: ask_dialog(run, 'evaluate')};
  const parts = {
    head: head_part(run, what => asks[what].open()), lanes: lanes_part(), curves: curves_part(), devices: devices_part(), plan: plan_part(), time: time_part(), groups: groups_part(), events: events_part()};
  const rest = html('div', {hidden: ''}, ...['lanes', 'curves', 'devices', 'plan', 'time', 'groups', 'events'].map(name => parts[name].node));
  const show = (name, data) => {
    if (name !== 'head') rest.hidden = false;
    parts[name]?.set(data);
    if (name === 'head' && known(data.title)) document.title = `${data.title} (${data.state}) \u00b7 Paceline`;
  };
  return {
    title: run,
    node: html('div', {}, parts.head.node, rest, asks.stop.node, asks.evaluate.node),
    address: `/api/events?part=run&run=${encodeURIComponent(run)}`,
    on: {part: ({part, data}) => show(part, data), gone: () => show('head', {state: 'gone', why: '', holds_back: 'there is no such run any more', trouble: ''})},
  };
}
