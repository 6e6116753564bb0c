// What the servers of a job that keeps its weights twice still have when they come, of an attempt whose
// coordinator is gone: the version that a run can go on from as if nothing had happened. Pure.
//
// What always holds: no version that anybody saw is newer than what is found. A version is published only
// once every server has made it, so each of them alone has made all that was ever seen. What one has made and
// others have not, nobody saw.
//
// A coordinator that died while it had such a version written leaves servers that have published it by that,
// though others never made it. These cannot go back, so it is that version again, and without the others.
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
#include "paceline/config/server_parts.h"
#include "paceline/coordinator/commit_quorum.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

// What people are told where it finds nothing.
inline constexpr char kNoWholeVersion[] = "the servers that came have not all parts of a newer version";

class RecoveryVote {
 public:
  struct Found {
    CommitQuorum::Snapshot snapshot;
    IdVector<ServerId, bool> holders;  // who can make that version
  };

  // `attempt`: of that one, as ServerStart names it;
  // `newest`: of the commits that it recorded.
  RecoveryVote(config::ServerShards kept, std::string attempt, Version newest);

  // What that server says. Of another attempt it does not count. Errors: InvalidArgument when it cannot have
  // that.
  absl::Status came(ServerId server, const wire::Ballot& ballot);
  // The newest version that all who came can make, or all but those that are behind what one of them has
  // published; nothing while there is a shard that none of these has. Errors: InvalidArgument when they
  // cannot all be right.
  absl::StatusOr<std::optional<Found>> found() const;

 private:
  struct Holder {
    Version certain;
    CommitQuorum::Snapshot made;
  };

  bool has_every_shard(const IdVector<ServerId, bool>& servers) const;

  const config::ServerShards kept_;
  const std::string attempt_;
  const Version newest_;
  IdVector<ServerId, std::optional<Holder>> holders_;
};

}  // namespace paceline::coordinator
