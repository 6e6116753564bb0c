// The activities of each device of a run, from when to when, and why: a fold of the run's facts and orders
// that tells one span after another. A replica that waits is released by the orders of one fact; that fact
// names the replica that it waited for, and the order's reason names the rule.
//
// Pure; one thread. An event costs O(1) a device of its replica; memory is bounded by the number of devices
// and replicas, however many events there are. A replica of several devices is a pipeline: all of them
// compute from its release on.
//
// Invariant: the spans of a device follow each other without a hole or an overlap, from from() on. None is
// empty.
//
// TimeSpans sees only events that the Controller accepted (see RunListener), so an unknown replica is a bug
// of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/stats/time_ledger.h"

namespace paceline::report {

struct TimeSpan {
  std::size_t device = 0;  // an index of TimeSpans::devices()
  Time start, end;
  TimeCause cause = TimeCause::kStarting;
  Clock iteration;           // the iteration that is under way, or was finished last
  bool in_pipeline = false;  // its replica has other devices, too
  bool lost = false;         // kRecovering: an iteration that came to nothing
  // For a waiting device: the number of the replica that it waited for, which name() knows, or one of the
  // constants below; and the number of the rule.
  std::int32_t on = -1;
  std::int32_t rule = 0;
};

class TimeSpans final : public control::RunListener {
 public:
  static constexpr std::int32_t kNobody = -1;  // no replica, for example a timer
  // waited until the servers were free, or had a version complete
  static constexpr std::int32_t kTheServers = -2;
  using See = std::function<void(const TimeSpan&)>;

  // `devices`: RunInfo's. Each is part of the run even if it never comes; may be empty, then each replica is
  // a device.
  TimeSpans(std::vector<std::string> devices, See see);
  // Goes on as `other` would, for another listener.
  TimeSpans(const TimeSpans& other, See see) : TimeSpans(other) { see_ = std::move(see); }

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated&) override {}

  // Tells the spans under way, as they are at `now`.
  void see_open(Time now, const See& see) const;

  Time from() const { return from_.value_or(Time{}); }  // the time of the first event
  Time until(Time now) const { return std::max({from(), latest_, finished_at_.value_or(now)}); }
  const std::vector<std::string>& devices() const { return devices_; }
  std::optional<std::size_t> device_of(const std::string& name) const;
  const std::vector<MeanIteration>& replicas() const { return iterations_; }
  // Requires: `on` is a number that a span has.
  std::string name(std::int32_t on) const;
  const std::string& rule(std::int32_t number) const { return rules_[static_cast<std::size_t>(number)]; }
  // The devices of a replica, by the number of its name or by its own number.
  const std::vector<std::size_t>& devices_of(std::int32_t on) const {
    return devices_by_replica_[static_cast<std::size_t>(on)];
  }
  const std::vector<std::size_t>& devices_of(ReplicaId id) const {
    return replicas_[static_cast<std::size_t>(id.value())]->devices;
  }

 private:
  TimeSpans(const TimeSpans&) = default;

  enum class State { kStarting, kComputing, kWaiting, kParked, kAway };
  struct Blame {
    std::int32_t on = kNobody;
    std::int32_t rule = 0;
  };
  struct Device {
    ReplicaId replica{};  // the latest replica that it belongs to
    State state = State::kStarting;
    Time since{};
    Clock iteration{};
    bool in_pipeline = false;
  };
  struct Replica {
    std::int32_t name = 0;
    std::vector<std::size_t> devices;
    std::uint64_t committed_by = 0;  // the number of the fact whose orders committed its gradient
    std::int32_t commit_rule = 0;
  };

  void on(Time at, const control::ReplicaJoined& fact);
  void on(Time at, const control::ReplicaLeft& fact);
  void on(Time at, const control::ReplicaReady& fact);
  void on(Time, const control::TimerRang&) { cause_ = {}; }
  void on(Time, const control::StopAsked&) { cause_ = {}; }
  void on(Time, const control::CommitComplete&) { cause_ = {.on = kTheServers}; }
  void on(Time at, const control::CommitRecord& order);
  void on(Time at, const control::Release& order);
  void on(Time, const control::Discard&) {}
  void on(Time at, const control::Park& order);
  void on(Time, const control::WakeAt&) {}
  void on(Time at, const control::Finish&) { finished_at_ = at; }
  void on(Time, const control::DeviceJoined&) { cause_ = {}; }
  void on(Time, const control::LinkMeasured&) { cause_ = {}; }
  void on(Time, const control::DeviceLeft&) { cause_ = {}; }
  void on(Time, const control::DeviceOutOfMemory&) { cause_ = {}; }
  void on(Time, const control::PlanSearched&) { cause_ = {}; }
  void on(Time, const control::SearchPlan&) {}
  void on(Time, const control::PlanAdopted& adopted);
  void on(Time, const control::NoPlan&) {}
  void on(Time, const control::BatchDone&) {}

  void begin(Time at);
  Replica& replica(ReplicaId id);
  std::size_t device(const std::string& name, Time at);
  std::vector<std::size_t> make_devices(const std::string& replica, Time at);
  std::int32_t rule_of(const policy::Reason& why);
  Blame blame(const Replica& waiting, const policy::Reason& why);
  // Ends the spans of all devices that are this replica's now. `blame`: for a waiting one.
  void end(ReplicaId replica, Time at, State next, Blame blame);
  void end(std::size_t device, Time at, State next, Blame blame);
  TimeSpan span(std::size_t device, Time at, bool leaves, Blame blame) const;
  void tell(const TimeSpan& span) const;

  const std::vector<std::string> names_of_devices_;
  See see_;
  std::vector<std::string> devices_;
  std::vector<Device> states_;  // indexed by device
  std::map<std::string, std::size_t> device_by_name_;
  std::vector<std::optional<Replica>> replicas_;  // indexed by replica
  std::vector<MeanIteration> iterations_;         // indexed by number of a replica's name
  std::vector<std::vector<std::size_t>> devices_by_replica_;
  std::map<std::string, std::int32_t> name_numbers_;
  std::vector<std::string> rules_;
  std::vector<bool> rule_is_servers_;
  std::map<std::string, std::int32_t, std::less<>> rule_numbers_;  // keyed by a reason's text
  std::uint64_t facts_ = 0;
  Blame cause_;  // the replica of the latest fact, to which the orders belong
  std::optional<Time> from_;
  Time latest_;
  std::optional<Time> finished_at_;
};

}  // namespace paceline::report
