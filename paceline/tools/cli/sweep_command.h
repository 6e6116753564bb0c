// `paceline sweep`: one job in virtual time under every choice of values of some axes, and the tables of what
// each gave. Trainings that a former call finished are not trained again.
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace paceline::cli {

struct SweepOptions {
  std::string file;
  bool markdown = false;
  std::int64_t jobs = 1;    // trainings at a time
  bool quiet = false;       // no progress
  std::string html_file{};  // the tables as a page; empty: none
  std::string json_file;    // an object a training instead of the tables; "-": standard output
};

// The exit status. Every job is checked before the first is trained. Ctrl-C ends it after the present step;
// the trainings it ends are of no use, and are trained anew the next time.
absl::StatusOr<int> sweep_command(const SweepOptions& options);

}  // namespace paceline::cli
