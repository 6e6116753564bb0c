// The first host's part when all hosts of a job are examined together: it waits for them, asks each, and has
// every two of them measure the link between them, one pair at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "paceline/formats/config/job_config.h"
#include "paceline/processes/rpc/doctor_server.h"
#include "paceline/tools/doctor/facts.h"

namespace paceline::cli {

struct ExamineOptions {
  config::JobConfig job;
  std::string job_toml;  // the first host's, to compare with
  int hosts = 1;
  std::chrono::seconds wait{60};
  std::function<void(const std::string&)> tell;  // how far it is, a line each
};

doctor::ClusterFacts examine_hosts(rpc::DoctorServer& server, const ExamineOptions& options);

}  // namespace paceline::cli
