#include "paceline/cli/peer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/security/knock.h"
#include "paceline/security/token.h"

namespace paceline::cli {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// How long a coordinator is waited for, and how often it is asked for.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kFirstPause = 50ms;
constexpr std::chrono::milliseconds kLongestPause = 1s;
constexpr std::chrono::milliseconds kKnockLimit = 5s;
// So many connections in a row that were closed in silence are no accident.
constexpr int kMostClosed = 3;

}  // namespace

absl::Status wait_for_coordinator(const std::string& address, const rpc::Access& access) {
  const auto deadline = steady_clock::now() + kPatience;
  auto pause = kFirstPause;
  int closed = 0;
  while (true) {
    const absl::Status answer = security::knock(address, access.credentials, kKnockLimit);
    closed = absl::IsAborted(answer) ? closed + 1 : 0;
    if (closed == kMostClosed) return absl::FailedPreconditionError(answer.message());
    if (closed == 0 && !absl::IsUnavailable(answer)) return answer;
    if (steady_clock::now() + pause > deadline) {
      return absl::UnavailableError(
          fmt::format("{}; waited for {} s", std::string(answer.message()), kPatience.count()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::StatusOr<rpc::Access> read_access(const std::string& certs, const std::string& token_file,
                                        security::Role role) {
  rpc::Access access;
  if (!certs.empty()) {
    PACELINE_ASSIGN_OR_RETURN(access.credentials, security::read_credentials(certs, role));
  }
  if (certs.empty() && token_file.empty()) {
    return absl::InvalidArgumentError(
        "a process has to show its job's token: say --token-file FILE; a run of one machine keeps it in its "
        "run "
        "folder, RUN/token");
  }
  PACELINE_ASSIGN_OR_RETURN(access.token,
                            security::read_token(token_file.empty() ? certs + "/token" : token_file));
  return access;
}

std::unique_ptr<Stub> coordinator_stub(const std::string& address, const rpc::Access& access) {
  return rpc::wire::Coordinator::NewStub(rpc::channel_to(address, access));
}

absl::Status with_coordinator(const PeerOptions& options, security::Role role, const Stay& stay) {
  PACELINE_ASSIGN_OR_RETURN(const rpc::Access access, read_access(options.certs, options.token_file, role));
  while (true) {
    PACELINE_RETURN_IF_ERROR(wait_for_coordinator(options.coordinator, access));
    const auto stub = coordinator_stub(options.coordinator, access);
    const absl::Status outcome = stay(*stub, access);
    if (outcome != coordinator_lost() && !absl::IsAborted(outcome)) return outcome;
    spdlog::warn("{}; coming again", std::string(outcome.message()));
  }
}

absl::Status coordinator_lost() { return absl::UnavailableError("the coordinator is gone"); }

absl::Status farewell(const rpc::wire::Goodbye& goodbye) {
  if (goodbye.again())
    return absl::AbortedError(fmt::format("the coordinator had given this process up: {}", goodbye.why()));
  if (!goodbye.refused()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the coordinator sent this process away: {}", goodbye.why()));
}

}  // namespace paceline::cli
