// Any bytes as a job file: a job whose resolved text is the same job, or one line that says what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/base/check.h"
#include "paceline/base/testing/one_line.h"
#include "paceline/formats/config/job_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto job = paceline::config::parse_job(text, "FILE");
  if (!job.ok()) {
    paceline::testing::check_one_line(job.status(), "FILE");
    return 0;
  }
  const auto resolved = paceline::config::resolve_job(text, "FILE", {"seed=7"});
  PACELINE_CHECK(resolved.ok(), "a job that cannot be written again");
  const auto again = paceline::config::parse_job(*resolved, "FILE");
  PACELINE_CHECK(again.ok() && again->seed == 7 && again->devices.size() == job->devices.size(),
                 "another job when written again");
  return 0;
}
