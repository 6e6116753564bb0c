#include "paceline/cli/stop_run.h"

#include <chrono>

#include "paceline/base/status_macros.h"
#include "paceline/config/job_config.h"
#include "paceline/launch/own_address.h"
#include "paceline/peer/peer.h"
#include "paceline/rpc/single_call.h"
#include "paceline/runs/job_file.h"
#include "paceline/runs/leader.h"
#include "paceline/security/token.h"

namespace paceline::cli {

namespace {
constexpr std::chrono::seconds kPatience{3};
}  // namespace

absl::Status stop_run(const store::RunPaths& run, const std::string& token) {
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, runs::read_recorded_job(run));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, run.job()));
  // Only someone who knows the token already can have this process show it.
  const std::string file = job.reach.token_file.empty() ? run.token().string() : job.reach.token_file;
  PACELINE_ASSIGN_OR_RETURN(const std::string own, security::read_token(file));
  if (!security::same_token(token, own))
    return absl::PermissionDeniedError("this is not the token of the job");
  PACELINE_ASSIGN_OR_RETURN(const rpc::Access access,
                            peer::read_access(job.reach.certs, file, security::Role::kOperator));
  const auto leader = runs::read_leader(run);
  if (!leader.ok()) return absl::UnavailableError("nobody leads this run now");
  const auto stub = peer::coordinator_stub(launch::from_here(leader->address), access);
  grpc::ClientContext context;
  rpc::show_token(context, access);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  wire::StopRequest request;
  request.set_why("stopped from a page");
  wire::StopReply reply;
  const grpc::Status asked = rpc::call_once(stub->Stop(&context), request, reply);
  if (asked.ok()) return absl::OkStatus();
  if (asked.error_code() == grpc::StatusCode::PERMISSION_DENIED)
    return absl::PermissionDeniedError(asked.error_message());
  return absl::UnavailableError("nobody leads this run now: " + asked.error_message());
}

}  // namespace paceline::cli
