#include "paceline/base/ending.h"

#include <array>
#include <cstddef>
#include <string>

#include <absl/strings/cord.h>

namespace paceline {

namespace {

constexpr char kPayload[] = "paceline/ending";
constexpr std::array<std::string_view, 8> kEndings{"done",        "own error",     "coordinator lost", "run failed",
                                                   "place taken", "host given up", "killed",           "unsaid"};

}  // namespace

std::string_view name_of(Ending ending) { return kEndings[static_cast<std::size_t>(ending)]; }

std::optional<Ending> ending_named(std::string_view name) {
  for (std::size_t i = 0; i < kEndings.size(); ++i) {
    if (kEndings[i] == name) return static_cast<Ending>(i);
  }
  return std::nullopt;
}

absl::Status with_ending(absl::Status status, Ending ending) {
  status.SetPayload(kPayload, absl::Cord(std::string(name_of(ending))));
  return status;
}

Ending ending_of(const absl::Status& status) {
  if (status.ok()) return Ending::kDone;
  const auto payload = status.GetPayload(kPayload);
  return payload ? ending_named(std::string(*payload)).value_or(Ending::kOwnError) : Ending::kOwnError;
}

}  // namespace paceline
