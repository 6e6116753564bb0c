// The settings of a job that follow from the cards on which its program computes on this host: how many servers there are,
// and the memory that a planner may fill. They depend on the policy and on `parallel`, so each variant of a job has its own.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::program {
struct Model;
}  // namespace paceline::program

namespace paceline::cli {

// The text of a job with its settings; the same text if there are none. Errors: those of parse_job() and resolve_job().
absl::StatusOr<std::string> with_card_settings(const std::string& job_toml, const std::string& file,
                                               const program::Model& model);
// The same. `said`: the program's answer about itself; empty if the job has no program.
absl::StatusOr<std::string> with_card_settings(const std::string& job_toml, const std::string& file,
                                               const std::string& said);

}  // namespace paceline::cli
