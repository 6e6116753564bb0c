// The meeting point for a joint examination of a job's hosts: a port of the first host, with the job's
// certificates and token, like a coordinator's. The examination asks one host at a time, and waits for its
// answer.
//
// One thread asks; gRPC's threads bring the answers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/access.h"

namespace paceline::rpc {

class DoctorServer {
 public:
  // Listens. `notice`: gets one line about each process that was refused; called from any thread. Errors:
  // Unavailable if the address cannot be used.
  static absl::StatusOr<std::unique_ptr<DoctorServer>> open(const std::string& address, const Access& access,
                                                            int hosts,
                                                            std::function<void(const std::string&)> notice);
  ~DoctorServer();

  const std::string& address() const;
  // Waits until all hosts have come, but no longer than `limit`.
  void wait_for_all(std::chrono::milliseconds limit);
  // The host's first message; nothing if the host did not come.
  std::optional<wire::DoctorHello> hello(int host) const;
  // Sends the order and waits for the answer. Errors: Unavailable (the host did not come, or has gone),
  // DeadlineExceeded.
  absl::StatusOr<wire::DoctorAnswer> ask(int host, wire::DoctorOrder order, std::chrono::milliseconds limit);
  // Sends a disconnect to all hosts, and waits briefly for it to leave. `refused`: something has to be fixed.
  void send_disconnect(bool refused, const std::string& why);

 private:
  struct State;
  explicit DoctorServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::rpc
