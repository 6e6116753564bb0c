// The membership of servers in a run: how they come, start, make versions, and are lost or taken up again. Pure.
#pragma once

#include <string>

#include <absl/status/status.h>

#include "paceline/decisions/coordinator/course.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/missed_servers.h"
#include "paceline/decisions/coordinator/worker_membership.h"

namespace paceline::coordinator {

class ServerMembership {
 public:
  // The references outlive this.
  ServerMembership(const AttemptOptions& options, Processes& processes, Course& course,
                   WorkerMembership& workers, Outbox& out)
      : options_(options),
        servers_(processes.servers),
        processes_(processes),
        course_(course),
        workers_(workers),
        out_(out),
        completed_(options.begins_with()) {}

  void take(const ServerSaid& said);
  // Its stream has ended.
  void leave(ServerPeer peer);
  void give_up_silent();
  // Gives the run up for a server that was missed and has not come again in time. `listened`: see Hearing.
  void give_up_missed(SteadyTime::duration listened);
  // Servers that are missed write no files.
  void lose_files_of_missed();

 private:
  void on_hello(ServerPeer peer, const ServerHello& hello);
  absl::Status on_message(ServerId server, const ServerMessage& message);
  absl::Status note_updates(ServerId server, const std::vector<UpdateTime>& updates);
  absl::Status on_started(ServerId server, const ServerStarted& started);
  absl::Status on_back(ServerId server, Version version);
  void tell_where_weights_are(ServerId server, const ServerStarted& started, bool is_back);
  absl::Status on_no_weights(ServerId server, const std::string& error);
  absl::Status on_applied(ServerId server, Version version);
  void on_failed(ServerId server, const ServerFailed& message);
  absl::Status diverged(const ServerFailed& message);
  void lose_gradient(ServerId server, const ServerFailed& message);
  void miss(ServerId server, const std::string& why);
  bool is_kept_here(ServerId server, const KeptShard& kept) const;
  void take_up(ServerId server, const KeptShard& kept);

  const AttemptOptions& options_;
  ServerFleet& servers_;
  Processes& processes_;
  Course& course_;
  WorkerMembership& workers_;
  Outbox& out_;
  MissedServers missed_;
  // The newest version that all servers have made, as the Controller knows; only if it hears of completions.
  Version completed_;
};

}  // namespace paceline::coordinator
