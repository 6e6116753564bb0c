#include "paceline/cli/doctor_command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/base/status_macros.h"
#include "paceline/cli/host_findings.h"
#include "paceline/cli/job_file.h"
#include "paceline/config/job_config.h"
#include "paceline/train/devices.h"

namespace paceline::cli {

namespace {

const char* word_of(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    case Health::kFail:
      break;
  }
  return "fail";
}

Finding libtorch() {
  const train::Devices devices = train::devices();
  return {"libtorch", Health::kOk,
          fmt::format("{}, {} CUDA device{}", devices.version, devices.cuda, devices.cuda == 1 ? "" : "s"),
          ""};
}

void print(const std::vector<Finding>& findings) {
  for (const Finding& one : findings) {
    fmt::print("{:<5} {:<16} {}\n", word_of(one.health), one.what, one.says);
    if (!one.mend.empty()) fmt::print("{:22} mend: {}\n", "", one.mend);
  }
}

void print_json(const std::vector<Finding>& findings) {
  auto document = nlohmann::json::array();
  for (const Finding& one : findings) {
    document.push_back(
        {{"what", one.what}, {"health", word_of(one.health)}, {"says", one.says}, {"mend", one.mend}});
  }
  fmt::print("{}\n", document.dump(1));
}

}  // namespace

absl::StatusOr<int> doctor_command(const DoctorOptions& options) {
  std::vector<Finding> findings = host_findings();
  findings.insert(findings.begin() + 1, libtorch());
  if (!options.job_file.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, read_job_file(options.job_file));
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job,
                              config::parse_job(text, options.job_file, options.sets));
    for (Finding& one : job_findings(job)) findings.push_back(std::move(one));
  }
  options.json ? print_json(findings) : print(findings);
  const bool failed = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& one) { return one.health == Health::kFail; });
  return failed ? 2 : 0;
}

}  // namespace paceline::cli
