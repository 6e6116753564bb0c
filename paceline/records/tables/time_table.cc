#include "paceline/records/tables/time_table.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"

namespace paceline::report {

namespace {

// A smaller share is not mentioned.
constexpr double kSmallShare = 0.05;
// A device is as fast as the others if it takes at most this many times as long.
constexpr double kSameSpeed = 1.1;

double share_of(Duration part, Duration whole) {
  return whole > Duration::zero() ? to_seconds(part) / to_seconds(whole) : 0;
}

// The time in which the device took part.
Duration active(const DeviceTime& device) {
  return device.total() - device.of(TimeCause::kStarting) - device.of(TimeCause::kGone) -
         device.of(TimeCause::kParked) - device.of(TimeCause::kRecovering);
}

// "bsp, joint" → "BSP, joint".
std::string in_capitals(const std::string& policy) {
  const std::size_t end = std::min(policy.find_first_of(":, "), policy.size());
  std::string name = policy;
  if (name.find('-') < end) return name;
  std::transform(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

// The replica for which all others together waited longest, and how long.
Wait most_waited_for(const TimeLedger& ledger) {
  Wait most;
  for (const MeanIteration& replica : ledger.replicas) {
    Duration sum{0};
    for (const Wait& wait : ledger.waits) sum += wait.on == replica.replica ? wait.time : Duration::zero();
    if (sum > most.time) most = {replica.replica, "", sum};
  }
  return most;
}

// How many times as long as the others' mean an iteration of that replica takes; 0: unknown.
double times_as_long(const TimeLedger& ledger, const std::string& replica) {
  MeanIteration mine, others;
  for (const MeanIteration& one : ledger.replicas) {
    MeanIteration& sum = one.replica == replica ? mine : others;
    sum.iterations += one.iterations;
    sum.computed += one.computed;
  }
  if (mine.iterations == 0 || others.iterations == 0 || others.computed == Duration::zero()) return 0;
  return (to_seconds(mine.computed) / static_cast<double>(mine.iterations)) /
         (to_seconds(others.computed) / static_cast<double>(others.iterations));
}

// "w3" is a device of "w3", and of "w1+w3".
bool part_of(const std::string& device, const std::string& replica) {
  return ("+" + replica + "+").find("+" + device + "+") != std::string::npos;
}

std::string about_waiting(const TimeLedger& ledger, const std::string& policy) {
  const Wait most = most_waited_for(ledger);
  Duration others{0}, all{0}, waiting = ledger.of(TimeCause::kWaiting);
  for (const DeviceTime& device : ledger.devices) {
    all += active(device);
    if (!part_of(device.device, most.on)) others += active(device);
  }
  const std::string under = in_capitals(policy);
  Duration unnamed{0};
  for (const Wait& wait : ledger.waits) unnamed += wait.on.empty() ? wait.time : Duration::zero();
  if (unnamed * 2 > waiting) {
    return fmt::format(
        "under {} the devices wait {} % of their time, mostly for no device that is known so far", under,
        percent(share_of(waiting, all), 0));
  }
  if (most.time * 2 < waiting) {
    return fmt::format("the devices wait for each other in turn: under {} {} % of their time", under,
                       percent(share_of(waiting, all), 0));
  }
  const double times = times_as_long(ledger, most.on);
  const std::string share = percent(share_of(most.time, others), 0);
  if (times >= kSameSpeed) {
    return fmt::format(
        "{} takes {:.1f} times as long as the others: under {} they wait {} % of their time for it",
        printable(most.on), times, under, share);
  }
  return fmt::format("{} comes last most often: under {} the others wait {} % of their time for it",
                     printable(most.on), under, share);
}

std::string about(TimeCause cause, const TimeLedger& ledger, const std::string& share) {
  switch (cause) {
    case TimeCause::kLoading:
      return fmt::format("devices wait {} % of their time for samples to be loaded", share);
    case TimeCause::kWeights:
      return fmt::format(
          "devices wait {} % of their time for weights: until servers have made them and links have brought "
          "them",
          share);
    case TimeCause::kServers:
      return fmt::format("the servers are busy: devices wait {} % of their time for them", share);
    case TimeCause::kOnTheWay:
      return fmt::format(
          "messages take {} % of the devices' time: a slow network, or hosts that are too busy", share);
    case TimeCause::kStages:
      return fmt::format("stages of pipelines wait {} % of the devices' time for other stages", share);
    case TimeCause::kParked:
      return fmt::format("devices have nothing to do {} % of the time", share);
    default:
      break;
  }
  const auto [least, worst] =
      std::minmax_element(ledger.devices.begin(), ledger.devices.end(),
                          [&](const auto& a, const auto& b) { return a.of(cause) < b.of(cause); });
  // If all devices recovered at once, the run was interrupted and not the device.
  if (cause == TimeCause::kRecovering && ledger.devices.size() > 1 &&
      least->of(cause) * 2 > worst->of(cause)) {
    return fmt::format("the run was down, or did lost work again, {} % of the time", share);
  }
  return fmt::format("devices that left are missing {} % of the devices' time, {} most of all", share,
                     printable(worst->device));
}

std::string whom(const Wait& wait) { return wait.on.empty() ? "(nobody)" : printable(wait.on); }

std::string waits_table(const TimeLedger& ledger, std::size_t most) {
  TextTable table({"waited for", "s", "%", "by the rule"}, TextTable::LastColumn::kWords);
  Duration waited{0};
  for (const Wait& wait : ledger.waits) waited += wait.time;
  for (std::size_t i = 0; i < std::min(most, ledger.waits.size()); ++i) {
    const Wait& wait = ledger.waits[i];
    table.add({whom(wait), seconds_text(to_seconds(wait.time)), percent(share_of(wait.time, waited), 1),
               printable(wait.rule)});
  }
  return table.text();
}

// The slowest servers first, at most this many.
constexpr std::size_t kServersInTable = 8;

std::string updates_lines(const Summary& summary) {
  std::vector<MeasuredUpdates> servers = summary.measured_updates;
  std::stable_sort(servers.begin(), servers.end(),
                   [](const auto& a, const auto& b) { return a.mean_ms > b.mean_ms; });
  if (servers.size() > kServersInTable) servers.resize(kServersInTable);
  std::string text;
  for (const MeasuredUpdates& updates : servers) {
    text += fmt::format("a commit took {} ms on server {}", short_number(updates.mean_ms), updates.server);
    if (updates.gradient_ms) {
      text += fmt::format("; one of a single gradient {} ms, and {} ms more for each further one",
                          short_number(updates.update_ms), short_number(*updates.gradient_ms));
    }
    text += fmt::format(" ({} commits)\n", with_thousands(updates.count));
  }
  return text;
}

}  // namespace

std::string what_holds_back(const TimeLedger& ledger, const std::string& policy) {
  Duration all{0};
  for (const DeviceTime& device : ledger.devices) all += device.total();
  // A run starts only once, so its start does not hold it back now.
  all -= ledger.of(TimeCause::kStarting);
  if (all == Duration::zero()) return "nothing is known yet";
  TimeCause worst = TimeCause::kWaiting;
  for (std::size_t i = 1; i < kTimeCauses; ++i) {
    const auto cause = static_cast<TimeCause>(i);
    if (cause != TimeCause::kStarting && ledger.of(cause) > ledger.of(worst)) worst = cause;
  }
  const double share = share_of(ledger.of(worst), all);
  if (share < kSmallShare) {
    return fmt::format("nothing holds it back: devices compute {} % of their time",
                       percent(share_of(ledger.of(TimeCause::kComputing), all), 0));
  }
  return worst == TimeCause::kWaiting ? about_waiting(ledger, policy)
                                      : about(worst, ledger, percent(share, 0));
}

std::string time_table(const TimeLedger& ledger, const Summary& summary, std::size_t most) {
  std::vector<TimeCause> shown;
  for (std::size_t i = 0; i < kTimeCauses; ++i) {
    const auto cause = static_cast<TimeCause>(i);
    if (i == 0 || ledger.of(cause) > Duration::zero()) shown.push_back(cause);
  }
  std::vector<std::string> head{"device"};
  for (const TimeCause cause : shown) head.emplace_back(to_string(cause));
  head.push_back(seconds_of(summary.run.world));
  TextTable table(std::move(head), TextTable::LastColumn::kNumbers);
  const std::size_t rows = std::min(most, ledger.devices.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const DeviceTime& device = ledger.devices[i];
    std::vector<std::string> row{printable(device.device)};
    for (const TimeCause cause : shown) row.push_back(seconds_text(to_seconds(device.of(cause))));
    row.push_back(seconds_text(to_seconds(device.total())));
    table.add(std::move(row));
  }
  Duration all{0};
  for (const DeviceTime& device : ledger.devices) all += device.total();
  std::vector<std::string> row{"all (%)"};
  for (const TimeCause cause : shown) row.push_back(percent(share_of(ledger.of(cause), all), 1));
  row.push_back(kUnknownCell);
  table.add(std::move(row));
  std::string text = fmt::format("{}\n\n{}", what_holds_back(ledger, summary.run.policy), table.text());
  if (rows < ledger.devices.size())
    text += fmt::format("and {} more devices\n", ledger.devices.size() - rows);
  text += updates_lines(summary);
  return ledger.waits.empty() ? text : text + "\n" + waits_table(ledger, most);
}

}  // namespace paceline::report
