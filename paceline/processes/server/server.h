// A server while it has a session with a coordinator: takes orders, decides by its log of commits, and has its shards
// carry out what that says. Pure, but for its world behind Shards and Outbox: the process has the memory of a host
// (server_process), and the made-up cluster has shards without a host (cluster_sim).
#pragma once

#include <cstdint>
#include <optional>

#include <absl/status/status.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/server/commit_log.h"
#include "paceline/processes/server/outbox.h"
#include "paceline/processes/server/shards.h"

namespace paceline::server {

class Server {
 public:
  // A session begins. The log and the shards outlive it. The outbox outlives the shards, whose threads may still say
  // something while this is gone.
  Server(Outbox& outbox, CommitLog& log, Shards& shards);

  // Says which versions are here.
  void introduce(wire::ServerHello& hello) const;

  // Any order but the disconnect. Errors: this server fails, and the coordinator has been told so. Requires: not busy().
  absl::Status take(wire::ServerOrder order);
  // Whether a commit is expected: look() is to be called when a member may have become ready.
  bool expects() const { return log_.expected() != nullptr; }
  // Makes the expected commit if all of its members are ready. Errors: those of take().
  absl::Status look();
  // True until the outcome of Shards::prepare() comes.
  bool busy() const { return preparing_.has_value(); }
  // Takes that outcome. Errors: those of take().
  absl::Status prepared(const absl::Status& outcome);
  // How many versions were made in this session, and how many of these before the order for them came.
  std::int64_t made() const { return made_; }
  std::int64_t made_early() const { return made_early_; }
  // True if the error was that another host is lost.
  bool lost_host() const { return lost_host_; }

 private:
  absl::Status carry_out(wire::ServerOrder order);
  absl::Status settle(const absl::Status& outcome);
  absl::Status start(const wire::ServerStart& order);
  absl::Status make_early();
  absl::Status act(const Actions& actions);
  absl::Status act(const Make& make);
  absl::Status act(const Prepare& prepare);
  absl::Status act(const SendAhead& ahead) { return shards_.send_ahead(ahead.commit); }
  absl::Status act(const Publish& publish);
  absl::Status act(const Confirm& confirm);
  absl::Status act(const CarryOut& turn);
  absl::Status act(const WriteCopy& copy);
  absl::Status act(const SendMessage& action) { return say(action.message); }
  absl::Status map_gradient(const wire::MapGradient& order);
  absl::Status keep(const wire::Keep& order);
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order);
  void say_failed(const absl::Status& status);
  absl::Status say(wire::ServerMessage message);

  Outbox& outbox_;
  CommitLog& log_;
  Shards& shards_;
  std::optional<wire::Apply> preparing_;
  std::int64_t made_ = 0, made_early_ = 0;
  bool lost_host_ = false;
};

}  // namespace paceline::server
