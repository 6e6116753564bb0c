#include "paceline/decisions/coordinator/server_membership.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/printable.h"
#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/divergence.h"
#include "paceline/decisions/coordinator/measured_time.h"

namespace paceline::coordinator {

void ServerMembership::take(const ServerSaid& said) {
  if (const auto* hello = std::get_if<ServerHello>(&said.message.what)) return on_hello(said.peer, *hello);
  const std::optional<ServerId> server = servers_.server_of(said.peer);
  if (!server) return;
  servers_.hear(*server, course_.at(), course_.running_since());
  if (const absl::Status status = on_message(*server, said.message); !status.ok()) course_.fail(status);
}

void ServerMembership::on_hello(ServerPeer peer, const ServerHello& hello) {
  if (course_.turns_away(peer, hello.shard) || course_.saving_copies()) return;
  // A launcher starts a server only once the one before has ended, and that end may come to be known later.
  if (const auto before = servers_.in_place_of(hello); before && is_kept_here(*before, hello.kept)) {
    miss(*before, fmt::format("server {} died", *before));
    if (!missed_.contains(*before)) return;
  }
  if (const auto refusal = servers_.take_place(peer, hello, course_.at()))
    return out_.refuse(peer, refusal->why, refusal->reason);
  const ServerId server = *servers_.server_of(peer);
  if (missed_.contains(server)) return take_up(server, hello.kept);
  course_.came(server, hello.ballot);
}

// A run needs a right server: an error is the server's end.
absl::Status ServerMembership::on_message(ServerId server, const ServerMessage& message) {
  PACELINE_RETURN_IF_ERROR(note_updates(server, message.updates));
  return std::visit(
      Overloaded{
          [&](const ServerStarted& started) { return on_started(server, started); },
          [&](const ServerMapped& mapped) { return workers_.mapped(server, mapped); },
          [&](const ServerApplied& applied) { return on_applied(server, applied.version); },
          [&](const ServerPrepared& prepared) { return course_.prepared(server, prepared.version); },
          [&](const ServerRevoked& answer) {
            course_.answered(server, answer);
            return absl::OkStatus();
          },
          [&](const CopyWritten& written) {
            course_.copy_written(server, written);
            return absl::OkStatus();
          },
          [&](const ServerKept& kept) {
            processes_.measuring.kept(server, kept.version);
            return absl::OkStatus();
          },
          [&](const ServerWritten& written) {
            course_.written(server, written);
            return absl::OkStatus();
          },
          [&](const Heartbeat& beat) {
            const HostRank rank = servers_.rank(server);
            return workers_.heard(fmt::format("server{}", rank), servers_.place(rank), beat);
          },
          [&](const ServerFailed& failed) {
            on_failed(server, failed);
            return absl::OkStatus();
          },
          [](const auto&) { return absl::OkStatus(); },
      },
      message.what);
}

absl::Status ServerMembership::note_updates(ServerId server, const std::vector<UpdateTime>& updates) {
  for (const UpdateTime& update : updates) {
    const bool can_be = update.version >= Version(1) && update.version <= course_.newest() &&
                        is_time(update.took) && is_time(update.age) && update.bytes >= 0 &&
                        update.threads >= 0 && update.members >= 0;
    if (!can_be) {
      return absl::InvalidArgumentError(fmt::format("server {} says that version {} took {} ns, {} ns ago",
                                                    server, update.version, update.took.count(),
                                                    update.age.count()));
    }
    servers_.made(server, update.version);
    out_.put(control::SideWork{.at = course_.now() - update.age,
                               .kind = control::SideWork::Kind::kUpdate,
                               .version = update.version,
                               .took = update.took,
                               .server = servers_.rank(server).value(),
                               .bytes = update.bytes,
                               .threads = update.threads,
                               .members = update.members});
  }
  return absl::OkStatus();
}

// ---- Starting

absl::Status ServerMembership::on_started(ServerId server, const ServerStarted& started) {
  if (missed_.contains(server) && !started.error.empty()) {
    course_.lose_server(server, fmt::format("{}, and could not go on: {}", missed_.why(server),
                                            printable(started.error, kLongestError)));
    return absl::OkStatus();
  }
  if (!started.error.empty()) return on_no_weights(server, started.error);
  PACELINE_RETURN_IF_ERROR(servers_.started(server, started));
  const std::optional<Version> taken_up = missed_.started(server);
  if (taken_up) PACELINE_RETURN_IF_ERROR(on_back(server, *taken_up));
  tell_where_weights_are(server, started, taken_up.has_value());
  workers_.send_boards();
  processes_.measuring.show_boards();
  return absl::OkStatus();
}

// The server may have died before it said that it had made that version.
absl::Status ServerMembership::on_back(ServerId server, Version version) {
  if (!course_.controller()->hears_of_completion() || version <= servers_.applied(server))
    return absl::OkStatus();
  return on_applied(server, version);
}

void ServerMembership::tell_where_weights_are(ServerId server, const ServerStarted& started, bool is_back) {
  if (!started.card.empty() && !is_back) {
    const std::string part =
        servers_.size() == 1 ? "" : fmt::format("{:.0f} % of the ", 100 * servers_.share(server));
    out_.tell_and_remember(fmt::format("{}weights and optimizer state are in the memory of {}", part,
                                       printable(started.card, kLongestError)));
  }
  if (!started.why_host.empty())
    out_.tell_and_remember(
        fmt::format("weights and optimizer state are in the host's memory and not in the GPU's: {}",
                    printable(started.why_host, kLongestError)));
}

absl::Status ServerMembership::on_no_weights(ServerId server, const std::string& error) {
  Start* start = course_.start();
  if (start == nullptr)
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", server));
  PACELINE_ASSIGN_OR_RETURN(const Worker* const worker, start->refused_weights(server));
  if (worker != nullptr)
    workers_.send_away(worker->peer, fmt::format("server {} cannot read its weights: {}", server,
                                                 printable(error, kLongestError)));
  start->give_weights();
  return absl::OkStatus();
}

absl::Status ServerMembership::on_applied(ServerId server, Version version) {
  PACELINE_ASSIGN_OR_RETURN(const Version by_all, servers_.applied(server, version, course_.version()));
  while (completed_ < by_all) {
    completed_ = completed_.next();
    PACELINE_RETURN_IF_ERROR(workers_.tell_controller(control::CommitComplete{completed_}));
  }
  return absl::OkStatus();
}

// ---- Faults

void ServerMembership::on_failed(ServerId server, const ServerFailed& message) {
  if (course_.disconnecting()) return;
  const std::string why = fmt::format("server {}: {}", server, message.error);
  if (message.host_lost) return course_.lose_server(std::nullopt, why);
  if (message.diverged > Version(0)) return course_.fail(diverged(message));
  if (message.not_here) return lose_gradient(server, message);
  course_.fail(absl::InternalError(why));
}

absl::Status ServerMembership::diverged(const ServerFailed& message) {
  std::vector<std::string> names;
  for (const ReplicaId replica : message.not_finite) {
    const LiveReplica* live = processes_.replicas.find(replica);
    names.push_back(live != nullptr && !live->workers.empty() && live->workers.front() != nullptr
                        ? live->workers.front()->name
                        : fmt::format("replica {}", replica));
  }
  // If all gradients are not finite, no single worker is at fault.
  if (names.size() == processes_.replicas.all().size()) names.clear();
  return control::diverged(message.diverged, workers_.contributions().last_loss(),
                           fmt::to_string(fmt::join(names, ", ")));
}

// The commit is ordered, so it cannot be made without this gradient. Only a faulty worker causes this.
void ServerMembership::lose_gradient(ServerId server, const ServerFailed& message) {
  std::string why = fmt::format("server {}: {}", server, message.error);
  if (const LiveReplica* replica = processes_.replicas.find(*message.not_here)) {
    const Worker& worker = *replica->workers.front();
    why = fmt::format("{} did not leave the gradient that it said was ready", worker.name);
    workers_.ban(worker, why);
  }
  servers_.send_back(server, why);
  course_.lose_server(server, why);
}

void ServerMembership::leave(ServerPeer peer) {
  const std::optional<ServerId> server = servers_.leave(peer);
  if (server) miss(*server, fmt::format("server {} died", *server));
  course_.finish_if_done();
}

void ServerMembership::give_up_silent() {
  const auto silent = servers_.silent(course_.at());
  if (!silent || course_.disconnecting()) return;
  if (servers_.keeps(silent->server)) {
    servers_.send_back(silent->server, silent->why);
    miss(silent->server, silent->why);
  } else {
    servers_.give_up(silent->server);
    course_.lose_server(silent->server, silent->why);
  }
}

// The attempt goes on without the server for a while, if memory that outlives the server has its shard. The server died,
// or was told to come again.
void ServerMembership::miss(ServerId server, const std::string& why) {
  if (!course_.serves() || !servers_.keeps(server)) return course_.lose_server(server, why);
  servers_.miss(server);
  missed_.miss(server, why);
  lose_files_of_missed();
}

// Whether the memory has the server's shard as of this attempt.
bool ServerMembership::is_kept_here(ServerId server, const KeptShard& kept) const {
  return kept.attempt == options_.attempt && kept.shard == server.value() &&
         kept.shard_count == static_cast<std::int32_t>(servers_.size());
}

void ServerMembership::take_up(ServerId server, const KeptShard& kept) {
  const std::string why = missed_.why(server);
  const Version version = kept.version;
  const bool goes_on = missed_.came(server, version) && is_kept_here(server, kept);
  if (!goes_on || !servers_.take_up(server, version)) return course_.lose_server(server, why);
  missed_.takes_up(server, version);
  course_.server_is_back(server, kept);
  out_.tell_and_remember(fmt::format("{}; it is back with version {}, and nothing is lost", why, version));
}

void ServerMembership::give_up_missed(SteadyTime::duration listened) {
  if (const auto server = missed_.overdue(listened)) course_.lose_server(*server, missed_.why(*server));
}

void ServerMembership::lose_files_of_missed() {
  for (const auto& [server, why] : missed_.reasons()) course_.lose_files(server, why);
}

}  // namespace paceline::coordinator
