#include "paceline/rpc/live_controller.h"

#include <algorithm>
#include <string>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::rpc {

namespace {

bool is_commit(const control::Order& order) { return std::holds_alternative<control::CommitRecord>(order); }

}  // namespace

LiveController::LiveController(EventLoop& loop, const control::ControllerConfig& config,
                               std::unique_ptr<policy::SyncPolicy> policy,
                               std::vector<control::RunListener*> listeners,
                               std::function<void(const control::Order&)> carry_out,
                               std::function<absl::Status()> keep_books)
    : config_(config),
      controller_(config, std::move(policy)),
      listeners_(std::move(listeners)),
      carry_out_(std::move(carry_out)),
      keep_books_(std::move(keep_books)),
      timer_(loop, [this] {
        const absl::Status status = take(control::TimerRang{});
        PACELINE_CHECK(status.ok(), "{}", std::string(status.message()));
      }) {
  watch({});
}

void LiveController::watch(const std::optional<control::ControllerState>& start) {
  witnesses_.emplace(
      control::Observer(controller_.bounds(), config_.dataset_size, config_.total_samples, start),
      listeners_);
}

absl::Status LiveController::restore(const control::ControllerState& state, Duration elapsed) {
  PACELINE_RETURN_IF_ERROR(controller_.restore(state));
  watch(state);
  elapsed_before_ = elapsed;
  return absl::OkStatus();
}

Time LiveController::now() const {
  Time time = Time{} + elapsed_before_;
  if (started_) time += std::chrono::steady_clock::now() - *started_;
  return time;
}

absl::Status LiveController::take(decltype(control::Fact::what) what) {
  if (ended_) return absl::OkStatus();
  const control::Fact fact{now(), std::move(what)};
  std::vector<control::Order> orders;
  PACELINE_RETURN_IF_ERROR(controller_.handle(fact, orders));
  if (controller_.started() && !started_) started_ = std::chrono::steady_clock::now();
  // Peers first: they wait for their orders, the books do not. But what ends the run waits for the books, and
  // a commit does where servers may still have it when the books are all that is left of this process.
  const bool finished = controller_.finished();
  const bool books_first = keep_books_ && std::any_of(orders.begin(), orders.end(), is_commit);
  if (books_first) {
    show(fact, orders);
    if (!keep_books_().ok()) {
      end();
      return absl::OkStatus();
    }
  }
  for (const control::Order& order : orders) {
    if (!std::holds_alternative<control::Finish>(order)) carry_out(order);
  }
  if (!books_first) show(fact, orders);
  if (finished) {
    end();
    carry_out(orders.back());
  }
  return absl::OkStatus();
}

void LiveController::show(const control::Fact& fact, const std::vector<control::Order>& orders) {
  const auto complaint = witnesses_->record(fact, orders);
  PACELINE_CHECK(!complaint, "{}", *complaint);
}

void LiveController::carry_out(const control::Order& order) {
  const auto* wake = std::get_if<control::WakeAt>(&order);
  if (wake == nullptr) return carry_out_(order);
  timer_.set(*started_ + (wake->at.time_since_epoch() - elapsed_before_));
}

}  // namespace paceline::rpc
