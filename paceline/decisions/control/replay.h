// Compares a recorded run with a fresh Controller: the same facts must give the same orders, field by field.
// It gets the recording as a RunListener (from a journal, or beside a run under way), keeps the first
// difference in words, and ignores everything after it.
//
// The reservations in a release are compared only if the recording has them: a journal does not. A
// reservation decides nothing before it is a lease, and leases are compared.
//
// Plans are searched again, and compared with the recorded ones. If the Replay has no Replanner (a recording
// from before plans were orders), orders about plans are not compared.
//
// A recording may end in the middle of a fact's orders, where a file ends: that is no difference. Evaluations
// are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/run_listener.h"

namespace paceline::control {

class Replay final : public RunListener {
 public:
  // `start`: what the recorded run was restored from, if it was. Errors: those of Controller::restore().
  static absl::StatusOr<std::unique_ptr<Replay>> make(ControllerConfig config,
                                                      std::unique_ptr<policy::SyncPolicy> policy,
                                                      const std::optional<ControllerState>& start,
                                                      std::unique_ptr<Replanner> replanner = nullptr);

  void on_fact(const Fact& fact) override;
  void on_order(Time at, const Order& order) override;
  void on_evaluated(const Evaluated&) override {}

  // The fact, the recorded order, and the order of the Controller now. nullopt while all is the same.
  const std::optional<std::string>& difference() const { return difference_; }
  // Shown, up to the first difference; its fact included.
  std::int64_t facts() const { return facts_; }
  // The number of orders that agreed.
  std::int64_t orders() const { return orders_; }

 private:
  Replay(ControllerConfig config, std::unique_ptr<policy::SyncPolicy> policy,
         std::unique_ptr<Replanner> replanner);
  bool same_search(const PlanSearched& recorded);
  void differ(std::string_view recorded, std::string_view now);
  std::string fact_in_words() const;

  const bool looks_at_plans_;
  const double rounding_;  // learning rates that differ by no more are the same
  Controller controller_;
  std::optional<Fact> fact_;              // the latest
  std::vector<Order> expected_;           // orders that the fact gives
  std::size_t seen_ = 0;                  // number of expected_ that have been seen
  std::optional<PlanSearched> searched_;  // result of the newest search
  std::int64_t facts_ = 0;
  std::int64_t orders_ = 0;
  std::optional<std::string> difference_;
};

}  // namespace paceline::control
