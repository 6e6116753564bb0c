#include "paceline/rpc/port.h"

#include <chrono>

#include <fmt/format.h>
#include <grpc/support/log.h>

namespace paceline::rpc {

namespace {
constexpr int kLeastPing_ms = 1000;
constexpr std::chrono::milliseconds kShutdownLimit{200};
}  // namespace

absl::StatusOr<std::unique_ptr<Port>> Port::open(const std::string& address,
                                                 const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                                 grpc::Service& service) {
  int port = 0;
  grpc::ServerBuilder builder;
  // gRPC's default lets two servers share one port, which would hide that it is taken.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Peers ask every few seconds whether this host is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kLeastPing_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddListeningPort(address, credentials, &port);
  builder.RegisterService(&service);
  // What gRPC itself would print of an address that cannot be used, the error below says.
  gpr_set_log_function([](gpr_log_func_args*) {});
  auto server = builder.BuildAndStart();
  gpr_set_log_function(nullptr);
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(fmt::format(
        "network.listen: cannot listen on '{}': the port is taken or the address is not this machine's; "
        "choose another one, here or with --coordinator or MASTER_PORT; on one host \"127.0.0.1:0\" is any "
        "free port",
        address));
  }
  return std::unique_ptr<Port>(
      new Port(std::move(server), fmt::format("{}:{}", address.substr(0, address.rfind(':')), port)));
}

Port::~Port() { server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit); }

}  // namespace paceline::rpc
