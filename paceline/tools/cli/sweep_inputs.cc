#include "paceline/tools/cli/sweep_inputs.h"

#include <algorithm>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/records/store/files.h"

namespace paceline::cli {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

}  // namespace

absl::StatusOr<std::string> SweepInputs::of(const config::JobConfig& job) {
  PACELINE_ASSIGN_OR_RETURN(std::string inputs, data_of(job));
  if (job.initial_weights.empty()) return inputs;
  PACELINE_ASSIGN_OR_RETURN(const std::string weights, weights_of(job.initial_weights));
  return fmt::format("{}; weights of {}", inputs, weights);
}

absl::StatusOr<std::string> SweepInputs::data_of(const config::JobConfig& job) {
  const auto known = std::find_if(data_.begin(), data_.end(), [&](const auto& one) {
    return one.first.data == job.data && one.first.model.context == job.model.context;
  });
  if (known != data_.end()) return known->second;
  PACELINE_ASSIGN_OR_RETURN(std::string said, engine::built_in()->describe_data(job));
  data_.emplace_back(job, said);
  return said;
}

absl::StatusOr<std::string> SweepInputs::weights_of(const std::string& file) {
  std::string& said = weights_[file];
  if (!said.empty()) return said;
  std::size_t size = 0;
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t digest,
                            store::read_pieces(file, kReadBytes, [&](const std::string& piece) {
                              size += piece.size();
                              return true;
                            }));
  return said = fmt::format("{} bytes, {:08x}", size, digest);
}

}  // namespace paceline::cli
