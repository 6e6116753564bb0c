#include "paceline/formats/config/file_kind.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace paceline::config {

namespace {

struct Marks {
  FileKind kind;
  const char* is;       // "a job"
  const char* command;  // the command that takes it
  // Keys that no other kind has: "a", or "a.b" for a key of a section or of one of several.
  std::vector<std::string> keys;
};

const std::vector<Marks>& all_marks() {
  static const std::vector<Marks> marks = {
      {FileKind::kJob,
       "a job",
       "train",
       {"epochs", "runs_dir", "name", "program", "optimizer", "schedule", "sync", "evaluate", "checkpoint",
        "network", "virtual", "cluster", "data.source", "device.pace", "device.pace_ms"}},
      {FileKind::kScenario,
       "a scenario",
       "simulate",
       {"iterations", "server", "detection_ms", "faults_end_s", "device.compute_ms", "device.mtbf_s"}},
      {FileKind::kCluster,
       "a cluster",
       "plan",
       {"layer", "planner", "device.speed", "device.layer_ms", "device.overhead_ms"}},
      {FileKind::kSweep, "a sweep", "sweep", {"axis", "columns", "mean_over"}}};
  return marks;
}

bool has_key(const toml::table& root, const std::string& key) {
  const std::size_t dot = key.find('.');
  const toml::node* node = root.get(key.substr(0, dot));
  if (node == nullptr || dot == std::string::npos) return node != nullptr;
  const std::string inner = key.substr(dot + 1);
  if (const toml::table* table = node->as_table()) return table->contains(inner);
  const toml::array* array = node->as_array();
  return array != nullptr && std::any_of(array->begin(), array->end(), [&](const toml::node& one) {
           return one.is_table() && one.as_table()->contains(inner);
         });
}

bool has_any(const toml::table& root, const Marks& marks) {
  return std::any_of(marks.keys.begin(), marks.keys.end(),
                     [&](const std::string& key) { return has_key(root, key); });
}

}  // namespace

absl::Status unless_other_kind(const toml::table& root, FileKind taken_for, const std::string& file,
                               const absl::Status& status) {
  if (status.ok()) return status;
  const Marks* other = nullptr;
  for (const Marks& marks : all_marks()) {
    if (!has_any(root, marks)) continue;
    if (marks.kind == taken_for || other != nullptr) return status;
    other = &marks;
  }
  if (other == nullptr) return status;
  return absl::InvalidArgumentError(
      fmt::format("{}: this is {}; `paceline {}` takes it", file, other->is, other->command));
}

}  // namespace paceline::config
