#include "paceline/tools/ui/ledger_window.h"

#include <algorithm>
#include <map>
#include <string>

namespace paceline::ui {

namespace {

using report::TimeLedger;

Duration since(Duration now, Duration before) { return std::max(Duration::zero(), now - before); }

// A wait that was under way at the start had no name then, and has all its time under the one that it has since. So the
// parts are cut, all alike, to what the devices waited.
void cut_to_waited(TimeLedger& late) {
  const Duration waited = late.of(report::TimeCause::kWaiting) + late.of(report::TimeCause::kServers);
  Duration sum{0};
  for (const report::Wait& wait : late.waits) sum += wait.time;
  if (sum <= waited) return;
  const double part = to_seconds(waited) / to_seconds(sum);
  for (report::Wait& wait : late.waits) wait.time = from_seconds(to_seconds(wait.time) * part);
}

}  // namespace

TimeLedger difference(const TimeLedger& now, const TimeLedger& before) {
  TimeLedger late;
  late.from = before.until;
  late.until = now.until;
  // Devices and replicas are only ever added, at the end.
  for (std::size_t i = 0; i < now.devices.size(); ++i) {
    report::DeviceTime device{now.devices[i].device, now.devices[i].spent, {}};
    for (std::size_t k = 0; i < before.devices.size() && k < report::kTimeCauses; ++k)
      device.spent[k] = since(device.spent[k], before.devices[i].spent[k]);
    late.devices.push_back(std::move(device));
  }
  std::map<std::pair<std::string, std::string>, Duration> waits;
  for (const report::Wait& wait : before.waits) waits[{wait.on, wait.rule}] = wait.time;
  for (const report::Wait& wait : now.waits) {
    const auto found = waits.find({wait.on, wait.rule});
    const Duration time = since(wait.time, found == waits.end() ? Duration::zero() : found->second);
    if (time > Duration::zero()) late.waits.push_back({wait.on, wait.rule, time});
  }
  cut_to_waited(late);
  std::sort(late.waits.begin(), late.waits.end(),
            [](const auto& a, const auto& b) { return a.time > b.time; });
  for (std::size_t i = 0; i < now.replicas.size(); ++i) {
    report::MeanIteration replica = now.replicas[i];
    if (i < before.replicas.size()) {
      replica.iterations = std::max<std::int64_t>(0, replica.iterations - before.replicas[i].iterations);
      replica.computed = since(replica.computed, before.replicas[i].computed);
    }
    late.replicas.push_back(std::move(replica));
  }
  return late;
}

TimeLedger LedgerWindow::of_late(const TimeLedger& now) {
  if (kept_.empty() || now.until - kept_.back().until >= kStep) {
    TimeLedger slim = now;
    for (report::DeviceTime& device : slim.devices) device.waits.clear();
    kept_.push_back(std::move(slim));
    if (kept_.size() > kSteps + 1) kept_.pop_front();
  }
  if (now.until - kept_.front().until < kStep) return now;
  return difference(now, kept_.front());
}

}  // namespace paceline::ui
