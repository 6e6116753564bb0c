// The page of one run.

function stop_dialog(run) {
  const token = html('input', {type: 'password', id: 'job-token', autocomplete: 'off', required: ''});
  const answer = html('p', {role: 'status'});
  const send = html('button', {type: 'submit', class: 'danger'}, 'Stop the run');
  const cancel = html('button', {type: 'button'}, 'Cancel');
  const form = html('form', {method: 'dialog'}, html('h2', {id: 'stop-title'}, 'Stop this run?'),
    html('p', {}, 'It stops with a checkpoint, and you can go on with it later. Show the token of the job: it is in the file \u201ctoken\u201d of the run\u2019s folder, or where the job\u2019s token_file says.'),
    html('label', {for: 'job-token'}, 'Token of the job'), token, answer, html('div', {class: 'tools'}, send, cancel));
  const dialog = html('dialog', {'aria-labelledby': 'stop-title'}, form);
  cancel.addEventListener('click', () => dialog.close());
  form.addEventListener('submit', async event => {
    event.preventDefault();
    send.disabled = true;
    answer.textContent = 'Asking\u2026';
    try {
      const reply = await fetch(`/api/stop?run=${encodeURIComponent(run)}`, {method: 'POST', headers: {'X-Paceline-Job-Token': token.value.trim()}});
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
  return dialog;
}

function run_page(run) {
  const dialog = stop_dialog(run);
  const parts = {
    head: head_part(run, () => dialog.showModal()), lanes: lanes_part(), curves: curves_part(), devices: devices_part(), plan: plan_part(), time: time_part(), groups: groups_part(), events: events_part()};
  const rest = html('div', {hidden: ''}, ...['lanes', 'curves', 'devices', 'plan', 'time', 'groups', 'events'].map(name => parts[name].node));
  const show = (name, data) => {
    if (name !== 'head') rest.hidden = false;
    parts[name]?.set(data);
    if (name === 'head' && known(data.title)) document.title = `${data.title} (${data.state}) \u00b7 Paceline`;
  };
  return {
    title: run,
    node: html('div', {}, parts.head.node, rest, dialog),
    address: `/api/events?part=run&run=${encodeURIComponent(run)}`,
    on: {part: ({part, data}) => show(part, data), gone: () => show('head', {state: 'gone', why: '', holds_back: 'there is no such run any more', trouble: ''})},
  };
}
