#include "paceline/records/stats/time_stats.h"

#include <algorithm>
#include <utility>

namespace paceline::report {

TimeStats::TimeStats(std::vector<std::string> devices)
    : names_(devices),
      spans_(std::move(devices), [this](const TimeSpan& span) { add(spent_, together_, span); }) {}

TimeStats::TimeStats(const TimeStats& other)
    : names_(other.names_),
      spent_(other.spent_),
      together_(other.together_),
      spans_(other.spans_, [this](const TimeSpan& span) { add(spent_, together_, span); }) {}

void TimeStats::add(std::vector<Spent>& all, Waits& together, const TimeSpan& span) {
  if (span.device >= all.size()) all.resize(span.device + 1);
  Spent& spent = all[span.device];
  charge(spent, span.cause, span.end - span.start);
  if (span.cause == TimeCause::kComputing) {
    spent.unsplit += span.end - span.start;
    spent.in_pipeline = span.in_pipeline;
  }
  if (span.cause != TimeCause::kWaiting && span.cause != TimeCause::kServers) return;
  spent.waits[{span.on, span.rule}] += span.end - span.start;
  together[{span.on, span.rule}] += span.end - span.start;
  if (spent.waits.size() > 2 * kMostWaits) keep_longest(spent.waits);
}

void TimeStats::charge(Spent& spent, TimeCause cause, Duration time) {
  spent.causes[static_cast<std::size_t>(cause)] += time;
}

void TimeStats::keep_longest(Waits& waits) {
  std::vector<std::pair<Duration, std::pair<std::int32_t, std::int32_t>>> parts;
  for (const auto& [who, time] : waits) {
    if (who.first >= 0) parts.emplace_back(-time, who);
  }
  std::sort(parts.begin(), parts.end());
  for (std::size_t i = std::min(kMostWaits, parts.size()); i < parts.size(); ++i) {
    waits[{kOthers, parts[i].second.second}] -= parts[i].first;
    waits.erase(parts[i].second);
  }
}

void TimeStats::on_order(Time at, const control::Order& order) {
  spans_.on_order(at, order);
  if (const auto* batch = std::get_if<control::BatchDone>(&order)) split(*batch);
}

void TimeStats::split(const control::BatchDone& batch) {
  for (const control::DeviceWork& work : batch.work) {
    const auto place = static_cast<std::size_t>(work.device);
    const auto device = place < names_.size() ? spans_.device_of(names_[place]) : std::nullopt;
    if (!device || *device >= spent_.size()) continue;
    Spent& spent = spent_[*device];
    const Duration rest = spent.unsplit - std::clamp(work.computed, Duration::zero(), spent.unsplit);
    charge(spent, TimeCause::kComputing, -rest);
    charge(spent, spent.in_pipeline ? TimeCause::kStages : TimeCause::kOnTheWay, rest);
    spent.unsplit = Duration::zero();
  }
}

std::vector<Wait> TimeStats::named(const Waits& waits) const {
  std::vector<Wait> list;
  for (const auto& [who, time] : waits)
    list.push_back({who.first == kOthers ? "others" : spans_.name(who.first), spans_.rule(who.second), time});
  std::stable_sort(list.begin(), list.end(), [](const Wait& a, const Wait& b) { return a.time > b.time; });
  return list;
}

TimeLedger TimeStats::ledger(Time now) const {
  std::vector<Spent> all = spent_;
  Waits together = together_;
  spans_.see_open(now, [&](const TimeSpan& span) { add(all, together, span); });
  return ledger_of(all, together, spans_.until(now));
}

TimeLedger TimeStats::settled() const {
  std::vector<Spent> all = spent_;
  for (Spent& spent : all) {
    if (spent.in_pipeline) charge(spent, TimeCause::kComputing, -spent.unsplit);
  }
  return ledger_of(all, together_, spans_.until(spans_.from()));
}

TimeLedger TimeStats::ledger_of(const std::vector<Spent>& all, const Waits& together, Time until) const {
  TimeLedger ledger{.from = spans_.from(),
                    .until = until,
                    .devices = {},
                    .waits = named(together),
                    .replicas = spans_.replicas()};
  for (std::size_t i = 0; i < spans_.devices().size(); ++i) {
    const bool any = i < all.size();
    ledger.devices.push_back({spans_.devices()[i], any ? all[i].causes : std::array<Duration, kTimeCauses>{},
                              any ? named(all[i].waits) : std::vector<Wait>{}});
  }
  return ledger;
}

}  // namespace paceline::report
