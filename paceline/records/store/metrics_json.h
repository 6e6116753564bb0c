// The user's own numbers as the text of a journal's column: {"f1": 0.8, "recall": null}.
#pragma once

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/metrics.h"

namespace paceline::store {

// Nothing if there are none. A number that is not finite becomes null.
std::optional<std::string> to_text(const Metrics& metrics);
// Errors: DataLoss if the text is no such object.
absl::StatusOr<Metrics> metrics_from_text(const std::string& text);

}  // namespace paceline::store
