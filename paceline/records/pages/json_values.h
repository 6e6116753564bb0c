// Values in this folder's JSON: a number that is unknown or not finite is null, and times are in seconds, to
// a microsecond, which keeps a report of many intervals small.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "paceline/base/metrics.h"
#include "paceline/base/time.h"

namespace paceline::report {

// Keys keep the order in which they are written.
using Json = nlohmann::ordered_json;

inline Json json_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// Four significant digits, which keeps a curve small.
inline Json json_digits4(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double power = std::pow(10.0, 4 - std::ceil(std::log10(std::abs(value))));
  const double result = std::round(value * power) / power;
  return std::isfinite(result) ? Json(result) : Json(value);
}

inline Json json_metrics(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = json_number(value);
  return json;
}

inline Json json_seconds(Time time) { return std::round(to_seconds(time) * 1e6) / 1e6; }

// On one line. Broken UTF-8 of a name is replaced and never throws.
inline std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Indented, for people too.
inline std::string indented(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

// An array with one object a line: for programs, and for people with grep.
inline std::string lines(const std::vector<Json>& objects) {
  std::string text = "[";
  for (const Json& object : objects) text += (text.size() > 1 ? ",\n" : "\n") + one_line(object);
  return text + "\n]\n";
}

}  // namespace paceline::report
