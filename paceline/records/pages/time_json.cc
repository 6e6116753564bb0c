#include "paceline/records/pages/time_json.h"

#include <array>
#include <cstddef>
#include <utility>

#include "paceline/records/pages/report_json.h"
#include "paceline/records/tables/time_table.h"

namespace paceline::report {

namespace {

// The most waits in JSON, of a device and of all together.
constexpr std::size_t kWaitsOfDevice = 16, kWaitsOfAll = 1000;
constexpr std::array<const char*, kTimeCauses> kCauseKeys{
    "computing_s", "loading_s",  "weights_s",    "waiting_s", "servers_s", "on_the_way_s",
    "stages_s",    "starting_s", "recovering_s", "no_work_s", "gone_s"};

Json waits_json(const std::vector<Wait>& waits, std::size_t most) {
  Json list = Json::array();
  for (const Wait& wait : waits) {
    if (list.size() >= most) break;
    list.push_back({{"on", wait.on}, {"rule", wait.rule}, {"s", json_seconds(Time(wait.time))}});
  }
  return list;
}

}  // namespace

Json time_json(const TimeLedger& ledger, const std::string& policy) {
  Json devices = Json::array();
  for (const DeviceTime& device : ledger.devices) {
    if (devices.size() >= kReplicasInReport) break;
    Json row = {{"device", device.device}};
    for (std::size_t i = 0; i < kTimeCauses; ++i) row[kCauseKeys[i]] = json_seconds(Time(device.spent[i]));
    row["waits"] = waits_json(device.waits, kWaitsOfDevice);
    devices.push_back(std::move(row));
  }
  const std::size_t left_out = ledger.devices.size() - devices.size();
  return {{"wall_s", json_seconds(Time(ledger.wall()))},
          {"holds_back", what_holds_back(ledger, policy)},
          {"devices", std::move(devices)},
          {"devices_left_out", left_out},
          {"waits", waits_json(ledger.waits, kWaitsOfAll)}};
}

}  // namespace paceline::report
