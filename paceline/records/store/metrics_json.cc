#include "paceline/records/store/metrics_json.h"

#include <cmath>
#include <limits>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

using nlohmann::json;

std::optional<std::string> to_text(const Metrics& metrics) {
  if (metrics.empty()) return std::nullopt;
  json document = json::object();
  for (const auto& [name, value] : metrics)
    document[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Metrics> metrics_from_text(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, 2));
  if (!document.is_object()) return absl::DataLossError("metrics are not an object");
  Metrics metrics;
  for (const auto& [name, value] : document.items()) {
    if (!value.is_number() && !value.is_null()) return absl::DataLossError("a metric is not a number");
    metrics[name] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  return metrics;
}

}  // namespace paceline::store
