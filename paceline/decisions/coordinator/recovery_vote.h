// Finds the version that a run can go on from without loss, after its coordinator is gone. It asks the
// servers of a job with two copies which versions of that attempt they still have. Pure.
//
// Invariant: no process saw a newer version than the one that is found. A version is published only when
// every server has made it, so each server has made every version that was ever seen. If one server has made
// a version and others have not, no process saw it.
//
// If a coordinator dies while servers write such a version, some servers have published it, although others
// never made it. They cannot go back, so the next vote takes that version again, without the others.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/id_vector.h"
#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/commit_quorum.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/decisions/coordinator/state_text.h"

namespace paceline::coordinator {

// The line for people if it finds no version.
inline constexpr char kNoWholeVersion[] = "the servers that came have not all parts of a newer version";

class RecoveryVote {
 public:
  struct Found {
    CommitQuorum::Snapshot snapshot;
    IdVector<ServerId, bool> holders;  // the servers that can make that version
  };

  // `attempt`: the name in ServerStart of the attempt whose versions count. `newest`: the newest commit that
  // it recorded.
  RecoveryVote(ServerShards kept, std::string attempt, Version newest, StateText::Read read);

  // Takes a server's ballot. The ballot of another attempt does not count. Errors: InvalidArgument when the
  // server cannot have these versions.
  absl::Status came(ServerId server, const Ballot& ballot);
  // The newest version that all servers that came can make, not counting servers that are behind a published
  // version of another one. Nothing while no such server has some shard. Errors: InvalidArgument when the
  // ballots contradict each other.
  absl::StatusOr<std::optional<Found>> found() const;

 private:
  struct Holder {
    Version certain;
    CommitQuorum::Snapshot made;
  };

  bool has_every_shard(const IdVector<ServerId, bool>& servers) const;

  const ServerShards kept_;
  const std::string attempt_;
  const Version newest_;
  const StateText::Read read_;
  IdVector<ServerId, std::optional<Holder>> holders_;
};

}  // namespace paceline::coordinator
