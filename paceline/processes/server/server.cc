#include "paceline/processes/server/server.h"

#include <string>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/disconnect.h"

namespace paceline::server {

namespace {

wire::ServerMessage kept_message(Version version) {
  wire::ServerMessage kept;
  kept.mutable_kept()->set_version(version.value());
  return kept;
}

wire::ServerMessage host_lost_message(const absl::Status& why) {
  wire::ServerMessage failed;
  failed.mutable_failed()->set_error(std::string(why.message()));
  failed.mutable_failed()->set_host_lost(true);
  return failed;
}

}  // namespace

Server::Server(Outbox& outbox, CommitLog& log, Shards& shards) : outbox_(outbox), log_(log), shards_(shards) {
  if (!log_.ballot()) {
    log_ = CommitLog();
    shards_.forget();
  }
  log_.new_session();
}

void Server::introduce(wire::ServerHello& hello) const {
  if (auto ballot = log_.ballot()) *hello.mutable_ballot() = *std::move(ballot);
}

absl::Status Server::take(wire::ServerOrder order) {
  PACELINE_CHECK(!busy(), "an order is taken while version {} is prepared", preparing_->version());
  return settle(carry_out(std::move(order)));
}

absl::Status Server::prepared(const absl::Status& outcome) {
  PACELINE_CHECK(busy(), "a version is prepared that nobody waits for");
  const wire::Apply commit = *std::exchange(preparing_, std::nullopt);
  return settle(outcome.ok() ? act(log_.prepared(commit)) : outcome);
}

absl::Status Server::settle(const absl::Status& outcome) {
  if (outcome.ok()) return outcome;
  const bool host_lost = shards_.host_lost();
  // The traffic has told the coordinator, and what is certain stays here.
  if (host_lost && log_.cut_off()) return absl::OkStatus();
  lost_host_ = host_lost;
  say_failed(outcome);
  return outcome;
}

absl::Status Server::carry_out(wire::ServerOrder order) {
  if (order.has_start()) return start(order.start());
  PACELINE_ASSIGN_OR_RETURN(const Actions actions, log_.take(std::move(order)));
  PACELINE_RETURN_IF_ERROR(act(actions));
  return make_early();
}

absl::Status Server::look() { return settle(make_early()); }

absl::Status Server::make_early() {
  const wire::Apply* const commit = log_.expected();
  if (commit == nullptr || !shards_.are_ready(*commit)) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(shards_.make_early(*commit));
  log_.made_early();
  ++made_;
  ++made_early_;
  return absl::OkStatus();
}

absl::Status Server::start(const wire::ServerStart& order) {
  wire::ServerMessage message;
  wire::ServerStarted& started = *message.mutable_started();
  PACELINE_RETURN_IF_ERROR(shards_.check(order, started));
  if (!started.error().empty()) return say(std::move(message));
  log_ = CommitLog();
  PACELINE_RETURN_IF_ERROR(shards_.start(
      order, started,
      {.kept_there = [&out = outbox_](Version version) { out.send(kept_message(version)); },
       .failed = [&out = outbox_](const absl::Status& why) { out.send(host_lost_message(why)); }}));
  if (started.error().empty()) log_.start(order);
  return say(std::move(message));
}

absl::Status Server::act(const Actions& actions) {
  for (const Action& action : actions)
    PACELINE_RETURN_IF_ERROR(std::visit([this](const auto& one) { return act(one); }, action));
  return absl::OkStatus();
}

absl::Status Server::act(const CarryOut& turn) {
  const wire::ServerOrder& order = turn.order;
  switch (order.what_case()) {
    case wire::ServerOrder::kMapGradient:
      return map_gradient(order.map_gradient());
    case wire::ServerOrder::kUnmapGradient:
      return shards_.unmap_gradient(order.unmap_gradient().replica());
    case wire::ServerOrder::kReleaseReader:
      shards_.release_reader(order.release_reader().reader());
      return absl::OkStatus();
    case wire::ServerOrder::kWant:
      shards_.want(order.want().host(), Version(order.want().version()));
      return absl::OkStatus();
    case wire::ServerOrder::kSendEarly:
      return shards_.send_early(order.send_early());
    case wire::ServerOrder::kKeep:
      return keep(order.keep());
    case wire::ServerOrder::kDrop:
      shards_.drop(Version(order.drop().version()), order.drop().checkpoint());
      return absl::OkStatus();
    case wire::ServerOrder::kWriteCheckpoint:
      return write_checkpoint(order.write_checkpoint());
    default:
      return absl::InternalError("the coordinator sent an unknown order");
  }
}

absl::Status Server::map_gradient(const wire::MapGradient& order) {
  wire::ServerMessage mapped;
  mapped.mutable_mapped()->set_replica(order.replica());
  mapped.mutable_mapped()->set_error(std::string(shards_.map_gradient(order).message()));
  return say(std::move(mapped));
}

// ---- Versions ----

absl::Status Server::act(const Make& make) {
  PACELINE_RETURN_IF_ERROR(shards_.make(make.commit));
  ++made_;
  return act(log_.made(Version(make.commit.version())));
}

// Nothing follows it in its list of actions: what is behind it waits until it is certain.
absl::Status Server::act(const Prepare& prepare) {
  const std::optional<absl::Status> outcome = shards_.prepare(prepare.commit);
  if (!outcome) {
    preparing_ = prepare.commit;
    return absl::OkStatus();
  }
  PACELINE_RETURN_IF_ERROR(*outcome);
  return act(log_.prepared(prepare.commit));
}

absl::Status Server::act(const Publish& publish) {
  shards_.publish(publish.version);
  return absl::OkStatus();
}

absl::Status Server::act(const Confirm& confirm) {
  shards_.confirm(confirm.version);
  return absl::OkStatus();
}

absl::Status Server::keep(const wire::Keep& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(shards_.keep(order));
  return shards_.keeps_elsewhere(version) ? absl::OkStatus() : say(kept_message(version));
}

// ---- Checkpoints ----

absl::Status Server::write_checkpoint(const wire::WriteCheckpoint& order) {
  const Version version(order.version());
  wire::Keep keep;
  keep.set_version(order.version());
  PACELINE_RETURN_IF_ERROR(shards_.keep(keep));
  return shards_.write_checkpoint(order, [&out = outbox_, version](const absl::Status& status) {
    wire::ServerMessage written;
    written.mutable_written()->set_version(version.value());
    if (!status.ok()) written.mutable_written()->set_error(std::string(status.message()));
    out.send(std::move(written));
  });
}

// Nothing changes any more: no commit is made after this.
absl::Status Server::act(const WriteCopy& copy) {
  shards_.write_copy(copy, [&out = outbox_, shard = copy.shard](const absl::Status& status) {
    wire::ServerMessage written;
    written.mutable_copy_written()->set_shard(shard.value());
    written.mutable_copy_written()->set_error(std::string(status.message()));
    out.send(std::move(written));
  });
  return absl::OkStatus();
}

// ---- Messages ----

void Server::say_failed(const absl::Status& status) {
  wire::ServerMessage message;
  wire::ServerFailed& failed = *message.mutable_failed();
  failed.set_error(std::string(status.message()));
  failed.set_host_lost(lost_host_);
  shards_.explain(failed);
  outbox_.send(std::move(message));
}

absl::Status Server::say(wire::ServerMessage message) {
  return outbox_.send(std::move(message)) ? absl::OkStatus() : wire::coordinator_lost();
}

}  // namespace paceline::server
