#include "paceline/decisions/coordinator/timed_controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

namespace {

bool is_commit(const control::Order& order) { return std::holds_alternative<control::CommitRecord>(order); }

TimedController::ReleasedNext released_by(std::span<const control::Order> orders) {
  TimedController::ReleasedNext released;
  for (const control::Order& order : orders) {
    if (const auto* release = std::get_if<control::Release>(&order)) released.insert(release->replica);
  }
  return released;
}

}  // namespace

TimedController::TimedController(const control::ControllerConfig& config,
                                 std::unique_ptr<policy::SyncPolicy> policy, Outbox& out, CarryOut carry_out,
                                 bool records_first, std::unique_ptr<control::Replanner> replanner)
    : controller_(config, std::move(policy), std::move(replanner)),
      out_(out),
      carry_out_(std::move(carry_out)),
      records_first_(records_first) {}

absl::Status TimedController::restore(const control::ControllerState& state, Duration elapsed) {
  PACELINE_RETURN_IF_ERROR(controller_.restore(state));
  elapsed_before_ = elapsed;
  return absl::OkStatus();
}

Time TimedController::time(SteadyTime at) const {
  Time time = Time{} + elapsed_before_;
  if (started_) time += at - *started_;
  return time;
}

void TimedController::foresee(std::size_t servers, std::function<void(ServerOrder)> tell, Waiting waiting) {
  waiting_ = std::move(waiting);
  foresight_.emplace(servers, std::move(tell));
}

absl::Status TimedController::take(SteadyTime at, decltype(control::Fact::what) what) {
  if (ended_) return absl::OkStatus();
  if (foresight_ && !foresight_->may_take(what)) {
    foresight_->hold(std::move(what));
    return absl::OkStatus();
  }
  PACELINE_RETURN_IF_ERROR(handle(at, std::move(what)));
  go_on(at);
  return absl::OkStatus();
}

bool TimedController::tell_later(const UnmapGradient& order) {
  if (!foresight_ || ended_ || !foresight_->holds()) return false;
  foresight_->hold(order);
  return true;
}

bool TimedController::settle() {
  if (!foresight_ || !foresight_->expects()) return true;
  foresight_->revoke();
  return false;
}

void TimedController::answered(SteadyTime at, ServerId server, Version version, bool made) {
  if (!foresight_) return;
  foresight_->answered(server, version, made);
  go_on(at);
}

std::optional<Expect> TimedController::back(SteadyTime at, ServerId server, Version version, bool begun) {
  if (!foresight_) return std::nullopt;
  auto expect = foresight_->back(server, version, begun);
  go_on(at);
  return expect;
}

void TimedController::go_on(SteadyTime at) {
  if (!foresight_) return;
  while (!ended_) {
    auto held = foresight_->next_held();
    if (!held) break;
    take_held(at, *std::move(held));
  }
  if (ended_ || foresight_->expects()) return;
  waiting_.settled();
  if (ended_ || foresight_->expects()) return;
  if (auto next = controller_.next_commit()) foresight_->expect(*std::move(next));
}

void TimedController::take_held(SteadyTime at, Foresight::Held held) {
  if (const auto* const order = std::get_if<UnmapGradient>(&held)) return foresight_->tell(*order);
  auto& fact = std::get<decltype(control::Fact::what)>(held);
  const auto* const ready = std::get_if<control::ReplicaReady>(&fact);
  const std::optional<ReplicaId> replica = ready != nullptr ? std::optional(ready->replica) : std::nullopt;
  const absl::Status status = handle(at, std::move(fact));
  if (status.ok()) return;
  PACELINE_CHECK(replica, "{}", message_of(status));
  waiting_.refused(*replica, status);
}

absl::Status TimedController::handle(SteadyTime at, decltype(control::Fact::what) what) {
  control::Fact fact{time(at), std::move(what)};
  std::vector<control::Order> orders;
  PACELINE_RETURN_IF_ERROR(controller_.handle(fact, orders));
  if (foresight_) {
    foresight_->taken(fact.what);
    for (const control::Order& order : orders) {
      if (const auto* commit = std::get_if<control::CommitRecord>(&order)) foresight_->ordered(*commit);
    }
  }
  if (controller_.started() && !started_) started_ = at;
  // Peers come first, because they wait for their orders and the recorder does not. But the end of the run
  // waits for the records. A commit waits too, if servers may still have it when only the records of this
  // process are left.
  const bool records_first = records_first_ && std::any_of(orders.begin(), orders.end(), is_commit);
  if (records_first) {
    out_.put(Record{fact, orders});
    out_.put(FlushRecords{});
  }
  const bool finished = controller_.finished();
  for (auto left = std::span<const control::Order>(orders); !left.empty(); left = left.subspan(1)) {
    if (!std::holds_alternative<control::Finish>(left.front())) carry_out(left.front(), left.subspan(1));
  }
  std::optional<control::Order> last;
  if (finished) last = orders.back();
  if (!records_first) out_.put(Record{std::move(fact), std::move(orders)});
  if (!finished) return absl::OkStatus();
  end();
  carry_out(*last, {});
  return absl::OkStatus();
}

void TimedController::carry_out(const control::Order& order, std::span<const control::Order> later) {
  if (const auto* wake = std::get_if<control::WakeAt>(&order)) {
    out_.put(WakeUp{*started_ + (wake->at.time_since_epoch() - elapsed_before_)});
  } else if (const auto* search = std::get_if<control::SearchPlan>(&order)) {
    out_.put(*search);
  } else {
    carry_out_(order, is_commit(order) ? released_by(later) : ReleasedNext{});
  }
}

}  // namespace paceline::coordinator
