#include "paceline/tools/cli/certs_command.h"

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"

namespace paceline::cli {

absl::Status certs_command(const security::CertificateRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(const security::MadeCertificates made, security::make_certificates(request));
  const std::string dir = request.dir.string();
  const std::string of_job = made.of_job.string();
  const std::string text =
      fmt::format("{} authority  {}/authority.crt\n", made.new_authority ? "new" : "old", dir) +
      fmt::format("its key        {}/authority.key: anyone who has it can make certificates; keep it here\n",
                  dir) +
      fmt::format(
          "the job        {}: a certificate and a key for each role of job '{}', and its token; good until "
          "{}\n",
          of_job, request.job, security::day_of(made.expire)) +
      fmt::format("each host      gets all of {}: any host may have to lead the run\n", of_job) +
      fmt::format(
          "job.toml       [network]\n               listen = \"0.0.0.0:7461\"\n               certs = "
          "\"{}\"\n",
          of_job);
  launch::print(stdout, text);
  return absl::OkStatus();
}

}  // namespace paceline::cli
