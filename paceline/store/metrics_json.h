// Numbers of the user's own as the text of a journal's column: {"f1": 0.8, "recall": null}.
#pragma once

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/metrics.h"

namespace paceline::store {

// Nothing where there are none. What is not a finite number is null.
std::optional<std::string> to_text(const Metrics& metrics);
// Errors: DataLoss when it is none.
absl::StatusOr<Metrics> metrics_from_text(const std::string& text);

}  // namespace paceline::store
