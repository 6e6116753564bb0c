#include "paceline/processes/peer/grpc_log.h"

#include <string>

#include <absl/strings/match.h>

#include "paceline/processes/peer/refused_log.h"

namespace paceline::peer {

namespace {
constexpr char kOtherName[] = "No match found for server name: ";
}  // namespace

// gRPC's only messages about connections that are closed before any call.
void log_of_grpc(gpr_log_func_args* args) {
  const std::string message = args->message;
  if (absl::StrContains(message, "Handshake failed")) {
    warn_of_refused("refused a connection: " + message.substr(message.find("Handshake")));
  } else if (absl::StrContains(message, kOtherName)) {
    warn_of_refused("refused a connection: it wants " +
                    message.substr(message.find(kOtherName) + sizeof(kOtherName) - 1));
  } else if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    warn_of_refused("gRPC: " + message);
  }
}

}  // namespace paceline::peer
