#include "paceline/tools/ui/live_parts.h"
#include "paceline/records/tables/time_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "paceline/decisions/planner/planner.h"
#include "paceline/records/stats/throughput.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::ui {

namespace {

using report::Json;
using report::json_number;
using report::json_seconds;

constexpr std::size_t kRates = 120;
constexpr std::size_t kLatestGroups = 6;
constexpr std::size_t kNamesInGroup = 8;
constexpr std::size_t kLatestPlans = 20;
constexpr std::size_t kWaits = 60;
// The ledger's rule for a wait that nothing has ended, and its text while the run goes on.
constexpr char kRunEnded[] = "the run ended first", kNotYet[] = "under way now";

// Four significant digits: enough for a curve, and for numbers that are shown with as many. Numbers that are
// shown with decimals, such as seconds and shares, are not rounded here: rounded twice, 98.749 % would be
// 98.8 %.
Json rounded(double value) { return report::json_digits4(value); }
Json rounded(const std::optional<double>& value) { return value ? rounded(*value) : Json(nullptr); }
Json ms_of(Time at) { return std::round(to_seconds(at) * 1e3) / 1e3; }

// Takes about `most` points at even distances, the first and the last among them.
template <class Point>
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return some;
}

// How long all others waited for each replica, by name.
std::map<std::string, double> waited_for(const report::TimeLedger& ledger) {
  std::map<std::string, double> seconds;
  for (const report::Wait& wait : ledger.waits) seconds[wait.on] += to_seconds(wait.time);
  return seconds;
}

// Like Summary::wait_share, for a ledger: the time from a release to its gradient is no waiting.
Json wait_share(const report::TimeLedger& ledger) {
  using enum report::TimeCause;
  const Duration waiting = ledger.of(kWaiting) + ledger.of(kServers);
  Duration all = waiting;
  for (const auto cause : {kComputing, kLoading, kWeights, kOnTheWay, kStages}) all += ledger.of(cause);
  return all > Duration::zero() ? Json(to_seconds(waiting) / to_seconds(all)) : Json(nullptr);
}

Json target_json(const report::Summary& summary) {
  if (!summary.run.target) return nullptr;
  return {{"metric", summary.run.target->metric},
          {"value", summary.run.target->value},
          {"text", report::to_string(*summary.run.target)}};
}

std::string verdict(const LiveRun& run, const report::TimeLedger& ledger) {
  return report::what_holds_back(ledger, run.summary.run.policy);
}

}  // namespace

Json head_json(const LiveRun& run) {
  const report::Summary& all = run.summary;
  const auto rate = run.state.led() ? run.recent.samples_per_s(run.now) : std::optional(all.samples_per_s);
  std::optional<double> left;
  // The seconds of a run in virtual time are not those that a person waits.
  if (run.state.led() && all.run.world == report::World::kLive)
    left = report::seconds_left(all.samples, all.run.total_samples, rate.value_or(0));
  const control::Evaluated* tested = all.last_evaluation ? &*all.last_evaluation : nullptr;
  return {{"title", all.run.title},
          {"policy", all.run.policy},
          {"world", name_of(all.run.world)},
          {"state", to_string(run.state.state)},
          {"why", run.state.why},
          {"trouble", run.trouble},
          {"holds_back", verdict(run, run.state.led() ? run.of_late : run.ledger)},
          {"held_back", verdict(run, run.ledger)},
          {"at_s", ms_of(run.now)},
          {"elapsed_s", json_number(all.elapsed_s)},
          {"samples", all.samples},
          {"total_samples", all.run.total_samples},
          {"samples_per_s", rounded(rate)},
          {"left_s", rounded(left)},
          {"iterations", all.iterations},
          {"commits", all.commits},
          {"wait_share", json_number(all.wait_share)},
          {"wait_of_late", wait_share(run.of_late)},
          {"gap", all.gap},
          {"staleness_mean", json_number(all.staleness_mean)},
          {"staleness_max", all.staleness_max},
          {"group_size", json_number(all.groups.size_of_late)},
          {"training_loss", rounded(all.training_loss)},
          {"loss", tested ? rounded(tested->loss) : Json(nullptr)},
          {"accuracy", tested ? json_number(tested->accuracy) : Json(nullptr)},
          {"best_accuracy", json_number(all.best_accuracy)},
          {"live", all.replicas_live()},
          {"replicas", all.replicas_in_all()},
          {"attempts", all.run.attempts},
          {"lost_commits", all.run.lost_commits},
          {"update_s", rounded(run.recent.update_s())},
          {"learning_rate", rounded(run.recent.learning_rate())},
          {"target", target_json(all)}};
}

Json curves_json(const LiveRun& run) {
  Json evaluations = Json::array(), training = Json::array(), rates = Json::array();
  for (const control::Evaluated& one : thinned(run.history.evaluations, kCurvePoints)) {
    evaluations.push_back(Json::array(
        {ms_of(one.at), one.samples, one.version.value(), rounded(one.loss), rounded(one.accuracy)}));
  }
  if (run.summary.training_loss) {
    for (const report::TrainingPoint& one : thinned(run.history.training, kCurvePoints))
      training.push_back(
          Json::array({ms_of(one.at), one.samples, run.recent.version_at(one.at), rounded(one.loss)}));
  }
  for (const report::Rate& one : report::throughput(run.history, kRates)) {
    rates.push_back(
        Json::array({rounded(one.time_s), std::round(one.samples),
                     run.recent.version_at(Time(from_seconds(one.time_s))), rounded(one.samples_per_s)}));
  }
  return {{"evaluations", std::move(evaluations)},
          {"training", std::move(training)},
          {"rate", std::move(rates)},
          {"target", target_json(run.summary)}};
}

Json lanes_json(const LiveRun& run) {
  // If there are many devices, takes those that the others waited for most lately; in the order of the job in
  // any case.
  const std::vector<std::string>& devices = run.lanes.devices();
  std::vector<std::size_t> chosen(devices.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (chosen.size() > MovingLanes::kMostLanes) {
    const std::map<std::string, double> waited = waited_for(run.of_late);
    const auto seconds = [&](std::size_t i) {
      const auto found = waited.find(devices[i]);
      return found == waited.end() ? 0.0 : found->second;
    };
    std::stable_sort(chosen.begin(), chosen.end(), [&](auto a, auto b) { return seconds(a) > seconds(b); });
    chosen.resize(MovingLanes::kMostLanes);
    std::sort(chosen.begin(), chosen.end());
  }
  return run.lanes.json(run.now, chosen);
}

Json devices_json(const LiveRun& run) {
  const std::map<std::string, double> waited = waited_for(run.ledger);
  // A ledger knows only names. If replicas had the same name, the newest one is shown with the waiting.
  std::map<std::string, ReplicaId> newest;
  for (const report::ReplicaSummary& one : run.summary.replicas) newest[one.name] = one.replica;
  const auto seconds = [&](const report::ReplicaSummary* one) {
    const auto found = waited.find(one->name);
    return found == waited.end() || newest[one->name] != one->replica ? 0.0 : found->second;
  };
  std::vector<const report::ReplicaSummary*> rows;
  for (const report::ReplicaSummary& one : run.summary.replicas) rows.push_back(&one);
  // Under a policy without waits nobody is waited for, but many may be gone.
  const auto place = [&](const report::ReplicaSummary* one) {
    return std::pair(one->doing == report::Doing::kGone, -seconds(one));
  };
  std::stable_sort(rows.begin(), rows.end(), [&](auto* a, auto* b) { return place(a) < place(b); });
  Json list = Json::array();
  for (const report::ReplicaSummary* one : rows) {
    if (list.size() == kDeviceRows) break;
    const Speed speed = run.recent.speed(one->replica);
    // A run that was cut short wrote no end into its journal.
    const bool ended = !run.state.led() && report::works(one->doing);
    const report::Doing doing = ended ? report::Doing::kEnded : one->doing;
    list.push_back({{"name", one->name},
                    {"doing", report::to_string(doing)},
                    {"why", one->why},
                    {"iterations", one->iterations},
                    {"samples", one->samples},
                    {"speed", rounded(speed.now)},
                    {"past", rounded(speed.past)},
                    {"waited_for_s", json_number(seconds(one))},
                    {"wait_share", json_number(one->wait_share)},
                    {"discarded", one->discarded}});
  }
  const std::size_t left_out = rows.size() - list.size();
  return {{"rows", std::move(list)}, {"left_out", left_out}, {"middle", rounded(run.recent.median_speed())}};
}

Json groups_json(const LiveRun& run) {
  const report::GroupHistory& groups = run.history.groups;
  Json sizes = Json::array(), latest = Json::array();
  for (const auto& bin : groups.sizes.bins())
    sizes.push_back({{"from", bin.from}, {"to", bin.to}, {"commits", bin.commits}});
  std::map<ReplicaId, std::string> names;
  for (const report::ReplicaSummary& one : run.summary.replicas) names[one.replica] = one.name;
  const std::size_t count = std::min(kLatestGroups, groups.formed.size());
  for (std::size_t i = 0; i < count; ++i) {
    const report::Group& group = groups.formed[groups.formed.size() - 1 - i];
    std::string who;
    std::size_t named = 0;
    for (const ReplicaId id : group.drawn) {
      if (named == kNamesInGroup) break;
      who += (named++ == 0 ? "" : ", ") + names[id];
    }
    const std::int64_t more = group.size - static_cast<std::int64_t>(named);
    if (more > 0) who += named == 0 ? fmt::format("{} replicas", more) : fmt::format(" and {} more", more);
    latest.push_back(
        Json::array({ms_of(group.at), group.version.value(), group.size, who, policy::to_string(group.why)}));
  }
  const report::StalenessHistogram& staleness = run.history.staleness;
  return {{"staleness", {{"bin_width", staleness.bin_width()}, {"counts", staleness.counts()}}},
          {"sizes", std::move(sizes)},
          {"causes", groups.sizes.causes()},
          {"latest", std::move(latest)}};
}

Json events_json(const LiveRun& run) {
  Json list = Json::array();
  const std::vector<report::Event>& events = run.history.events;
  for (auto event = events.rbegin(); event != events.rend() && list.size() < kEventRows; ++event)
    list.push_back(Json::array({ms_of(event->at), event->replica, event->text}));
  const std::int64_t left_out = run.history.events_left_out + std::ssize(events) - std::ssize(list);
  return {{"list", std::move(list)}, {"left_out", left_out}};
}

Json plan_json(const LiveRun& run) {
  if (!run.summary.plan) return nullptr;
  const report::PlanSummary& plan = *run.summary.plan;
  const report::RunInfo& info = run.summary.run;
  Json list = Json::array();
  const auto& plans = run.history.plans.plans;
  for (auto one = plans.rbegin(); one != plans.rend() && list.size() < kLatestPlans; ++one)
    list.push_back(
        Json::array({ms_of(one->from), planner::in_words(info.devices, info.layers, one->plan), one->why}));
  const bool measured = plan.batches.count > 0;
  return {{"words", planner::in_words(info.devices, info.layers, plan.plan)},
          {"re_plans", plan.re_plans},
          {"predicted_ms", measured ? rounded(plan.late_predicted_ms) : Json(nullptr)},
          {"measured_ms", measured ? rounded(plan.late_measured_ms) : Json(nullptr)},
          {"plans", std::move(list)}};
}

Json time_json(const LiveRun& run) {
  const report::TimeLedger& ledger = run.ledger;
  Json causes = Json::array(), devices = Json::array(), waits = Json::array();
  for (std::size_t i = 0; i < report::kTimeCauses; ++i)
    causes.push_back(to_string(static_cast<report::TimeCause>(i)));
  // Devices that computed least come first.
  std::vector<const report::DeviceTime*> rows;
  for (const report::DeviceTime& device : ledger.devices) rows.push_back(&device);
  if (rows.size() > kLedgerRows) {
    std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) {
      return a->of(report::TimeCause::kComputing) < b->of(report::TimeCause::kComputing);
    });
    rows.resize(kLedgerRows);
  }
  double off_by = 0;
  for (const report::DeviceTime* device : rows) {
    Json row = Json::array({device->device});
    for (const Duration spent : device->spent) row.push_back(ms_of(Time(spent)));
    devices.push_back(std::move(row));
    off_by = std::max(off_by, std::abs(to_seconds(device->total() - ledger.wall())));
  }
  for (const report::Wait& wait : ledger.waits) {
    if (waits.size() == kWaits) break;
    const bool open = run.state.led() && wait.rule == kRunEnded;
    waits.push_back(Json::array({wait.on, open ? kNotYet : wait.rule, ms_of(Time(wait.time))}));
  }
  return {{"wall_s", ms_of(Time(ledger.wall()))},
          {"off_by_s", ms_of(Time(from_seconds(off_by)))},
          {"causes", std::move(causes)},
          {"devices", std::move(devices)},
          {"left_out", ledger.devices.size() - rows.size()},
          {"waits", std::move(waits)}};
}

namespace {

// The first kProcessRows of a list.
template <class One, class Row>
Json rows_of(const std::vector<One>& list, Row row) {
  Json rows = Json::array();
  for (const One& one : list) {
    if (rows.size() == kProcessRows) break;
    rows.push_back(row(one));
  }
  const std::size_t left_out = list.size() - rows.size();
  return {{"rows", std::move(rows)}, {"left_out", left_out}};
}

}  // namespace

Json links_json(const LiveRun& run) {
  return rows_of(run.traffic.links(), [](const Traffic::Link& one) {
    return Json::array({one.from, one.to, one.kind, one.bytes, rounded(one.bytes_per_s)});
  });
}

Json memory_json(const LiveRun& run) {
  return rows_of(run.traffic.memory(), [](const Traffic::Memory& one) {
    return Json::array({one.process, one.resident_bytes});
  });
}

Json servers_json(const LiveRun& run) {
  std::vector<std::pair<std::int32_t, Recent::ServerUpdates>> servers;
  for (const auto& one : run.recent.updates()) servers.push_back(one);
  std::stable_sort(servers.begin(), servers.end(),
                   [](const auto& a, const auto& b) { return a.second.latest_s > b.second.latest_s; });
  return rows_of(servers, [](const auto& one) {
    return Json::array(
        {one.first, one.second.count, rounded(one.second.latest_s), rounded(one.second.gb_per_s)});
  });
}

}  // namespace paceline::ui
