#include "paceline/records/pages/sweep_result.h"

#include <cmath>
#include <string_view>

namespace paceline::report {

namespace {

bool read(const Json& json, std::optional<double>& value) {
  if (json.is_number()) value = json.get<double>();
  return json.is_number() || json.is_null();
}

bool read(const Json& json, double& value) {
  if (json.is_number()) value = json.get<double>();
  return json.is_number();
}

bool read(const Json& json, std::int64_t& value) {
  if (json.is_number_integer()) value = json.get<std::int64_t>();
  return json.is_number_integer();
}

bool read(const Json& json, bool& value) {
  if (json.is_boolean()) value = json.get<bool>();
  return json.is_boolean();
}

// Calls visit(name, value) for every field, so that writing and reading have the same fields.
template <class Result, class Visit>
void visit_fields(Result& result, const Visit& visit) {
  visit("virtual_s", result.virtual_s);
  visit("to_target_s", result.to_target_s);
  visit("accuracy", result.accuracy);
  visit("best_accuracy", result.best_accuracy);
  visit("loss", result.loss);
  visit("best_loss", result.best_loss);
  visit("samples", result.samples);
  visit("commits", result.commits);
  visit("staleness_mean", result.staleness_mean);
  visit("staleness_max", result.staleness_max);
  visit("wall_s", result.wall_s);
  visit("diverged", result.diverged);
}

Json field(double value) { return json_number(value); }
Json field(const std::optional<double>& value) { return json_number(value); }
Json field(std::int64_t value) { return value; }
Json field(bool value) { return value; }

// Nothing for a loss that is not a number (after divergence).
std::optional<double> finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

SweepResult sweep_result(const Summary& summary, double wall_s) {
  SweepResult result{.virtual_s = summary.elapsed_s,
                     .to_target_s = summary.time_to_target_s(),
                     .accuracy = {},
                     .best_accuracy = finite(summary.best_accuracy),
                     .loss = {},
                     .best_loss = finite(summary.best_loss),
                     .samples = summary.samples,
                     .commits = summary.commits,
                     .staleness_mean = summary.staleness_mean,
                     .staleness_max = summary.staleness_max,
                     .wall_s = wall_s,
                     .diverged = summary.run.diverged};
  // The last evaluation of a training that diverged is of weights from before its end.
  if (const auto& last = summary.last_evaluation; last && !result.diverged) {
    result.accuracy = finite(last->accuracy);
    result.loss = finite(last->loss);
  }
  return result;
}

Json to_json(const SweepResult& result) {
  Json json = Json::object();
  visit_fields(result, [&](const char* name, const auto& value) { json[name] = field(value); });
  return json;
}

std::optional<SweepResult> sweep_result_from(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  SweepResult result;
  bool good = true;
  visit_fields(result, [&](const char* name, auto& value) {
    const bool there = json.contains(name);
    good = good && (there ? read(json.at(name), value) : std::string_view(name) == "diverged");
  });
  return good ? std::optional(result) : std::nullopt;
}

}  // namespace paceline::report
