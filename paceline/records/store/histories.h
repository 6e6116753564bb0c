// Two histories of one run: those of hosts that went on without each other. Before the folder of a run
// follows another host's history, the part that only its own history has is set aside as "….set-aside". No
// process reads that part, but it is not lost.
//
// The journals say which commit belongs to which history. Two commits are the same if number, version and
// time (to the nanosecond) are equal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/records/store/run_folder.h"

namespace paceline::store {

// Another host's checkpoint.
struct NamedCheckpoint {
  std::string name;
  std::uint32_t identity;  // checkpoint_identity()
};

// Call before `journal`, a whole one in a file of its own, takes the place of the one here. `newest`: the
// newest checkpoint that goes with it, if there is one. Sets aside: the journal here, unless `journal` has
// its last commit; checkpoints from `newest` on, without `newest` itself; older ones of a commit that does
// not count in `journal`. Requires: no process has the journals open. Errors: those of `journal`;
// InvalidArgument if no checkpoint can have such a name; the disk's.
absl::Status leave_own_history(const RunPaths& run, const std::filesystem::path& journal,
                               const std::optional<NamedCheckpoint>& newest);

// Call before that checkpoint comes: sets aside newer ones, and another one of its name. True if the
// checkpoint itself is here already. Errors: InvalidArgument if no checkpoint can have such a name; the
// disk's.
absl::StatusOr<bool> make_way_for(const std::filesystem::path& run, const NamedCheckpoint& newest);

}  // namespace paceline::store
