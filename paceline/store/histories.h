// Two histories of one run: those of hosts that went on without each other. Before the folder of a run
// follows another host's history, the part that only its own history has is set aside as "….set-aside". No
// process reads that, but it is not lost.
//
// The journals say which commit belongs to which history. Two commits are the same one if number, version and
// time (to the nanosecond) are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/store/run_folder.h"

namespace paceline::store {

// A checkpoint as another host names it.
struct NamedCheckpoint {
  std::string name;
  std::uint32_t identity;  // checkpoint_identity()
};

// Before `journal`, a whole one in a file of its own, takes the place of the one here. `newest`: of the
// checkpoints that go with it; nothing where there is none. What is set aside: the journal here, unless
// `journal` has its last commit; checkpoints from `newest` on, without `newest` itself; older ones of no
// commit that counts in `journal`. Requires: nobody has the journals open. Errors: what is wrong with
// `journal`; InvalidArgument, where no checkpoint has such a name; the disk's.
absl::Status leave_own_history(const RunPaths& run, const std::filesystem::path& journal,
                               const std::optional<NamedCheckpoint>& newest);

// Before that checkpoint comes: newer ones are set aside, and another one of its name. Says whether it is
// here already. Errors: InvalidArgument, where no checkpoint has such a name; the disk's.
absl::StatusOr<bool> make_way_for(const std::filesystem::path& run, const NamedCheckpoint& newest);

}  // namespace paceline::store
