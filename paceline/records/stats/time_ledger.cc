#include "paceline/records/stats/time_ledger.h"

#include <numeric>

namespace paceline::report {

namespace {

constexpr std::array<std::string_view, kTimeCauses> kCauseNames{
    "computing",    "loading",  "weights",    "waiting", "servers", "on the way",
    "other stages", "starting", "recovering", "no work", "gone"};

}  // namespace

std::string_view to_string(TimeCause cause) { return kCauseNames[static_cast<std::size_t>(cause)]; }

Duration DeviceTime::total() const { return std::accumulate(spent.begin(), spent.end(), Duration::zero()); }

Duration TimeLedger::of(TimeCause cause) const {
  return std::accumulate(devices.begin(), devices.end(), Duration::zero(),
                         [&](Duration sum, const DeviceTime& device) { return sum + device.of(cause); });
}

void TimeLedger::add_off_clock(Duration starting, Duration recovering) {
  off_clock += starting + recovering;
  for (DeviceTime& device : devices) {
    device.spent[static_cast<std::size_t>(TimeCause::kStarting)] += starting;
    device.spent[static_cast<std::size_t>(TimeCause::kRecovering)] += recovering;
  }
}

}  // namespace paceline::report
