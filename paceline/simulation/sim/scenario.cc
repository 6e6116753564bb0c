#include "paceline/simulation/sim/scenario.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/formats/config/file_kind.h"
#include "paceline/formats/config/old_keys.h"
#include "paceline/formats/config/section.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::sim {

namespace {

using config::Complaints;
using config::Section;

constexpr std::int64_t kMostDevices = 1'000'000;
constexpr double kMostSeconds = 1e9;

void read_length(Section& top, Scenario& scenario) {
  constexpr std::int64_t kDefaultIterations = 1000;
  scenario.iterations = top.integer("iterations", 0, 1, std::int64_t{1} << 40);
  scenario.samples = top.integer("samples", 0, 1, std::int64_t{1} << 50);
  if (scenario.iterations > 0 && scenario.samples > 0)
    top.complain("samples", "give either iterations or samples, not both");
  if (scenario.samples == 0 && scenario.iterations == 0) scenario.iterations = kDefaultIterations;
}

void read_servers(Section section, config::ServerLinks& servers) {
  servers.count = section.integer("count", servers.count, 1, 100'000);
  servers.gbps = section.number("gbps", servers.gbps, 1e-6, 1e6);
  servers.colocated = section.boolean("colocated", servers.colocated);
  servers.update = config::read_update_time(section);
  section.finish();
}

void read_place(Section section, const config::Link& link, Complaints& complaints, ClusterModel& cluster) {
  const std::int64_t count = section.integer("count", 1, 1, kMostDevices);
  PlaceModel place;
  place.compute_ms = section.number("compute_ms", place.compute_ms, 0.001, 1e9);
  place.unevenness = config::read_unevenness(section);
  place.batch = section.integer("batch", place.batch, 1, 1 << 20);
  place.mtbf_s = section.number("mtbf_s", 0, 0.001, kMostSeconds);
  place.mttr_s = section.number("mttr_s", place.mttr_s, 0, kMostSeconds);
  place.link = config::read_link(section.table("link"), "device.link", link, complaints);
  section.finish();
  if (cluster.places.size() + static_cast<std::size_t>(count) > static_cast<std::size_t>(kMostDevices)) {
    return section.complain("count", fmt::format("write fewer: at most {} devices in all", kMostDevices));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    place.name = fmt::format("w{}", cluster.places.size());
    cluster.places.push_back(place);
  }
}

void read_change(Section section, ClusterModel& cluster) {
  const auto last = static_cast<std::int64_t>(cluster.places.size()) - 1;
  const std::int64_t place = section.integer("device", 0, 0, last);
  const double at_s = section.number("at_s", 0, 0, kMostSeconds);
  const std::size_t what = section.choice("what", 0, {"slow", "join", "leave", "crash"});
  if (what == 0) {
    const double until_s = section.number("until_s", kMostSeconds, 0, kMostSeconds);
    const double factor = section.number("factor", 2, 1e-3, 1e4);
    if (until_s <= at_s) section.complain("until_s", "write a time after at_s");
    cluster.slowdowns.push_back({.device = place, .at_s = at_s, .until_s = until_s, .factor = factor});
  } else {
    for (const char* key : {"until_s", "factor"}) {
      if (section.has(key)) section.complain(key, "only a change with what = \"slow\" has it");
    }
    cluster.changes.push_back(
        {.at = Time{} + from_seconds(at_s), .place = place, .what = static_cast<Happening>(what - 1)});
  }
  section.finish();
}

void read_data(Section section, Scenario& scenario) {
  scenario.ahead = section.integer("ahead", 0, 0, control::kMostAhead);
  scenario.cluster.load_ms = section.number("load_ms", 0, 0, 1e9);
  section.finish();
}

void read_model(Section section, ClusterModel& cluster) {
  cluster.bytes = section.integer("bytes", 0, 0, std::int64_t{1} << 44);
  section.finish();
}

Scenario read_scenario(const toml::table& root, Complaints& complaints) {
  Scenario scenario;
  ClusterModel& cluster = scenario.cluster;
  Section top(&root, "", complaints);
  cluster.seed = static_cast<std::uint64_t>(top.integer("seed", 1, 0, INT64_MAX));
  read_length(top, scenario);
  cluster.uneven_data = top.choice("parallel", 0, {"data", "uneven-data"}) == 1;
  cluster.detection = from_seconds(top.number("detection_ms", 10, 0, 1e9) / 1000);
  if (top.has("faults_end_s"))
    cluster.faults_end = Time{} + from_seconds(top.number("faults_end_s", 0, 0, kMostSeconds));
  read_data({top.table("data"), "data", complaints}, scenario);
  read_model({top.table("model"), "model", complaints}, cluster);
  const config::Link link = config::read_link(top.table("link"), "link", {}, complaints);
  read_servers({top.table("server"), "server", complaints}, cluster.servers);
  for (const toml::table* table : top.tables("device"))
    read_place({table, "device", complaints}, link, complaints, cluster);
  if (cluster.places.empty()) read_place({nullptr, "device", complaints}, link, complaints, cluster);
  for (const toml::table* table : top.tables("change")) read_change({table, "change", complaints}, cluster);
  std::stable_sort(cluster.changes.begin(), cluster.changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  top.finish();
  return scenario;
}

}  // namespace

absl::StatusOr<Scenario> parse_scenario(const std::string& text, const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, config::parse_toml(text, file));
  Complaints complaints(file);
  config::refuse_old_keys(root, complaints);
  Scenario scenario = read_scenario(root, complaints);
  PACELINE_RETURN_IF_ERROR(
      config::unless_other_kind(root, config::FileKind::kScenario, file, complaints.status()));
  return scenario;
}

}  // namespace paceline::sim
