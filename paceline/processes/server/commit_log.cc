#include "paceline/processes/server/commit_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::server {

namespace {

// Orders whose turn is only after the commits before them.
bool has_turn(const wire::ServerOrder& order) {
  return order.has_apply() || order.has_unmap_gradient() || order.has_keep() || order.has_drop() ||
         order.has_write_checkpoint() || order.has_send_early();
}

}  // namespace

void CommitLog::new_session() {
  started_ = cut_off_ = made_early_ = false;
  expected_.reset();
  waiting_.clear();
}

void CommitLog::start(const wire::ServerStart& order) {
  *this = CommitLog();
  started_ = true;
  announce_ = order.announce();
  attempt_ = order.attempt();
  server_ = ServerId(order.shard());
  shards_ = order.shard_count();
  copies_ = std::max(1, order.copies());
  began_with_ = published_ = Version(order.version());
}

absl::StatusOr<Actions> CommitLog::take(wire::ServerOrder order) {
  Actions actions;
  if (order.has_write_copy() && twice()) {
    const wire::WriteCopy& copy = order.write_copy();
    const bool publishes = prepared_ == Version(copy.version());
    cut_off_ = true;
    if (publishes) published_ = *std::exchange(prepared_, std::nullopt);
    actions.emplace_back(
        WriteCopy{Version(copy.version()), ShardId(copy.shard()), copy.dir(), publishes, copy.by_call()});
    return actions;
  }
  if (!started_) return absl::InternalError("the coordinator sent an order before the start");
  if (order.has_publish()) return publish(Version(order.publish().version()));
  if (order.has_expect()) {
    PACELINE_RETURN_IF_ERROR(expect(std::move(*order.mutable_expect()->mutable_commit())));
    return actions;
  }
  if (order.has_revoke()) {
    actions.emplace_back(SendMessage{revoke(Version(order.revoke().version()))});
    return actions;
  }
  if (order.has_apply() && made_early_) return confirm(order.apply());
  if (order.has_write_checkpoint() && made_early_)
    return absl::InternalError(fmt::format("a checkpoint of version {} is wanted, and version {} is made",
                                           order.write_checkpoint().version(), published_));
  if (cut_off_) return actions;
  if (waits() && has_turn(order)) {
    waiting_.push_back(std::move(order));
    send_ahead(actions);
  } else {
    carry_out(std::move(order), actions);
  }
  return actions;
}

absl::StatusOr<Actions> CommitLog::publish(Version version) {
  if (prepared_ != version)
    return absl::InternalError(fmt::format("version {} is said to be certain and is not here", version));
  prepared_.reset();
  published_ = version;
  Actions actions;
  actions.emplace_back(Publish{version});
  say_applied(version, actions);
  // Up to the next commit: what is behind that waits for it.
  bool prepares = false;
  while (!waiting_.empty() && !prepares && !cut_off_) {
    wire::ServerOrder order = std::move(waiting_.front());
    waiting_.pop_front();
    prepares = order.has_apply();
    carry_out(std::move(order), actions);
  }
  return actions;
}

absl::Status CommitLog::expect(wire::Apply commit) {
  const Version version(commit.version());
  // A server that came back may have it.
  if (version == published_) return absl::OkStatus();
  if (twice() || made_early_ || version != published_.next())
    return absl::InternalError(fmt::format("version {} is expected after version {}", version, published_));
  expected_ = std::move(commit);
  return absl::OkStatus();
}

wire::ServerMessage CommitLog::revoke(Version version) {
  if (!made_early_) expected_.reset();
  wire::ServerMessage message;
  message.mutable_revoked()->set_version(version.value());
  message.mutable_revoked()->set_made(published_ >= version);
  return message;
}

void CommitLog::made_early() {
  PACELINE_CHECK(expected() != nullptr, "version {} was made early and nobody expected it",
                 published_.next());
  published_ = Version(expected_->version());
  made_early_ = true;
}

absl::StatusOr<Actions> CommitLog::confirm(const wire::Apply& commit) {
  if (commit.SerializeAsString() != expected_->SerializeAsString())
    return absl::InternalError(
        fmt::format("commit {} is another one than the coordinator had said before", commit.version()));
  expected_.reset();
  made_early_ = false;
  Actions actions;
  actions.emplace_back(Confirm{published_});
  say_applied(published_, actions);
  return actions;
}

void CommitLog::carry_out(wire::ServerOrder order, Actions& actions) {
  if (!order.has_apply()) {
    actions.emplace_back(CarryOut{std::move(order)});
    return;
  }
  expected_.reset();
  // The server before this one made it early. The members have read that version, and may have written over their
  // gradients since.
  if (Version(order.apply().version()) <= began_with_) return;
  if (twice()) {
    actions.emplace_back(Prepare{std::move(*order.mutable_apply())});
  } else {
    actions.emplace_back(Make{std::move(*order.mutable_apply())});
  }
}

Actions CommitLog::made(Version version) {
  published_ = version;
  Actions actions;
  say_applied(version, actions);
  return actions;
}

Actions CommitLog::prepared(const wire::Apply& commit) {
  PACELINE_CHECK(!waits(), "version {} was prepared before {} was certain", commit.version(), *prepared_);
  prepared_ = Version(commit.version());
  state_ = commit.state();
  elapsed_ns_ = commit.elapsed_ns();
  Actions actions;
  wire::ServerMessage message;
  message.mutable_prepared()->set_version(commit.version());
  actions.emplace_back(SendMessage{std::move(message)});
  if (!cut_off_) send_ahead(actions);
  return actions;
}

// Sends ahead only for the next commit: a later one's gradients would have to wait for it.
void CommitLog::send_ahead(Actions& actions) const {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                 [](const wire::ServerOrder& order) { return order.has_apply(); });
  if (next != waiting_.end()) actions.emplace_back(SendAhead{next->apply()});
}

void CommitLog::say_applied(Version version, Actions& actions) const {
  if (!announce_) return;
  wire::ServerMessage message;
  message.mutable_applied()->set_version(version.value());
  actions.emplace_back(SendMessage{std::move(message)});
}

bool CommitLog::cut_off() {
  cut_off_ = twice();
  return cut_off_;
}

std::optional<wire::Ballot> CommitLog::ballot() const {
  if (!twice() || state_.empty()) return std::nullopt;
  wire::Ballot ballot;
  ballot.set_attempt(attempt_);
  ballot.set_shard(server_.value());
  ballot.set_shard_count(shards_);
  ballot.set_copies(copies_);
  ballot.set_published(published_.value());
  ballot.set_made(prepared_.value_or(published_).value());
  ballot.set_state(state_);
  ballot.set_elapsed_ns(elapsed_ns_);
  return ballot;
}

}  // namespace paceline::server
