#include "paceline/records/store/controller_state_json.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

using nlohmann::json;

namespace {

constexpr std::size_t kStateDepth = 4;  // document, ledger, open, range

using Range = std::pair<std::int64_t, std::int64_t>;

absl::StatusOr<Range> range_from(const json& pair) {
  if (!pair.is_array() || pair.size() != 2) return absl::DataLossError("'open' is not a list of pairs");
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t begin, whole_number(pair[0], "open"));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t end, whole_number(pair[1], "open"));
  return Range(begin, end);
}

absl::StatusOr<control::SampleLedger::Saved> ledger_from(const json& document) {
  control::SampleLedger::Saved ledger;
  PACELINE_ASSIGN_OR_RETURN(ledger.next, whole_number_of(document, "next"));
  PACELINE_ASSIGN_OR_RETURN(const json* open, member_of(document, "open"));
  if (!open->is_array()) return absl::DataLossError("'open' is not a list");
  std::int64_t before = 0;
  for (const json& pair : *open) {
    PACELINE_ASSIGN_OR_RETURN(const Range range, range_from(pair));
    const bool fits = range.first >= before && range.second > range.first && range.second <= ledger.next;
    if (!fits) return absl::DataLossError("the ranges in 'open' overlap or lie past 'next'");
    ledger.open.push_back(range);
    before = range.second;
  }
  if (document.contains("least")) {
    PACELINE_ASSIGN_OR_RETURN(ledger.least, whole_number_of(document, "least"));
  }
  if (!document.contains("end")) return ledger;
  PACELINE_ASSIGN_OR_RETURN(ledger.end, whole_number_of(document, "end"));
  if (*ledger.end < std::max<std::int64_t>(1, ledger.next))
    return absl::DataLossError("'end' lies before 'next'");
  return ledger;
}

absl::StatusOr<std::map<std::string, Clock>> clocks_from(const json& document) {
  if (!document.is_object()) return absl::DataLossError("'clocks' is not an object");
  std::map<std::string, Clock> clocks;
  for (const auto& [name, value] : document.items()) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t clock, whole_number(value, "clocks"));
    clocks.emplace(name, Clock(clock));
  }
  return clocks;
}

}  // namespace

json to_json(const control::ControllerState& state) {
  json clocks = json::object();
  for (const auto& [name, clock] : state.clocks) clocks[name] = clock.value();
  json open = json::array();
  for (const auto& [begin, end] : state.ledger.open) open.push_back({begin, end});
  json ledger = {{"next", state.ledger.next}, {"open", std::move(open)}};
  if (state.ledger.end) ledger["end"] = *state.ledger.end;
  if (state.ledger.least) ledger["least"] = *state.ledger.least;
  return {{"version", state.version.value()}, {"ledger", std::move(ledger)}, {"clocks", std::move(clocks)}};
}

std::string to_text(const control::ControllerState& state) {
  return to_json(state).dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<control::ControllerState> controller_state_from(const json& document) {
  control::ControllerState state;
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t version, whole_number_of(document, "version"));
  PACELINE_ASSIGN_OR_RETURN(const json* ledger, member_of(document, "ledger"));
  PACELINE_ASSIGN_OR_RETURN(const json* clocks, member_of(document, "clocks"));
  state.version = Version(version);
  PACELINE_ASSIGN_OR_RETURN(state.ledger, ledger_from(*ledger));
  PACELINE_ASSIGN_OR_RETURN(state.clocks, clocks_from(*clocks));
  return state;
}

absl::StatusOr<control::ControllerState> controller_state_from_text(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, kStateDepth));
  return controller_state_from(document);
}

std::int64_t committed_samples(const control::ControllerState& state) {
  std::int64_t samples = state.ledger.next;
  for (const auto& [begin, end] : state.ledger.open) samples -= end - begin;
  return samples;
}

}  // namespace paceline::store
