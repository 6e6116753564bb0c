// The meeting point for a joint examination of a job's hosts: a port of the first host, with the job's
// certificates and token, as a coordinator has them. The examination asks one host at a time, and waits for
// its answer.
//
// One thread asks; gRPC's threads bring what comes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/rpc/access.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::rpc {

class DoctorServer {
 public:
  // Listens. `notice`: one line about a process that was refused; from any thread. Errors: Unavailable when
  // the address cannot be had.
  static absl::StatusOr<std::unique_ptr<DoctorServer>> open(const std::string& address, const Access& access,
                                                            int hosts,
                                                            std::function<void(const std::string&)> notice);
  ~DoctorServer();

  const std::string& address() const;
  // Until all are here, for so long at most.
  void wait_for_all(std::chrono::milliseconds limit);
  // What a host said when it came; nothing when it did not.
  std::optional<wire::DoctorHello> hello(int host) const;
  // Errors: Unavailable (it did not come, or has gone), DeadlineExceeded.
  absl::StatusOr<wire::DoctorAnswer> ask(int host, wire::DoctorOrder order, std::chrono::milliseconds limit);
  // To all, and waits a little for them to go. `refused`: something has to be fixed.
  void send_disconnect(bool refused, const std::string& why);

 private:
  struct State;
  explicit DoctorServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline::rpc
