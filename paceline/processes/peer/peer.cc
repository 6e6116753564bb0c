#include "paceline/processes/peer/peer.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/transport/security/token.h"

namespace paceline::peer {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

// The pauses between two attempts to reach a coordinator.
constexpr std::chrono::milliseconds kFirstPause = 50ms;
constexpr std::chrono::milliseconds kLongestPause = 1s;
constexpr std::chrono::milliseconds kPreflightLimit = 5s;
// After this many connections in a row that were closed without a word, something is wrong.
constexpr int kMostClosed = 3;
constexpr char kFileSign = '@';
constexpr std::int64_t kLongestAddress = 1000;  // bytes

// The address that PeerOptions::coordinator means. Errors: those of the file.
absl::StatusOr<std::string> coordinator_address(const std::string& option) {
  if (option.empty() || option.front() != kFileSign) return option;
  const auto text = store::read_file(option.substr(1), kLongestAddress);
  if (absl::IsNotFound(text.status()))
    return absl::FailedPreconditionError(fmt::format(
        "{}: no such file, so there is no coordinator to wait for; the run is over, or the path is wrong",
        option.substr(1)));
  PACELINE_RETURN_IF_ERROR(text.status());
  return text->substr(0, text->find('\n'));
}

std::string token_file_of(const std::string& certs, const std::string& token_file) {
  return token_file.empty() ? certs + "/token" : token_file;
}

}  // namespace

absl::StatusOr<std::string> wait_for_coordinator(const std::string& option, const rpc::Access& access,
                                                 double patience_s) {
  const auto deadline = steady_clock::now() + std::chrono::duration<double>(patience_s);
  auto pause = kFirstPause;
  int closed = 0;
  bool said = false;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const std::string address, coordinator_address(option));
    const absl::Status answer = rpc::preflight(address, access, kPreflightLimit);
    if (answer.ok()) return address;
    closed = absl::IsAborted(answer) ? closed + 1 : 0;
    if (closed == kMostClosed) return absl::FailedPreconditionError(answer.message());
    if (closed == 0 && !absl::IsUnavailable(answer)) return answer;
    if (!std::exchange(said, true))
      spdlog::info("waiting at most {} s for the coordinator at {}: {}, or does not listen yet", patience_s,
                   address, std::string(wire::coordinator_lost().message()));
    if (steady_clock::now() + pause > deadline) {
      return with_exit_reason(absl::UnavailableError(fmt::format("{}; waited for {} s",
                                                                 std::string(answer.message()), patience_s)),
                              ExitReason::kCoordinatorLost);
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
  PACELINE_ASSIGN_OR_RETURN(access.token, security::read_token(token_file_of(certs, token_file)));
  return access;
}

std::unique_ptr<Stub> coordinator_stub(const std::string& address, const rpc::Access& access,
                                       std::chrono::milliseconds limit) {
  return wire::Coordinator::NewStub(rpc::channel_to(address, access, limit));
}

absl::Status with_coordinator(const PeerOptions& options, security::Role role, const Session& session) {
  PACELINE_ASSIGN_OR_RETURN(const rpc::Access access, read_access(options.certs, options.token_file, role));
  const std::string token = token_file_of(options.certs, options.token_file);
  if (security::is_exposed(token)) spdlog::warn("{}", security::exposed_in_words(token));
  double patience_s = options.first_patience_s;
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const std::string address,
                              wait_for_coordinator(options.coordinator, access, patience_s));
    patience_s = options.patience_s;
    const auto stub = coordinator_stub(address, access);
    const absl::Status outcome = session(*stub, access);
    if (outcome != wire::coordinator_lost() && !absl::IsAborted(outcome)) return outcome;
    spdlog::warn("{}; coming again", std::string(outcome.message()));
  }
}

}  // namespace paceline::peer
