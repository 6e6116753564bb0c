#include "paceline/tools/cli/asked_job.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/toml_text.h"
#include "paceline/tools/cli/asked_schedule.h"

namespace paceline::cli {

namespace {

constexpr char kAhead[] = "data.ahead";
constexpr char kLeastShare[] = "least_share";
constexpr char kBatch[] = "batch";
constexpr char kOptimizer[] = "optimizer.name";
constexpr char kSchedule[] = "schedule.table";
constexpr std::size_t kLongestValue = 60;
// A longer one is nothing that a person types.
constexpr std::size_t kLongestSet = 1000;

// The value in TOML's form, so that 1 and 1.0 are equal. Nothing if there is none.
std::optional<std::string> value_of(const toml::table& table, const std::string& key) {
  const toml::node_view<const toml::node> node = table.at_path(key);
  if (!node) return std::nullopt;
  if (const auto number = node.value<double>(); number && !node.is_boolean())
    return fmt::format("{}", *number);
  std::ostringstream text;
  text << node;
  return text.str();
}

std::string in_short(const std::string& value) {
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

bool is_set(const std::string& key, const Sayers& sayers) {
  return std::any_of(sayers.sets.begin(), sayers.sets.end(),
                     [&](const std::string& set) { return set.starts_with(key + "="); });
}

std::string or_set(const std::string& key, const std::string& wanted) {
  return wanted.size() > kLongestSet ? "" : fmt::format(", or add --set {}={}", key, wanted);
}

absl::Status contradiction(const std::string& key, const std::string& said, const std::string& wanted,
                           const Sayers& sayers) {
  const bool by_set = is_set(key, sayers);
  if (sayers.resumed && !by_set) {
    // The run's optimizer has a state, which another one may not have.
    const std::string otherwise = key == kOptimizer ? "" : or_set(key, wanted);
    return absl::InvalidArgumentError(
        fmt::format("the run began with {} = {}, and {} says {}; say {} there again{}", key, in_short(said),
                    sayers.program, in_short(wanted),
                    said.size() > kLongestValue ? "what it began with" : said, otherwise));
  }
  return absl::InvalidArgumentError(fmt::format("{} is {} in {} and {} in {}; say it in one of them only",
                                                key, in_short(said), by_set ? "--set" : sayers.file,
                                                in_short(wanted), sayers.program));
}

absl::Status other_schedule(const ScheduleDifference& found, const std::string& wanted,
                            const Sayers& sayers) {
  const bool by_set = is_set(kSchedule, sayers);
  if (sayers.resumed && !by_set)
    return absl::InvalidArgumentError(fmt::format(
        "the run began with another schedule than that of {}: at epoch {:g} it has {:g} times "
        "the rate, and had {:g} times; make it as it was, or leave it out to go on with the run's{}",
        sayers.program, found.epoch, found.wanted, found.said, or_set(kSchedule, wanted)));
  return absl::InvalidArgumentError(
      fmt::format("{} is another schedule in {} than in {}: at epoch {:g} it has {:g} times the rate, and "
                  "{:g} times in {}; say it in one of them only",
                  kSchedule, by_set ? "--set" : sayers.file, sayers.program, found.epoch, found.said,
                  found.wanted, sayers.program));
}

// A device's own batch counts more than the one above it.
absl::Status same_on_devices(const toml::table& job, const std::string& wanted, const Sayers& sayers) {
  const toml::array* const devices = job["device"].as_array();
  if (devices == nullptr) return absl::OkStatus();
  for (const toml::node& device : *devices) {
    const toml::table* const table = device.as_table();
    const auto said = table == nullptr ? std::nullopt : value_of(*table, kBatch);
    if (said && said != wanted) return contradiction("device.batch", *said, wanted, sayers);
  }
  return absl::OkStatus();
}

// The program's own name for a setting of a job.
std::string name_in_program(const std::string& key) {
  if (key == kBatch) return "batch_size";
  return key == "optimizer.clip" ? "clip" : key;
}

// Blames the line of the program that asks for a setting which a job cannot have. OK: the job can have it.
absl::Status check_asked(const std::string& job_toml, const std::string& set, const Sayers& sayers) {
  const auto resolved = config::resolve_job(job_toml, sayers.file, {set});
  const absl::Status status =
      resolved.ok() ? config::parse_job(*resolved, sayers.file).status() : resolved.status();
  if (status.ok()) return status;
  const std::size_t equals = set.find('=');
  const std::string key = set.substr(0, equals);
  const std::string said(status.message());
  const std::size_t at = said.rfind(key + ": ");
  return {status.code(), fmt::format("{}: {} = {}: {}", sayers.where.empty() ? sayers.program : sayers.where,
                                     name_in_program(key), set.substr(equals + 1, kLongestValue),
                                     at == std::string::npos ? said : said.substr(at + key.size() + 2))};
}

}  // namespace

absl::StatusOr<std::string> with_asked(const std::string& job_toml, const std::vector<std::string>& asked,
                                       const Sayers& sayers) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table job, config::parse_toml(job_toml, sayers.file));
  std::vector<std::string> missing;
  for (const std::string& set : asked) {
    const std::string key = set.substr(0, set.find('='));
    toml::table alone;
    PACELINE_RETURN_IF_ERROR(config::lay_over(alone, {set}));
    const auto said = value_of(job, key);
    const auto wanted = value_of(alone, key);
    if (!said) missing.push_back(set);
    if (key == kAhead || key == kLeastShare) continue;  // a wish; someone who says another number knows why
    if (key == kSchedule && have_schedules(job, alone)) {
      if (const auto other = schedule_difference(job, alone)) return other_schedule(*other, *wanted, sayers);
      continue;
    }
    if (said && said != wanted) return contradiction(key, *said, wanted.value_or("something else"), sayers);
    if (key == kBatch && wanted) PACELINE_RETURN_IF_ERROR(same_on_devices(job, *wanted, sayers));
  }
  absl::StatusOr<std::string> resolved = config::resolve_job(job_toml, sayers.file, missing);
  if (resolved.ok() && config::parse_job(*resolved, sayers.file).ok()) return resolved;
  for (const std::string& set : missing) PACELINE_RETURN_IF_ERROR(check_asked(job_toml, set, sayers));
  return resolved;
}

}  // namespace paceline::cli
