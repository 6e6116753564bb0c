#include "paceline/computing/program/measured_model.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/program/wrong.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::program {

namespace {

using nlohmann::json;

constexpr std::size_t kProfileDepth = 16;
constexpr std::size_t kMostSizes = 16;
constexpr std::int64_t kMostNumber = std::int64_t{1} << 50;
constexpr double kMostMs = 1e9;
constexpr double kLeastMeasuredMs = 1e-6;

absl::StatusOr<std::int64_t> count_in(const json& sent, const char* key, std::int64_t least = 0) {
  const auto found = sent.find(key);
  const bool good = found != sent.end() && found->is_number_integer() &&
                    found->get<std::int64_t>() >= least && found->get<std::int64_t>() <= kMostNumber;
  if (!good) return wrong(fmt::format("sent a profile whose {} cannot be", key));
  return found->get<std::int64_t>();
}

absl::StatusOr<std::int64_t> optional_count_in(const json& sent, const char* key) {
  return sent.contains(key) ? count_in(sent, key) : 0;
}

bool is_time(const json& value) {
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMostMs;
}

absl::StatusOr<double> time_in(const json& sent, const char* key) {
  const auto found = sent.find(key);
  if (found == sent.end() || !is_time(*found))
    return wrong(fmt::format("sent a profile whose {} cannot be", key));
  return found->get<double>();
}

absl::StatusOr<std::vector<double>> times_in(const json& sent, const char* key, std::size_t count) {
  const auto found = sent.find(key);
  const bool good = found != sent.end() && found->is_array() && found->size() == count &&
                    std::all_of(found->begin(), found->end(), is_time);
  if (!good) return wrong(fmt::format("sent a profile whose {} are not {} times", key, count));
  return found->get<std::vector<double>>();
}

absl::StatusOr<std::optional<std::int64_t>> peak_in(const json& sent) {
  const auto found = sent.find("peak_bytes");
  if (found == sent.end() || found->is_null()) return std::optional<std::int64_t>();
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t bytes, count_in(sent, "peak_bytes"));
  return std::optional<std::int64_t>(bytes);
}

std::string name_in(const json& sent, const char* key) {
  const auto found = sent.find(key);
  return found != sent.end() && found->is_string() ? store::printable(found->get<std::string>()) : "";
}

absl::StatusOr<MeasuredUnit> unit_in(const json& sent, std::size_t number, std::size_t sizes) {
  if (!sent.is_object()) return wrong("sent a profile with a unit that is not an object");
  MeasuredUnit unit;
  unit.name = name_in(sent, "name");
  if (unit.name.empty()) unit.name = fmt::format("unit{}", number);
  PACELINE_ASSIGN_OR_RETURN(unit.parameters, count_in(sent, "parameters"));
  PACELINE_ASSIGN_OR_RETURN(unit.trained, count_in(sent, "trained"));
  PACELINE_ASSIGN_OR_RETURN(unit.parameter_bytes, count_in(sent, "parameter_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.frozen_bytes, count_in(sent, "frozen_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.tied_bytes, count_in(sent, "tied_bytes"));
  if (unit.frozen_bytes > unit.parameter_bytes || unit.trained > unit.parameters)
    return wrong("sent a profile with a unit that has more of its parameters than all");
  if (unit.tied_bytes > 0) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t owner, count_in(sent, "tied_to"));
    if (owner >= static_cast<std::int64_t>(number))
      return wrong("sent a profile with a unit that is tied to none before it");
    unit.tied_to = static_cast<std::int32_t>(owner);
  }
  PACELINE_ASSIGN_OR_RETURN(unit.forward_ms, times_in(sent, "forward_ms", sizes));
  PACELINE_ASSIGN_OR_RETURN(unit.backward_ms, times_in(sent, "backward_ms", sizes));
  PACELINE_ASSIGN_OR_RETURN(unit.sent_bytes, count_in(sent, "sent_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.kept_bytes, count_in(sent, "kept_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.kept_fixed_bytes, optional_count_in(sent, "kept_fixed_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.returned_bytes, optional_count_in(sent, "returned_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.working_bytes, optional_count_in(sent, "working_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.working_fixed_bytes, optional_count_in(sent, "working_fixed_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.peak_bytes, peak_in(sent));
  return unit;
}

absl::StatusOr<MeasuredModel::Whole> whole_in(const json& sent) {
  if (!sent.is_object()) return wrong("sent a profile whose whole is not an object");
  MeasuredModel::Whole whole;
  PACELINE_ASSIGN_OR_RETURN(whole.forward_ms, time_in(sent, "forward_ms"));
  PACELINE_ASSIGN_OR_RETURN(whole.backward_ms, time_in(sent, "backward_ms"));
  PACELINE_ASSIGN_OR_RETURN(whole.peak_bytes, peak_in(sent));
  return whole;
}

absl::StatusOr<std::vector<std::int64_t>> sizes_in(const json& sent) {
  const auto found = sent.find("micro_batches");
  const auto is_size = [](const json& one) {
    return one.is_number_integer() && one.get<std::int64_t>() >= 1 && one.get<std::int64_t>() <= kMostNumber;
  };
  const bool good = found != sent.end() && found->is_array() && !found->empty() &&
                    found->size() <= kMostSizes && std::all_of(found->begin(), found->end(), is_size);
  if (!good) return wrong("sent a profile without sizes of micro-batches");
  auto sizes = found->get<std::vector<std::int64_t>>();
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end())
    return wrong("sent a profile whose micro-batches do not ascend");
  return sizes;
}

planner::SizeTimes times_by_size(const std::vector<std::int64_t>& sizes, const std::vector<double>& ms) {
  planner::SizeTimes times;
  for (std::size_t i = 0; i < sizes.size(); ++i) times.emplace_back(sizes[i], ms[i]);
  return times;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

absl::StatusOr<MeasuredModel> parse_measured(const std::string& message) {
  PACELINE_ASSIGN_OR_RETURN(const json whole, store::parse_strict_json(message, kProfileDepth));
  const auto found = whole.is_object() ? whole.find("profile") : whole.end();
  if (!whole.is_object() || found == whole.end() || !found->is_object())
    return wrong("sent no profile of its model");
  MeasuredModel model;
  model.name = name_in(*found, "model");
  PACELINE_ASSIGN_OR_RETURN(model.threads, count_in(*found, "threads", 1));
  PACELINE_ASSIGN_OR_RETURN(model.micro_batches, sizes_in(*found));
  const auto units = found->find("units");
  if (units == found->end() || !units->is_array() || units->empty())
    return wrong("sent a profile without units");
  for (const json& sent : *units) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredUnit unit,
                              unit_in(sent, model.units.size(), model.micro_batches.size()));
    model.units.push_back(std::move(unit));
  }
  const auto piece = found->find("whole");
  if (piece == found->end() || piece->is_null()) return model;
  PACELINE_ASSIGN_OR_RETURN(model.whole, whole_in(*piece));
  return model;
}

MeasuredTime fit(const std::vector<std::int64_t>& sizes, const std::vector<double>& ms) {
  PACELINE_CHECK(sizes.size() == ms.size() && !sizes.empty(), "{} sizes and {} times", sizes.size(),
                 ms.size());
  const auto count = static_cast<double>(sizes.size());
  double size = 0, square = 0, time = 0, both = 0, least = std::numeric_limits<double>::infinity();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto u = static_cast<double>(sizes[i]);
    least = std::min(least, ms[i]);
    size += u, square += u * u, time += least, both += u * least;
  }
  const double spread = count * square - size * size;
  const double each = spread > 0 ? std::max(0.0, (count * both - size * time) / spread) : 0;
  const double fixed = (time - each * size) / count;
  if (fixed < 0 || spread <= 0) return {0, both / square};
  return {fixed, each};
}

planner::ModelProfile profile_of(const MeasuredModel& model, std::int64_t state_streams) {
  planner::ModelProfile profile;
  for (const MeasuredUnit& unit : model.units) {
    planner::LayerProfile layer;
    layer.name = unit.name;
    std::vector<double> ms;
    for (std::size_t i = 0; i < unit.forward_ms.size(); ++i)
      ms.push_back(unit.forward_ms[i] + unit.backward_ms[i]);
    const MeasuredTime time = fit(model.micro_batches, ms);
    layer.measured = times_by_size(model.micro_batches, ms);
    layer.work_ms = std::max(kLeastMeasuredMs, time.each_ms);
    layer.fixed_ms = time.fixed_ms;
    if (sum_of(ms) > 0) layer.forward_share = std::clamp(sum_of(unit.forward_ms) / sum_of(ms), 0.01, 0.99);
    layer.output_bytes = unit.sent_bytes;
    layer.activation_bytes = unit.kept_bytes;
    layer.activation_fixed_bytes = unit.kept_fixed_bytes;
    layer.returned_bytes = unit.returned_bytes;
    layer.working_bytes = unit.working_bytes;
    layer.working_fixed_bytes = unit.working_fixed_bytes;
    layer.parameter_bytes = unit.parameter_bytes;
    layer.frozen_bytes = unit.frozen_bytes;
    layer.state_bytes = state_streams * unit.trained * static_cast<std::int64_t>(sizeof(float));
    layer.tied_bytes = unit.tied_bytes;
    layer.tied_to = unit.tied_to;
    profile.layers.push_back(std::move(layer));
  }
  return profile;
}

}  // namespace paceline::program
