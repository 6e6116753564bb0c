#include "paceline/tools/cli/asked_job.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::cli {

namespace {

constexpr char kAhead[] = "data.ahead";
constexpr char kLeastShare[] = "least_share";
constexpr char kBatch[] = "batch";
constexpr char kOptimizer[] = "optimizer.name";

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

absl::Status contradiction(const std::string& key, const std::string& said, const std::string& wanted,
                           const Sayers& sayers) {
  const bool by_set = std::any_of(sayers.sets.begin(), sayers.sets.end(),
                                  [&](const std::string& set) { return set.starts_with(key + "="); });
  if (sayers.resumed && !by_set) {
    // The run's optimizer has a state, which another one may not have.
    const std::string otherwise = key == kOptimizer ? "" : fmt::format(", or add --set {}={}", key, wanted);
    return absl::InvalidArgumentError(
        fmt::format("the run began with {} = {}, and {} says {}; say {} there again{}", key, said,
                    sayers.program, wanted, said, otherwise));
  }
  return absl::InvalidArgumentError(fmt::format("{} is {} in {} and {} in {}; say it in one of them only",
                                                key, said, by_set ? "--set" : sayers.file, wanted,
                                                sayers.program));
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
  constexpr std::size_t kLongestValue = 60;
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
    if (said && said != wanted) return contradiction(key, *said, wanted.value_or("something else"), sayers);
    if (key == kBatch && wanted) PACELINE_RETURN_IF_ERROR(same_on_devices(job, *wanted, sayers));
  }
  absl::StatusOr<std::string> resolved = config::resolve_job(job_toml, sayers.file, missing);
  if (resolved.ok() && config::parse_job(*resolved, sayers.file).ok()) return resolved;
  for (const std::string& set : missing) PACELINE_RETURN_IF_ERROR(check_asked(job_toml, set, sayers));
  return resolved;
}

}  // namespace paceline::cli
