#include "paceline/decisions/coordinator/commit_quorum.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::coordinator {

void CommitQuorum::ordered(std::vector<control::ControllerState> states, Duration elapsed) {
  for (control::ControllerState& state : states) pending_.push_back({std::move(state), elapsed});
}

const CommitQuorum::Snapshot& CommitQuorum::ordered(Version version) const {
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Snapshot& snapshot) {
    return snapshot.state.version == version;
  });
  PACELINE_CHECK(found != pending_.end(), "version {} was not ordered", version);
  return *found;
}

absl::StatusOr<std::optional<Version>> CommitQuorum::prepared(ServerId server, Version version) {
  const bool next = version == prepared_[server].next() && version == latest().next();
  if (!next || pending_.empty()) {
    return absl::InvalidArgumentError(fmt::format("server {} prepared version {} after {}, and {} is certain",
                                                  server, version, prepared_[server], latest()));
  }
  prepared_[server] = version;
  if (*std::min_element(prepared_.begin(), prepared_.end()) < version) return std::nullopt;
  latest_ = std::move(pending_.front());
  pending_.pop_front();
  return version;
}

}  // namespace paceline::coordinator
