// Names of the reasons why a run finishes, for the journal.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/decisions/control/facts.h"

namespace paceline::store {

inline constexpr std::array<std::string_view, 3> kFinishCauses{"every_sample", "target", "stopped"};

inline std::string to_text(control::FinishCause cause) {
  return std::string(kFinishCauses[static_cast<std::size_t>(cause)]);
}

inline std::optional<control::FinishCause> finish_cause_from_text(std::string_view text) {
  for (std::size_t i = 0; i < kFinishCauses.size(); ++i) {
    if (kFinishCauses[i] == text) return static_cast<control::FinishCause>(i);
  }
  return std::nullopt;
}

}  // namespace paceline::store
