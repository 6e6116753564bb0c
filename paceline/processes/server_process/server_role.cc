#include "paceline/processes/server_process/server_role.h"

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/parameters/exchange/exchange.h"
#include "paceline/processes/peer/called_files.h"
#include "paceline/processes/peer/heartbeats.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/peer/refused_log.h"
#include "paceline/processes/server/server.h"
#include "paceline/processes/server_process/live_shards.h"
#include "paceline/processes/server_process/traffic.h"

namespace paceline::server_process {

namespace {

using peer::ServerConnection, wire::coordinator_lost;

class LiveSession final : public Session {
 public:
  // All outlive this.
  LiveSession(ServerConnection& connection, peer::Stub& stub, const rpc::Access& access, UpdateTimes& times)
      : connection_(connection), stub_(stub), access_(access), times_(times) {}

  std::optional<wire::ServerOrder> next() override { return connection_.next(); }
  bool send(wire::ServerMessage message) override {
    times_.move_to(message);
    return connection_.send(message);
  }
  absl::Status unless_disconnected(const absl::Status& outcome) override {
    // A disconnect also means that the error was heard.
    return peer::unless_disconnected(connection_, outcome, wire::outcome_of_job);
  }
  std::unique_ptr<store::CheckpointFiles> files(bool by_call, const std::string& dir, std::stop_token stop,
                                                std::vector<std::string> names) override {
    if (!by_call) return std::make_unique<store::FolderFiles>(dir);
    return std::make_unique<peer::CalledFiles>(stub_, access_, dir, std::move(names), std::move(stop));
  }

 private:
  ServerConnection& connection_;
  peer::Stub& stub_;
  const rpc::Access& access_;
  UpdateTimes& times_;
};

// The exchange may wait for hosts that will never come: it gives up with the session.
class OnEnd {
 public:
  OnEnd(ServerConnection& connection, exchange::Exchange* exchange) : connection_(connection) {
    if (exchange != nullptr) connection_.on_end([exchange] { exchange->give_up(coordinator_lost()); });
  }
  ~OnEnd() { connection_.on_end({}); }
  OnEnd(const OnEnd&) = delete;
  OnEnd& operator=(const OnEnd&) = delete;

 private:
  ServerConnection& connection_;
};

}  // namespace

absl::Status run_server(const ServerRoleOptions& options) {
  ServerState state;
  if (options.keep.size() == 2)
    state.keep.emplace(FileDescriptor(options.keep[0]), FileDescriptor(options.keep[1]));
  const absl::Status outcome = peer::with_coordinator(
      options.reach, security::Role::kServer,
      [&](peer::Stub& stub, const rpc::Access& access) -> absl::Status {
        std::unique_ptr<exchange::Exchange> exchange;
        wire::ServerMessage hello;
        hello.mutable_hello()->set_shard(options.shard);
        if (!options.exchange.empty()) {
          PACELINE_ASSIGN_OR_RETURN(const auto fabric,
                                    links::fabric_of_host(options.fabric, options.exchange));
          PACELINE_ASSIGN_OR_RETURN(
              exchange, exchange::Exchange::listen(options.exchange, fabric, peer::warn_of_refused));
          hello.mutable_hello()->set_exchange(exchange->address());
          hello.mutable_hello()->set_fabric(std::string(links::name_of(fabric)));
        }
        ServerConnection connection([&](grpc::ClientContext* context) {
          rpc::introduce(*context, access);
          return stub.Serve(context);
        });
        UpdateTimes times;
        LiveSession session(connection, stub, access, times);
        exchange::Exchange* const traffic = exchange.get();
        LiveShards shards(session, state, times, std::move(exchange));
        server::Server server(session, state.log, shards);
        server.introduce(*hello.mutable_hello());
        if (state.left) *hello.mutable_hello()->mutable_kept() = state.left->shard();
        const bool said = connection.send(hello);
        const OnEnd on_end(connection, traffic);
        const peer::Heartbeats beats(connection, [&](wire::ServerMessage& beat) {
          times.move_to(beat);
          if (traffic != nullptr && beat.heartbeat().resident_bytes() > 0)
            report_traffic(*traffic, *beat.mutable_heartbeat());
        });
        const absl::Status served =
            said ? serve(session, server, [&] { return shards.bell(); }) : coordinator_lost();
        if (server.made_early() > 0)
          spdlog::info("server {}: {} of {} versions were made before their orders came", options.shard,
                       server.made_early(), server.made());
        return peer::end_of_session(connection, served);
      });
  return wire::is_stop(outcome) ? wire::end_of_stopped(outcome) : outcome;
}

}  // namespace paceline::server_process
