#include "paceline/processes/rpc/port.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/rpc/local_socket.h"

namespace paceline::rpc {

namespace {

constexpr int kLeastPing_ms = 1000;
// A process has one call, or a few after one another.
constexpr int kMostCalls = 16;
// The memory of gRPC itself for all connections: a job of a thousand processes takes a tenth of it.
constexpr std::size_t kMostMemory = std::size_t{512} << 20;
constexpr std::chrono::milliseconds kShutdownLimit{200};
// A coordinator whose launcher was killed a moment ago may still have the port.
constexpr std::chrono::seconds kPortPatience{3};
constexpr std::chrono::milliseconds kPortPause{50};

}  // namespace

absl::StatusOr<ListeningSocket> listen_for_job(const std::string& address) {
  const auto until = std::chrono::steady_clock::now() + kPortPatience;
  auto listening = listen_at(address);
  while (absl::IsAlreadyExists(listening.status()) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPortPause);
    listening = listen_at(address);
  }
  if (listening.ok()) return listening;
  return absl::UnavailableError(fmt::format(
      "network.listen: cannot listen on '{}': {}; the port is taken or the address is not this machine's; "
      "choose "
      "another one, here or with --coordinator or MASTER_PORT; on one host \"127.0.0.1:0\" is any free port",
      address, std::string(listening.status().message())));
}

absl::StatusOr<std::unique_ptr<Port>> Port::open(const std::string& address, const Access& access,
                                                 grpc::Service& service,
                                                 std::function<void(const std::string&)> refused) {
  PACELINE_ASSIGN_OR_RETURN(ListeningSocket listening, listen_for_job(address));
  return open(std::move(listening), access, service, std::move(refused));
}

absl::StatusOr<std::unique_ptr<Port>> Port::open(ListeningSocket listening, const Access& access,
                                                 grpc::Service& service,
                                                 std::function<void(const std::string&)> refused) {
  grpc::ServerBuilder builder;
  // Peers ask every few seconds whether this host is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kLeastPing_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kLongestFrame));
  builder.SetResourceQuota(grpc::ResourceQuota("port").Resize(kMostMemory));
  constexpr auto kLimit = std::chrono::duration_cast<std::chrono::milliseconds>(Gate::kHandshakeLimit);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(kLimit.count()));
  // With TLS an idle connection has not shown a token. Without TLS, the gate has seen it.
  if (access.credentials)
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(kLimit.count()));
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  auto acceptor =
      builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, server_credentials(access));
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (server == nullptr) return absl::ResourceExhaustedError("gRPC does not start");
  std::unique_ptr<Port> port(new Port(std::move(acceptor), std::move(server), listening.address));
  const int listens = listening.socket.get();
  const auto admit = [acceptor = port->acceptor_.get(), listens](FileDescriptor connection) {
    Acceptor::NewConnectionParameters given;
    given.listener_fd = listens;
    given.fd = connection.release();
    acceptor->HandleNewConnection(&given);
  };
  PACELINE_ASSIGN_OR_RETURN(
      port->gate_, Gate::open(std::move(listening.socket),
                              {access.token, access.credentials.has_value(), admit, std::move(refused)}));
  return port;
}

Port::~Port() {
  gate_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
}

}  // namespace paceline::rpc
