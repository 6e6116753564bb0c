#include "paceline/formats/wire/coordinator_orders.h"

#include "paceline/formats/wire/wire.h"

namespace paceline::wire {

namespace {

Disconnect::Reason reason_of(coordinator::Disconnect::Reason reason) {
  switch (reason) {
    case coordinator::Disconnect::Reason::kNone:
      break;
    case coordinator::Disconnect::Reason::kPlaceTaken:
      return Disconnect::PLACE_TAKEN;
    case coordinator::Disconnect::Reason::kHostGivenUp:
      return Disconnect::HOST_GIVEN_UP;
  }
  return Disconnect::NONE;
}

template <class Order>
void put(Order& to, const coordinator::Disconnect& order) {
  Disconnect& message = *to.mutable_disconnect();
  message.set_refused(order.refused);
  message.set_why(order.why);
  message.set_again(order.again);
  message.set_failed(order.failed);
  message.set_reason(reason_of(order.reason));
  message.set_stopped(order.stopped);
  message.set_interrupted(order.interrupted);
  message.set_first(order.first);
}

template <class Order>
void put(Order& to, const coordinator::Welcome& order) {
  to.mutable_welcome()->set_job_toml(order.job_toml);
  to.mutable_welcome()->set_started(order.started);
  to.mutable_welcome()->set_resumed(order.resumed);
  to.mutable_welcome()->set_run(order.run);
}

template <class Order>
void put(Order& to, const coordinator::Boards& order) {
  Boards& message = *to.mutable_boards();
  message.set_reader(order.reader);
  for (const coordinator::Board& board : order.boards) {
    Board& added = *message.add_boards();
    added.set_path(board.path);
    *added.mutable_part() = to_wire(board.part);
    added.set_card(board.card);
    added.set_socket(board.socket);
    added.set_bell(board.bell);
  }
}

// ---- Workers

void put(StageWay& message, const coordinator::StageWay& way) {
  message.set_turn(way.turn);
  message.set_path(way.path);
  if (!way.link) return;
  StageLink& link = *message.mutable_link();
  link.set_name(way.link->name);
  link.set_address(way.link->address);
  link.set_send_key(way.link->send_key);
  link.set_receive_key(way.link->receive_key);
  link.set_to(way.link->to);
  link.set_carries(way.link->carries);
}

void put(WorkerOrder& to, const coordinator::Role& order) {
  Role& message = *to.mutable_role();
  message.set_replica(order.replica.value());
  message.set_stage(order.stage);
  message.mutable_cuts()->Add(order.cuts.begin(), order.cuts.end());
  message.set_micro_batch(order.micro_batch);
  message.set_gradient_path(order.gradient_path);
  message.set_turn(order.turn);
  message.mutable_widths()->Add(order.widths.begin(), order.widths.end());
  for (const coordinator::StageWay& way : order.previous) put(*message.add_previous(), way);
  for (const coordinator::StageWay& way : order.next) put(*message.add_next(), way);
  if (order.home) put(*message.mutable_home(), *order.home);
  for (const coordinator::StageWay& way : order.gradients) put(*message.add_gradients(), way);
}

void put(WorkerOrder& to, const coordinator::BeginIteration& order) {
  WorkerRelease& message = *to.mutable_release();
  const control::Release& release = order.release;
  message.set_clock(release.clock.value());
  message.set_version(release.version.value());
  *message.mutable_lease() = to_wire(release.lease);
  message.set_at_ns(order.at.time_since_epoch().count());
  message.set_learning_rate(release.learning_rate);
  message.set_staleness(release.staleness);
  message.set_fraction(release.fraction);
  message.set_steps(release.steps);
  for (const paceline::Lease& lease : release.ahead) *message.add_ahead() = to_wire(lease);
}

void put(WorkerOrder& to, const coordinator::Reduce& order) {
  Reduce& message = *to.mutable_reduce();
  message.set_version(order.version.value());
  message.set_rank(order.rank);
  for (const coordinator::Reduce::Member& member : order.members) {
    Reduce::Member& added = *message.add_members();
    added.set_replica(member.replica.value());
    added.set_clock(member.clock.value());
    added.set_weight(member.weight);
    added.set_gradient_path(member.gradient_path);
  }
  for (const ReplicaId replica : order.left) message.add_left(replica.value());
}

void put(WorkerOrder& to, const coordinator::Dissolve& order) {
  to.mutable_dissolve()->set_replica(order.replica.value());
}

void put(WorkerOrder& to, const coordinator::TakeLast& order) {
  to.mutable_take_last()->set_version(order.version.value());
}

// ---- Servers

void put(ServerOrder& to, const coordinator::ServerStart& order) {
  ServerStart& message = *to.mutable_start();
  message.set_job_toml(order.job_toml);
  message.set_shard(order.shard);
  message.set_shard_count(order.shard_count);
  *message.mutable_part() = to_wire(order.part);
  message.set_part_offset(order.part_offset);
  message.set_whole_floats(order.whole_floats);
  message.set_readers(order.readers);
  message.set_version(order.version.value());
  message.set_weights_path(order.weights_path);
  message.set_checkpoint_dir(order.checkpoint_dir);
  message.set_announce(order.announce);
  for (const coordinator::HostShard& host : order.hosts) {
    HostShard& added = *message.add_hosts();
    added.set_exchange(host.exchange);
    *added.mutable_part() = to_wire(host.part);
    added.set_send_key(host.send_key);
    added.set_receive_key(host.receive_key);
  }
  message.set_mark_file(order.mark_file);
  message.set_mark_text(order.mark_text);
  message.set_copies(order.copies);
  message.set_evaluator_host(order.evaluator_host.value());
  message.set_attempt(order.attempt);
  if (order.whole) *message.mutable_whole() = to_wire(*order.whole);
  message.set_by_call(order.by_call);
  for (const std::string& file : order.checkpoint_files) message.add_checkpoint_files(file);
  message.set_first_passed_on(order.first_passed_on);
  message.set_take_up(order.take_up);
  message.set_card(order.card);
  message.set_card_holders(order.card_holders);
}

void put(ServerOrder& to, const coordinator::MapGradient& order) {
  to.mutable_map_gradient()->set_replica(order.replica.value());
  to.mutable_map_gradient()->set_path(order.path);
  to.mutable_map_gradient()->set_host(order.host.value());
  to.mutable_map_gradient()->set_card(order.card);
}

void put(ServerOrder& to, const coordinator::UnmapGradient& order) {
  to.mutable_unmap_gradient()->set_replica(order.replica.value());
}

void put(ServerOrder& to, const coordinator::ReleaseReader& order) {
  to.mutable_release_reader()->set_reader(order.reader);
}

void put(Apply& message, const coordinator::Apply& order) {
  message.set_version(order.version.value());
  for (const coordinator::Apply::Member& member : order.members) {
    Apply::Member& added = *message.add_members();
    added.set_replica(member.replica.value());
    added.set_clock(member.clock.value());
    added.set_weight(member.weight);
    added.set_share(member.share);
    added.set_waits(member.waits);
    added.set_early(member.early.value());
  }
  message.set_learning_rate(order.learning_rate);
  message.set_fraction(order.fraction);
  message.set_of_differences(order.of_differences);
  message.set_group(order.group);
  message.set_state(order.state);
  message.set_elapsed_ns(order.elapsed.count());
}

void put(ServerOrder& to, const coordinator::Apply& order) { put(*to.mutable_apply(), order); }

void put(ServerOrder& to, const coordinator::Expect& order) {
  put(*to.mutable_expect()->mutable_commit(), order.commit);
}

void put(ServerOrder& to, const coordinator::Revoke& order) {
  to.mutable_revoke()->set_version(order.version.value());
}

void put(ServerOrder& to, const coordinator::SendEarly& order) {
  to.mutable_send_early()->set_replica(order.replica.value());
  to.mutable_send_early()->set_clock(order.clock.value());
  to.mutable_send_early()->set_number(order.number.value());
}

void put(ServerOrder& to, const coordinator::Want& order) {
  to.mutable_want()->set_host(order.host.value());
  to.mutable_want()->set_version(order.version.value());
}

void put(ServerOrder& to, const coordinator::Keep& order) {
  to.mutable_keep()->set_version(order.version.value());
  to.mutable_keep()->set_again(order.again);
  to.mutable_keep()->set_in_host(order.in_host);
}

void put(ServerOrder& to, const coordinator::Drop& order) {
  to.mutable_drop()->set_version(order.version.value());
  to.mutable_drop()->set_checkpoint(order.checkpoint);
}

void put(ServerOrder& to, const coordinator::WriteCheckpoint& order) {
  to.mutable_write_checkpoint()->set_version(order.version.value());
  to.mutable_write_checkpoint()->set_dir(order.dir);
}

void put(ServerOrder& to, const coordinator::Publish& order) {
  to.mutable_publish()->set_version(order.version.value());
}

void put(ServerOrder& to, const coordinator::WriteCopy& order) {
  WriteCopy& message = *to.mutable_write_copy();
  message.set_version(order.version.value());
  message.set_shard(order.shard.value());
  message.set_dir(order.dir);
  message.set_by_call(order.by_call);
}

// ---- The evaluator

void put(EvaluatorOrder& to, const coordinator::EvaluateVersion& order) {
  to.mutable_evaluate()->set_version(order.version.value());
}

template <class Message, class Order>
Message message_of(const Order& order) {
  Message message;
  std::visit([&](const auto& one) { put(message, one); }, order);
  return message;
}

}  // namespace

WorkerOrder to_wire(const coordinator::WorkerOrder& order) { return message_of<WorkerOrder>(order); }
ServerOrder to_wire(const coordinator::ServerOrder& order) { return message_of<ServerOrder>(order); }
EvaluatorOrder to_wire(const coordinator::EvaluatorOrder& order) { return message_of<EvaluatorOrder>(order); }

}  // namespace paceline::wire
