#include "paceline/coordinator/certain_commits.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::coordinator {

void CertainCommits::ordered(std::vector<control::ControllerState> states, Duration elapsed) {
  for (control::ControllerState& state : states) uncertain_.push_back({std::move(state), elapsed});
}

const CertainCommits::Books& CertainCommits::ordered(Version version) const {
  const auto found = std::find_if(uncertain_.begin(), uncertain_.end(),
                                  [&](const Books& books) { return books.state.version == version; });
  PACELINE_CHECK(found != uncertain_.end(), "version {} was not ordered", version);
  return *found;
}

absl::StatusOr<std::optional<Version>> CertainCommits::prepared(std::size_t server, Version version) {
  const bool next = version == prepared_[server].next() && version == latest().next();
  if (!next || uncertain_.empty()) {
    return absl::InvalidArgumentError(fmt::format("server {} prepared version {} after {}, and {} is certain",
                                                  server, version, prepared_[server], latest()));
  }
  prepared_[server] = version;
  if (*std::min_element(prepared_.begin(), prepared_.end()) < version) return std::nullopt;
  latest_ = std::move(uncertain_.front());
  uncertain_.pop_front();
  return version;
}

}  // namespace paceline::coordinator
