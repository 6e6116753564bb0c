// The information in a report that the facts do not have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::runs {

// The journal's keys for facts about the whole run, and the values of kWorldKey.
inline constexpr char kTotalSamplesKey[] = "total_samples";
inline constexpr char kDatasetSizeKey[] = "dataset_size";
inline constexpr char kDataOrderKey[] = "data_order";
inline constexpr char kWorldKey[] = "world";
inline constexpr char kLiveWorld[] = "live";
inline constexpr char kVirtualWorld[] = "virtual";

// The job of an attempt: a resumed run may have changed it.
inline std::string job_key(std::int64_t attempt) { return "job_" + std::to_string(attempt); }

// The lost commits of an attempt from which the run went back: commits after the checkpoint that a process
// may have seen.
inline std::string lost_commits_key(std::int64_t attempt) {
  return "lost_commits_" + std::to_string(attempt);
}

// Why the run went back from an attempt, if the attempt lived to record it.
inline std::string went_back_key(std::int64_t attempt) { return "went_back_" + std::to_string(attempt); }

// Why the training of an attempt diverged: its weights are no finite numbers.
inline std::string diverged_key(std::int64_t attempt) { return "diverged_" + std::to_string(attempt); }

// Two times of an attempt of a live run, in nanoseconds since 1970: the opening of its journal; and its first
// release, with the job's time of that.
inline std::string opened_key(std::int64_t attempt) { return "opened_" + std::to_string(attempt); }
inline std::string released_key(std::int64_t attempt) { return "released_" + std::to_string(attempt); }

// The measured differences of used weights: the five numbers of report::UsedWeights.
inline constexpr char kUsedWeightsKey[] = "used_weights";

// The state beside the newest checkpoint that an attempt wrote, as JSON.
inline std::string saved_state_key(std::int64_t attempt) { return "saved_state_" + std::to_string(attempt); }

// The attempts after the first, by the reason why the one before ended: at most kMostReasons reasons, without
// their numbers. An attempt that recorded no reason was stopped or cut short, and the run was resumed.
inline constexpr std::size_t kMostReasons = 16;
inline std::map<std::string, std::int64_t> restarts_by_reason(const std::map<std::string, std::string>& about,
                                                              std::int64_t attempts) {
  std::map<std::string, std::int64_t> reasons;
  for (std::int64_t attempt = 1; attempt < attempts; ++attempt) {
    const auto said = about.find(went_back_key(attempt));
    std::string why = said == about.end() ? "resumed" : report::without_numbers(said->second);
    if (reasons.size() >= kMostReasons && !reasons.contains(why)) why = "other";
    ++reasons[why];
  }
  return reasons;
}

// `about`: the journal's keys and their values. Nothing if the key is missing, or has no positive number.
inline std::optional<std::int64_t> count_in(const std::map<std::string, std::string>& about,
                                            const std::string& key) {
  const auto found = about.find(key);
  std::int64_t count = 0;
  if (found == about.end() || !absl::SimpleAtoi(found->second, &count) || count <= 0) return std::nullopt;
  return count;
}

inline std::string to_text(const report::UsedWeights& used) {
  return fmt::format("{} {} {} {} {}", used.gradient, used.mean, used.most, used.mean_bound, used.most_bound);
}
// Nothing if the key is missing or does not have five finite numbers.
inline std::optional<report::UsedWeights> used_weights_in(const std::map<std::string, std::string>& about) {
  const auto found = about.find(kUsedWeightsKey);
  if (found == about.end()) return std::nullopt;
  std::vector<double> numbers;
  for (const absl::string_view text : absl::StrSplit(found->second, ' ')) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) return std::nullopt;
    numbers.push_back(number);
  }
  if (numbers.size() != 5) return std::nullopt;
  return report::UsedWeights{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
}

// The world of a run; live if its journal does not say.
inline report::World world_of(const std::map<std::string, std::string>& about) {
  const auto found = about.find(kWorldKey);
  const bool is_virtual = found != about.end() && found->second == kVirtualWorld;
  return is_virtual ? report::World::kVirtual : report::World::kLive;
}

// Paces of devices that have them in milliseconds, in a live run: in the other worlds paces are kept by
// definition. Stages are ignored.
inline report::AskedPace asked_pace(const config::JobConfig& job, report::World world) {
  const bool any = std::any_of(job.devices.begin(), job.devices.end(),
                               [](const config::DeviceConfig& device) { return device.pace_ms.has_value(); });
  if (!any || world != report::World::kLive || job.parallel.of_stages()) return {};
  return [job](const report::AskedIteration& asked) -> std::optional<Duration> {
    std::size_t device = 0;
    while (device < job.devices.size() && job.devices[device].name != asked.replica) ++device;
    if (device == job.devices.size() || !job.devices[device].pace_ms) return std::nullopt;
    const double batches =
        static_cast<double>(asked.samples) / static_cast<double>(job.devices[device].batch);
    const double steps = static_cast<double>(std::max<std::int64_t>(1, asked.steps));
    return config::paced(job, device, asked.clock, asked.steps, asked.start,
                         job.parallel.paced_by_samples() ? batches : steps, Duration::zero());
  };
}

// The policy, and the way in which a planner or a static division shares out the work, if one does: "bsp,
// joint".
inline std::string method_of(const config::JobConfig& job) {
  const std::string policy = policy::to_string(job.policy);
  if (job.parallel.mode == config::Parallel::kData) return policy;
  return policy + ", " + config::to_string(job.parallel.mode);
}

// `total_samples` may be kUnknownTotal. `epoch_samples`: 0 if it is not known.
inline report::RunInfo run_info(const config::JobConfig& job, report::World world, std::int64_t total_samples,
                                std::int64_t epoch_samples) {
  std::vector<std::string> devices;
  for (const config::DeviceConfig& device : job.devices) devices.push_back(device.name);
  return {.title = job.name,
          .policy = method_of(job),
          .world = world,
          .total_samples = total_samples == kUnknownTotal ? 0 : total_samples,
          .target = job.target,
          .epoch_samples = epoch_samples,
          .staleness_bound = policy::make_policy(job.policy)->bounds().version_staleness,
          .devices = std::move(devices),
          .layers = static_cast<std::int32_t>(job.parallel.model.layers.size()),
          .asked_pace = asked_pace(job, world),
          .seed = job.seed,
          .budget = job.budget ? std::optional(job.budget->most.kind) : std::nullopt};
}

}  // namespace paceline::runs
