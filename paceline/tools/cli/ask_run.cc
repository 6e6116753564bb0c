#include "paceline/tools/cli/ask_run.h"

#include <chrono>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/own_address.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/rpc/single_call.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/transport/security/token.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::seconds kPatience{3};
constexpr std::chrono::milliseconds kAskAgain{100};

// A connection to the coordinator of a run.
struct Line {
  std::unique_ptr<wire::Coordinator::Stub> coordinator;
  std::unique_ptr<grpc::ClientContext> context;
};

absl::StatusOr<Line> line_to(const store::RunPaths& run, const std::string& token) {
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
  Line line{peer::coordinator_stub(launch::from_here(leader->address), access),
            std::make_unique<grpc::ClientContext>()};
  rpc::introduce(*line.context, access);
  line.context->set_deadline(std::chrono::system_clock::now() + kPatience);
  return line;
}

absl::Status outcome(const grpc::Status& asked) {
  if (asked.ok()) return absl::OkStatus();
  if (asked.error_code() == grpc::StatusCode::PERMISSION_DENIED)
    return absl::PermissionDeniedError(asked.error_message());
  if (asked.error_code() == grpc::StatusCode::FAILED_PRECONDITION)
    return absl::FailedPreconditionError(asked.error_message());
  return absl::UnavailableError("nobody leads this run now: " + asked.error_message());
}

}  // namespace

absl::StatusOr<std::string> stop_run(const store::RunPaths& run, const std::string& token) {
  wire::StopRequest request;
  request.set_why("stopped from a page");
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const Line line, line_to(run, token));
    wire::StopReply reply;
    const grpc::Status asked = rpc::call_once(line.coordinator->Stop(line.context.get()), request, reply);
    if (asked.ok()) return "the run stops with a checkpoint";
    // The next attempt of the run hears it.
    const bool again = asked.error_code() == grpc::StatusCode::ABORTED;
    if (!again || std::chrono::steady_clock::now() >= until) return outcome(asked);
    std::this_thread::sleep_for(kAskAgain);
  }
}

absl::StatusOr<std::string> evaluate_run(const store::RunPaths& run, const std::string& token) {
  PACELINE_ASSIGN_OR_RETURN(const Line line, line_to(run, token));
  wire::EvaluateNowReply reply;
  PACELINE_RETURN_IF_ERROR(outcome(
      rpc::call_once(line.coordinator->EvaluateNow(line.context.get()), wire::EvaluateNowRequest(), reply)));
  return fmt::format("version {} is measured now; the page shows the result when it is there",
                     reply.version());
}

}  // namespace paceline::cli
