// Decides what a server does with the coordinator's orders, and when: the log of numbered commits as one
// server sees it. If shards are kept twice, a commit takes two steps: it is prepared, and published when it
// is certain, that is, when every server has prepared it. Pure.
//
// If shards are kept once, a commit may be expected: it is made as soon as its members are ready, before the order for it,
// unless the coordinator revokes it before. A version that was made early is the one that is ordered next.
//
// Invariant: versions are made in their order; no version is published before it is certain, and no version
// is made after one that is not certain; an order that follows a commit is carried out after it. After a copy
// is asked for, no version is made any more.
//
// Make and Prepare are answered (made, prepared) before the next order is taken; where one fails, so has this
// server.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::server {

// Sum the members' gradients, step, and publish.
struct Make {
  wire::Apply commit;
};
// All of that but publish it, of each shard that is kept here.
struct Prepare {
  wire::Apply commit;
};
// The gradients of the next commit: they can travel while the previous one becomes certain.
struct SendAhead {
  wire::Apply commit;
};
struct Publish {
  Version version;
};
// The order for a version that was made early has come.
struct Confirm {
  Version version;
};
// Carry out this order now; the log has no decision left to make.
struct CarryOut {
  wire::ServerOrder order;
};
// Into a checkpoint's folder. `publish`: the version, which is prepared, counts by that. `by_call`: the
// folder is another host's.
struct WriteCopy {
  Version version;
  ShardId shard;
  std::string dir;
  bool publish = false;
  bool by_call = false;
};
struct SendMessage {
  wire::ServerMessage message;
};
using Action = std::variant<Make, Prepare, SendAhead, Publish, Confirm, CarryOut, WriteCopy, SendMessage>;
using Actions = std::vector<Action>;

class CommitLog {
 public:
  // A new connection to a coordinator: existing versions are kept, and no version is made until a start.
  void new_session();
  // The server has started, as this order has it.
  void start(const wire::ServerStart& order);

  // Any order but the start and the disconnect. Errors: Internal when the coordinator is wrong.
  absl::StatusOr<Actions> take(wire::ServerOrder order);
  // The version that was to be made is.
  Actions made(Version version);
  // The commit to be made once its members are ready; null: there is none.
  const wire::Apply* expected() const { return expected_ && !made_early_ ? &*expected_ : nullptr; }
  // The expected commit is made. Requires: expected().
  void made_early();
  // The commit that was to be prepared is.
  Actions prepared(const wire::Apply& commit);
  // Another host cannot be reached: no version is made any more, but what is certain is here. False where
  // shards are kept once: then there is nothing to keep it for.
  bool cut_off();

  bool started() const { return started_; }
  bool twice() const { return copies_ > 1; }
  // The versions here, for a coordinator that does not know them; nullopt if no version was made, or if
  // shards are kept once.
  std::optional<wire::Ballot> ballot() const;

 private:
  bool waits() const { return prepared_.has_value(); }
  absl::StatusOr<Actions> publish(Version version);
  absl::Status expect(wire::Apply commit);
  wire::ServerMessage revoke(Version version);
  // An order for the version that was made early.
  absl::StatusOr<Actions> confirm(const wire::Apply& commit);
  void carry_out(wire::ServerOrder order, Actions& actions);
  void send_ahead(Actions& actions) const;
  void say_applied(Version version, Actions& actions) const;

  bool started_ = false;
  bool announce_ = false;  // say when each version is made
  std::string attempt_;
  ServerId server_;
  int shards_ = 1, copies_ = 1;
  Version began_with_;
  Version published_;
  std::optional<Version> prepared_;
  std::optional<wire::Apply> expected_;  // the next commit, if it is known before it is ordered
  bool made_early_ = false;              // the expected commit is made, and not ordered yet
  std::string state_;                    // state of the newest version that was made here; empty: none was
  std::int64_t elapsed_ns_ = 0;
  std::deque<wire::ServerOrder> waiting_;  // until what is prepared is certain
  bool cut_off_ = false;
};

}  // namespace paceline::server
