#include "paceline/base/exit_reason.h"

#include <array>
#include <cstddef>
#include <string>

#include <absl/strings/cord.h>

namespace paceline {

namespace {

constexpr char kPayload[] = "paceline/exit-reason";
constexpr std::array<std::string_view, 12> kExitReasons{
    "done",        "interrupted",   "own error",       "coordinator lost",  "run failed", "member lost",
    "place taken", "host given up", "leaves the lead", "nothing to resume", "killed",     "unsaid"};

}  // namespace

std::string_view name_of(ExitReason reason) { return kExitReasons[static_cast<std::size_t>(reason)]; }

std::optional<ExitReason> exit_reason_named(std::string_view name) {
  for (std::size_t i = 0; i < kExitReasons.size(); ++i) {
    if (kExitReasons[i] == name) return static_cast<ExitReason>(i);
  }
  return std::nullopt;
}

absl::Status with_exit_reason(absl::Status status, ExitReason reason) {
  status.SetPayload(kPayload, absl::Cord(std::string(name_of(reason))));
  return status;
}

ExitReason exit_reason_of(const absl::Status& status) {
  if (status.ok()) return ExitReason::kDone;
  const auto payload = status.GetPayload(kPayload);
  return payload ? exit_reason_named(std::string(*payload)).value_or(ExitReason::kOwnError)
                 : ExitReason::kOwnError;
}

}  // namespace paceline
