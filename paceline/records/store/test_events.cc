#include "paceline/records/store/test_events.h"

#include <cmath>

#include <deque>
#include <limits>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/finish_cause.h"
#include "paceline/records/store/metrics_json.h"
#include "paceline/records/store/plan_json.h"

namespace paceline::store {

namespace {

using control::CommitComplete;
using control::LinkMeasured;
using control::Order;

std::string text(const Lease& lease) {
  const std::string scrap =
      lease.scrap() > 0 ? fmt::format("{}-{},", lease.scrap_begin, lease.scrap_end) : "";
  return fmt::format("{}:{}{}-{}", lease.epoch, scrap, lease.begin, lease.end);
}

std::string what(const control::ReplicaJoined& f) {
  return fmt::format("joined {} '{}' {} {}", f.replica, f.name, f.batch, f.place.value_or(-1));
}
std::string what(const control::ReplicaLeft& f) {
  return fmt::format("left {} '{}' {}", f.replica, f.why, f.least_batch.value_or(0));
}
std::string what(const control::ReplicaReady& f) {
  std::string line = fmt::format("ready {} {} {} {} {} {}", f.replica, f.clock, f.base, f.compute.count(),
                                 f.loss, to_text(f.metrics).value_or("none"));
  for (const Duration worked : f.worked) line += fmt::format(" {}", worked.count());
  if (f.weight) line += fmt::format(" weight {}", *f.weight);
  if (f.data_end) line += fmt::format(" end {}", *f.data_end);
  line += fmt::format(" loading {} pulling {}", f.loading.count(), f.pulling.count());
  return line;
}
std::string what(const control::DeviceJoined& f) {
  return fmt::format("device joined {} with {}", f.device, f.memory_bytes);
}
std::string what(const control::LinkMeasured& f) {
  return fmt::format("{} bytes from host {} to {} in {} ns, {}", f.bytes, f.from, f.to, f.took.count(),
                     f.shared);
}
std::string what(const control::DeviceLeft& f) { return fmt::format("device left {}", f.device); }
std::string what(const control::DeviceOutOfMemory& f) {
  return fmt::format("no memory {} for {}", f.device, f.samples);
}
std::string what(const control::PlanSearched& f) {
  return fmt::format("searched {} '{}'", f.plan ? to_text(*f.plan) : "none", f.impossible);
}
std::string what(const control::TimerRang&) { return "timer"; }
std::string what(const control::CommitComplete& f) { return fmt::format("complete {}", f.version); }
std::string what(const control::StopAsked& f) { return fmt::format("stop '{}' {}", f.why, to_text(f.cause)); }

std::string what(const control::CommitRecord& o) {
  std::string line =
      fmt::format("commit {} {} {} {} {} {} {} {} {}", o.version, o.samples, o.nominal, o.committed_before,
                  o.learning_rate, o.fraction, o.of_differences, o.keep_for_evaluation, to_string(o.why));
  for (const control::CommitMember& m : o.members) {
    line += fmt::format(" ({} {} {} {} {} {})", m.replica, m.clock, m.base, text(m.lease), m.weight, m.share);
  }
  return o.checkpoint ? line + " " + to_text(*o.checkpoint) : line;
}
std::string what(const control::Release& o) {
  return fmt::format("release {} {} {} {} {} {} {} {} {}", o.replica, o.clock, o.version, text(o.lease),
                     o.learning_rate, o.staleness, o.fraction, o.steps, to_string(o.why));
}
std::string what(const control::Discard& o) {
  return fmt::format("discard {} {} {}", o.replica, o.clock, to_string(o.why));
}
std::string what(const control::Park& o) { return fmt::format("park {}", o.replica); }
std::string what(const control::WakeAt& o) { return fmt::format("wake {}", o.at.time_since_epoch().count()); }
std::string what(const control::Finish& o) { return fmt::format("finish '{}' {}", o.why, to_text(o.cause)); }
std::string what(const control::SearchPlan&) { return "search"; }
std::string what(const control::NoPlan& o) { return fmt::format("no plan '{}'", o.why); }
std::string what(const control::PlanAdopted& o) {
  return fmt::format("plan {} {} '{}'", to_text(o.plan), o.predicted_ms, o.why);
}
std::string what(const control::BatchDone& o) {
  const auto spent = o.spending.value_or(control::Spending{-1, -1, -1});
  return fmt::format("batch {} {} {} {} {} {} {}", o.predicted_ms, o.measured_ms, o.regular, to_text(o.work),
                     spent.cost, spent.allowed, spent.queue);
}

}  // namespace

std::vector<Event> every_kind_of_event() {
  using namespace control;
  using planner::Plan;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int32_t kMost32 = std::numeric_limits<std::int32_t>::max();
  CommitRecord commit{
      Version(1), {}, 10, 20, 30, 0.1, 1.0 / 3, true, true, {}, {"all {} of {} are ready", 2, 3}};
  commit.members = {{ReplicaId(0), Clock(1), Version(0), {0, 0, 4}, 0.4, 0.4},
                    {ReplicaId(2), Clock(1), Version(0), {1, 4, 10, 1, 2}, 1e-300, 0.6},
                    {ReplicaId(kMost32), Clock(1), Version(0), {1, 4, 10}, 1e-300, 0.6}};
  CommitRecord last = commit;
  last.version = Version(2);
  last.of_differences = false;
  last.checkpoint =
      ControllerState{Version(2), {.next = 10, .open = {{4, 6}}, .least = 3}, {{"w\"0", Clock(1)}}};
  last.why = {"doubled {{ }} braces", 0, 0};
  return {
      Fact{at(-5), ReplicaJoined{ReplicaId(0), "w'0\n\xff", 32}},
      Fact{at(0), ReplicaJoined{ReplicaId(kMost32), "", 1}},
      std::pair(at(0),
                Order(Release{ReplicaId(0), Clock(1), Version(0), {kMost32, 0, kMost}, {"{} ahead", -1, 0}})),
      std::pair(at(0),
                Order(Release{
                    ReplicaId(1), Clock(1), Version(0), {0, 0, 1}, {"", 0, 0}, 0.1, 1.0 / 3, 1e-300, kMost})),
      std::pair(at(0),
                Order(Release{ReplicaId(2), Clock(1), Version(0), {0, 100, kMost, 7, 9}, {"all {}", 1, 0}})),
      std::pair(at(0), Order(WakeAt{at(kMost)})),
      Fact{at(1), ReplicaReady{ReplicaId(0),
                               Clock(1),
                               Version(0),
                               Duration(kMost),
                               1.0 / 3,
                               {{"f1", 0.1}, {"\"ü\n", -1e300}, {"none", std::nan("")}}}},
      Fact{at(2), ReplicaReady{ReplicaId(1), Clock(1), Version(0), Duration(0),
                               std::numeric_limits<double>::quiet_NaN()}},
      Fact{at(2), ReplicaReady{ReplicaId(1), Clock(2), Version(0), Duration(1),
                               std::numeric_limits<double>::infinity()}},
      std::pair(at(2), Order(commit)),
      std::pair(at(2), Order(Discard{ReplicaId(1), Clock(2), {"", 0, 0}})),
      std::pair(at(2), Order(Park{ReplicaId(1)})),
      Fact{at(3), TimerRang{}},
      Fact{at(3), CommitComplete{Version(kMost - 1)}},
      std::pair(at(3), Order(last)),
      Evaluated{at(2), Version(1), 10, 2.5, 0.125},
      Evaluated{at(3), Version(2), 10, std::nan(""), std::nan(""), {{"perplexity", 12.5}}},
      Fact{at(3), ReplicaJoined{ReplicaId(2), "w2", 1, kMost32}},
      Fact{at(3), ReplicaReady{.replica = ReplicaId(2),
                               .clock = Clock(1),
                               .base = Version(0),
                               .worked = {Duration(0), Duration(kMost)},
                               .loading = Duration(1),
                               .pulling = Duration(kMost)}},
      Fact{at(3), ReplicaReady{.replica = ReplicaId(2),
                               .clock = Clock(2),
                               .base = Version(0),
                               .worked = {Duration(1)},
                               .weight = 1.0 / 3}},
      Fact{at(3), ReplicaReady{.replica = ReplicaId(2), .clock = Clock(3), .base = Version(0), .weight = 0}},
      Fact{at(3),
           ReplicaReady{.replica = ReplicaId(2), .clock = Clock(4), .base = Version(0), .data_end = kMost}},
      Fact{at(3), ReplicaReady{.replica = ReplicaId(2),
                               .clock = Clock(5),
                               .base = Version(0),
                               .worked = {Duration(1)},
                               .weight = 2,
                               .data_end = 7}},
      Fact{at(3), DeviceJoined{kMost32}},
      Fact{at(3), DeviceJoined{0, kMost}},
      Fact{at(3), DeviceLeft{0}},
      Fact{at(3), DeviceOutOfMemory{kMost32}},
      Fact{at(3), DeviceOutOfMemory{0, kMost}},
      Fact{at(3), LinkMeasured{HostPlace(1), HostPlace(0), kMost, Duration(kMost), true}},
      Fact{at(3), LinkMeasured{HostPlace(0), HostPlace(2), 1, Duration(1), false}},
      std::pair(at(3), Order(SearchPlan{})),
      Fact{at(3), PlanSearched{Plan{{{{kMost32, 0}, {3}, kMost}, {{1}, {}, 0}}, 4}, ""}},
      Fact{at(3), PlanSearched{std::nullopt, "w'1\n holds 1 MB"}},
      Fact{at(3), PlanSearched{}},
      std::pair(at(3), Order(NoPlan{"w'1\n holds 1 MB"})),
      std::pair(at(3),
                Order(PlanAdopted{
                    at(3), {{{{kMost32, 0}, {3}, kMost}, {{1}, {}, 0}}, 4}, 1.0 / 3, "w'1\n is gone"})),
      std::pair(at(3),
                Order(BatchDone{
                    at(3), 1e-300, 2.5, false, {{kMost32, kMost, Duration(kMost)}, {0, 0, Duration(0)}}})),
      std::pair(at(3), Order(BatchDone{at(3), 1, 2, true, {}, control::Spending{0.1, 1e300, 0}})),
      Fact{at(4), ReplicaLeft{ReplicaId(1), "its host is gone"}},
      Fact{at(4), ReplicaLeft{ReplicaId(2), "its batch was too small", kMost}},
      SideWork{at(kMost), SideWork::Kind::kUpdate, Version(kMost), Duration(kMost), kMost32, kMost, kMost32,
               kMost},
      SideWork{at(-3), SideWork::Kind::kEvaluation, Version(1), Duration(0)},
      SideWork{at(3), SideWork::Kind::kCheckpoint, Version(2), Duration(5)},
      Fact{at(kMost), StopAsked{"Ctrl-C", FinishCause::kTarget}},
      std::pair(at(kMost), Order(Finish{"Ctrl-C", FinishCause::kTarget})),
      std::pair(at(kMost), Order(Finish{"", FinishCause::kEverySample})),
  };
}

control::ControllerConfig controller_config(std::int64_t samples, std::int64_t ahead) {
  control::ControllerConfig config;
  config.dataset_size = 1000;
  config.total_samples = samples;
  config.start_replicas = 4;
  config.checkpoint_every = 5000;
  config.look_ahead = true;
  config.ahead = ahead;
  return config;
}

std::vector<Event> controller_events(const std::string& policy, std::int64_t samples, std::int64_t ahead) {
  using namespace control;
  Controller controller(controller_config(samples, ahead),
                        policy::make_policy(*policy::parse_policy(policy)));
  std::vector<Event> events;
  std::deque<Release> running;
  std::int64_t now = 0;
  const auto handle = [&](Fact fact) {
    std::vector<Order> orders;
    PACELINE_CHECK(controller.handle(fact, orders).ok(), "the fact is not as it should be");
    events.emplace_back(fact);
    for (const Order& order : orders) {
      events.emplace_back(std::pair(fact.at, order));
      if (const auto* release = std::get_if<Release>(&order)) running.push_back(*release);
    }
  };
  for (int i = 0; i < 4; ++i) handle({at(now), ReplicaJoined{ReplicaId(i), fmt::format("w{}", i), 8}});
  while (!running.empty()) {
    const Release next = running.front();
    running.pop_front();
    now += 1000;
    handle({at(now), ReplicaReady{next.replica, next.clock, next.version, Duration(900), 2.25}});
  }
  return events;
}

void tell(const Event& event, control::RunListener& listener) {
  std::visit(Overloaded{
                 [&](const control::Fact& fact) { listener.on_fact(fact); },
                 [&](const std::pair<Time, Order>& order) { listener.on_order(order.first, order.second); },
                 [&](const control::Evaluated& evaluated) { listener.on_evaluated(evaluated); },
                 [&](const control::SideWork& work) { listener.on_side_work(work); },
             },
             event);
}

void tell(const std::vector<Event>& events, control::RunListener& listener) {
  for (const Event& event : events) tell(event, listener);
}

std::string describe(const Event& event) {
  const auto line = [](Time when, const auto& variant) {
    return fmt::format("{} {}", when.time_since_epoch().count(),
                       std::visit([](const auto& one) { return what(one); }, variant));
  };
  return std::visit(Overloaded{
                        [&](const control::Fact& fact) { return line(fact.at, fact.what); },
                        [&](const std::pair<Time, Order>& order) { return line(order.first, order.second); },
                        [&](const control::Evaluated& e) {
                          return fmt::format("{} evaluated {} {} {} {} {}", e.at.time_since_epoch().count(),
                                             e.version, e.samples, e.loss, e.accuracy,
                                             to_text(e.metrics).value_or("none"));
                        },
                        [&](const control::SideWork& w) {
                          return fmt::format("{} work {} {} {} {} {} {} {}", w.at.time_since_epoch().count(),
                                             static_cast<int>(w.kind), w.version, w.took.count(), w.server,
                                             w.bytes, w.threads, w.members);
                        },
                    },
                    event);
}

std::vector<std::string> describe(const std::vector<Event>& events) {
  std::vector<std::string> lines;
  for (const Event& event : events) lines.push_back(describe(event));
  return lines;
}

}  // namespace paceline::store
