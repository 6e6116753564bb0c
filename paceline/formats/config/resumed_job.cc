#include "paceline/formats/config/resumed_job.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::config {

namespace {

std::string from_weights_of(const ResumedRun& run) {
  return fmt::format("paceline export {} model.safetensors, then --set model.weights=model.safetensors",
                     run.folder);
}

// The run knows by their places in the order which samples are done, and the seed makes that order.
absl::Status check_seed(const JobConfig& before, const JobConfig& now) {
  if (now.seed == before.seed) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "seed: the run began with {}, which orders its samples; leave this out, or begin another run",
      before.seed));
}

// "first moment, second moment".
std::string state_of(ps::OptimizerKind kind) {
  const auto& [first, second] = ps::traits_of(kind).state;
  return second == nullptr ? first : fmt::format("{}, {}", first, second);
}

// Checkpoints have the optimizer's state as numbers without a name: another optimizer would take them for its own.
absl::Status check_optimizer(const JobConfig& before, const JobConfig& now, const ResumedRun& run) {
  const ps::OptimizerKind had = before.optimizer.kind, has = now.optimizer.kind;
  if (state_of(has) == state_of(had)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "optimizer.name: the run began with {}, whose state ({}) is not that of {} ({}); leave this out. "
      "To train the run's weights with another optimizer, begin a run: {}",
      ps::traits_of(had).name, state_of(had), ps::traits_of(has).name, state_of(has), from_weights_of(run)));
}

absl::Status check_epoch(const JobConfig& before, const JobConfig& now, const ResumedRun& run) {
  const std::int64_t samples = samples_an_epoch(now, run.whole_set);
  if (!run.epoch_before || *run.epoch_before == samples) return absl::OkStatus();
  if (samples_an_epoch(before, run.whole_set) == *run.epoch_before) {
    return absl::InvalidArgumentError(
        fmt::format("drop_last: an epoch of this run has {} samples, and with other batches or another "
                    "drop_last it would have {}; leave them as they were when the run began",
                    *run.epoch_before, samples));
  }
  return absl::InvalidArgumentError(fmt::format(
      "the data have {} samples, and had {} when the run began; a run goes on with the data that it began "
      "with. To train its weights on other data, begin a run: {}",
      samples, *run.epoch_before, from_weights_of(run)));
}

}  // namespace

absl::Status check_resumed(const JobConfig& before, const JobConfig& now, const ResumedRun& run) {
  PACELINE_RETURN_IF_ERROR(check_seed(before, now));
  PACELINE_RETURN_IF_ERROR(check_optimizer(before, now, run));
  return check_epoch(before, now, run);
}

}  // namespace paceline::config
