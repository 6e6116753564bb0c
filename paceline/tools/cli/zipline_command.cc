#include "paceline/tools/cli/zipline_command.h"

#include <chrono>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/policy/search_method.h"
#include "paceline/formats/config/predicted_times.h"
#include "paceline/processes/launch/print.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/standard_input.h"

namespace paceline::cli {

namespace {

struct Answer {
  policy::SearchMethod method;
  policy::Selection<policy::NumberList> found;
  double micros;  // the search alone
};

absl::StatusOr<config::PredictedTimes> read_times(const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_named_file(file, config::kMostTimesBytes));
  return config::parse_predicted_times(text, shown_name(file));
}

absl::StatusOr<Answer> answer(const std::string& method_text, const config::PredictedTimes& times) {
  PACELINE_ASSIGN_OR_RETURN(const policy::SearchMethod method, policy::parse_search_method(method_text));
  const auto start = std::chrono::steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(auto found, policy::search(method, times.lists));
  const std::chrono::duration<double, std::micro> micros = std::chrono::steady_clock::now() - start;
  return Answer{method, std::move(found), micros.count()};
}

report::Json document(const config::PredictedTimes& times, const Answer& answer) {
  report::Json picks = report::Json::array();
  for (std::size_t k = 0; k < times.lists.size(); ++k) {
    const std::size_t index = answer.found.picks[k];
    picks.push_back({{"id", times.names[k]}, {"index", index}, {"time", times.lists[k][index]}});
  }
  return {{"method", to_string(answer.method)}, {"range", answer.found.range},
          {"begin", answer.found.begin},        {"end", answer.found.end},
          {"picks", std::move(picks)},          {"micros", answer.micros}};
}

void print_table(const config::PredictedTimes& times, const Answer& answer) {
  const std::string text = fmt::format(
      "{}: {} lists meet from {} to {}, a range of {:.10g}; found in {:.1f} µs\n\n", to_string(answer.method),
      times.lists.size(), answer.found.begin, answer.found.end, answer.found.range, answer.micros);
  report::TextTable table({"id", "index", "time", "waits"}, report::TextTable::LastColumn::kNumbers);
  for (std::size_t k = 0; k < times.lists.size(); ++k) {
    const std::size_t index = answer.found.picks[k];
    const double time = times.lists[k][index];
    table.add({report::printable(times.names[k]), fmt::format("{}", index), fmt::format("{}", time),
               fmt::format("{:.10g}", answer.found.end - time)});
  }
  launch::print(stdout, text + table.text());
}

}  // namespace

absl::Status zipline_command(const ZiplineOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_output(options.json));
  PACELINE_ASSIGN_OR_RETURN(const config::PredictedTimes times, read_times(options.file));
  PACELINE_ASSIGN_OR_RETURN(const Answer found, answer(options.method, times));
  if (options.json.empty()) {
    print_table(times, found);
    return absl::OkStatus();
  }
  return write_output(options.json, report::one_line(document(times, found)) + "\n");
}

}  // namespace paceline::cli
