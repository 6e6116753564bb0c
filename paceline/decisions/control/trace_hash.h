// One number over all facts and orders of a run: two runs with the same number took the same course. It
// includes every field of every fact and order, in order, except the losses. Losses come from the gradients,
// which differ between machines, and no decision depends on them. Evaluations are left out for the same
// reason. Reservations are left out because a journal does not have them, and they decide nothing before they
// are leases.
//
// Invariant: the same course gives the same number on every machine (with a cosine learning rate, if the C
// libraries' cosines are equal), and a change of one field gives another number. It protects against chance,
// not against malice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "paceline/decisions/control/run_listener.h"

namespace paceline::control {

class TraceHash final : public RunListener {
 public:
  void on_fact(const Fact& fact) override;
  void on_order(Time at, const Order& order) override;
  void on_evaluated(const Evaluated&) override {}

  std::uint64_t value() const { return state_; }
  // value() in 16 digits.
  std::string hex() const;

 private:
  template <class... Fields>
  void fold_all(const Fields&... fields) {
    (fold(fields), ...);
  }
  void fold(std::uint64_t word);
  void fold(std::int64_t number) { fold(static_cast<std::uint64_t>(number)); }
  void fold(std::string_view text);
  void fold(double number);
  void fold(Time at) { fold(std::int64_t{at.time_since_epoch().count()}); }
  void fold(Duration duration) { fold(std::int64_t{duration.count()}); }
  template <class Tag, class Rep>
  void fold(StrongInt<Tag, Rep> id) {
    fold(std::int64_t{id.value()});
  }
  void fold(const Lease& lease);
  void fold(const policy::Reason& why) { fold_all(why.text, why.a, why.b); }
  void fold(const ControllerState& state);

  void fold(const ReplicaJoined& fact);
  void fold(const ReplicaLeft& fact);
  void fold(const ReplicaReady& fact);
  void fold(const TimerRang&) {}
  void fold(const StopAsked& fact) { fold(std::string_view(fact.why)); }
  void fold(const CommitComplete& fact) { fold(fact.version); }
  void fold(const CommitMember& member);
  void fold(const CommitRecord& order);
  void fold(const Release& order);
  void fold(const Discard& order);
  void fold(const Park& order) { fold(order.replica); }
  void fold(const WakeAt& order) { fold(order.at); }
  void fold(const Finish& order) { fold(std::string_view(order.why)); }
  // Planning facts and orders are left out: they show in who is released. So planned runs keep the hashes
  // that they had before plans were facts and orders.
  template <class What>
  static constexpr bool of_planning() {
    return std::is_same_v<What, DeviceJoined> || std::is_same_v<What, DeviceLeft> ||
           std::is_same_v<What, DeviceOutOfMemory> || std::is_same_v<What, LinkMeasured> ||
           std::is_same_v<What, PlanSearched> || std::is_same_v<What, SearchPlan> ||
           std::is_same_v<What, PlanAdopted> || std::is_same_v<What, NoPlan> ||
           std::is_same_v<What, BatchDone>;
  }

  std::uint64_t state_ = 0;
};

}  // namespace paceline::control
