// The information in a report that is not in the facts.
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

#include "paceline/config/job_config.h"
#include "paceline/policy/policy_spec.h"
#include "paceline/report/summary.h"
#include "paceline/report/terminal_text.h"

namespace paceline::runs {

// The journal's keys for what the whole run is, and the values of kWorldKey.
inline constexpr char kTotalSamplesKey[] = "total_samples";
inline constexpr char kDatasetSizeKey[] = "dataset_size";
inline constexpr char kWorldKey[] = "world";
inline constexpr char kLiveWorld[] = "live";
inline constexpr char kVirtualWorld[] = "virtual";

// The job as an attempt ran it: a resumed run may have changed it.
inline std::string job_key(std::int64_t attempt) { return "job_" + std::to_string(attempt); }

// The losses of an attempt that the run went back from: commits after the checkpoint that a process may have
// seen.
inline std::string lost_commits_key(std::int64_t attempt) {
  return "lost_commits_" + std::to_string(attempt);
}

// Why the run went back from an attempt, where that lived to say it.
inline std::string went_back_key(std::int64_t attempt) { return "went_back_" + std::to_string(attempt); }

// Of an attempt of a live run, in nanoseconds since 1970: when its journal was opened; and when it first
// released anybody, with the job's time then.
inline std::string opened_key(std::int64_t attempt) { return "opened_" + std::to_string(attempt); }
inline std::string released_key(std::int64_t attempt) { return "released_" + std::to_string(attempt); }

// What was measured of the weights that gradients were computed on: five numbers, as report::UsedWeights.
inline constexpr char kUsedWeightsKey[] = "used_weights";

// The state beside the newest checkpoint that an attempt wrote, as JSON.
inline std::string saved_state_key(std::int64_t attempt) { return "saved_state_" + std::to_string(attempt); }

// Attempts after the first, by why the one before it ended: at most so many reasons, without their numbers.
// One that did not say so was stopped or cut short, and the run was resumed.
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

// `about`: those keys and their values. Nothing when the key is missing, or does not hold a positive number.
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
// Nothing if the key is missing or does not hold five finite numbers.
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

// Of a run whose journal says nothing of it: live.
inline report::World world_of(const std::map<std::string, std::string>& about) {
  const auto found = about.find(kWorldKey);
  const bool is_virtual = found != about.end() && found->second == kVirtualWorld;
  return is_virtual ? report::World::kVirtual : report::World::kLive;
}

// Of devices whose pace is given in milliseconds, live: elsewhere it is held by definition. Stages are not
// looked at.
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
    return config::paced(job, device, asked.clock, asked.start,
                         job.parallel.paced_by_samples() ? batches : steps, Duration::zero());
  };
}

// How it synchronizes, and where a planner or a static division shares out the work, which: "bsp, joint".
inline std::string method_of(const config::JobConfig& job) {
  const std::string policy = policy::to_string(job.policy);
  if (job.parallel.mode == config::Parallel::kData) return policy;
  return policy + ", " + config::to_string(job.parallel.mode);
}

// `epoch_samples`: 0 where it is not known.
inline report::RunInfo run_info(const config::JobConfig& job, report::World world, std::int64_t total_samples,
                                std::int64_t epoch_samples) {
  std::vector<std::string> devices;
  for (const config::DeviceConfig& device : job.devices) devices.push_back(device.name);
  return {.title = job.name,
          .policy = method_of(job),
          .world = world,
          .total_samples = total_samples,
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
