#include "paceline/records/pages/sweep_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "paceline/records/pages/html.h"
#include "paceline/records/stats/standard_error.h"
#include "paceline/records/tables/ranking.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"

namespace paceline::report {

namespace {

using Place = SweepGrid::Place;
using Numbers = std::vector<double>;
using Field = std::optional<double> SweepResult::*;

std::optional<double> mean(const Numbers& numbers) {
  if (numbers.empty()) return std::nullopt;
  return mean_of(numbers);
}

Numbers known(const Place& place, Field field) {
  Numbers numbers;
  for (const SweepResult& result : place) {
    if (result.*field) numbers.push_back(*(result.*field));
  }
  return numbers;
}

// " (2 of 3)", or nothing if it is all of them.
std::string share(std::size_t some, std::size_t all) {
  return some == all ? "" : fmt::format(" ({} of {})", some, all);
}

// ", 1 diverged", or nothing.
std::string diverged_of(const Place& place) {
  const auto count =
      std::count_if(place.begin(), place.end(), [](const SweepResult& result) { return result.diverged; });
  if (count == 0) return "";
  return place.size() == 1 ? ", diverged" : fmt::format(", {} diverged", count);
}

// ", 1 missing": the trainings of a place that are not done; or nothing.
std::string missing_of(const Place& place, std::size_t each) {
  return place.size() < each ? fmt::format(", {} missing", each - place.size()) : "";
}

// The number of trainings that a place will have.
std::size_t wanted(const Place& place, std::size_t each) { return std::max(each, place.size()); }

std::string time_cell(const Place& place, std::size_t each) {
  if (place.empty()) return kUnknownCell;
  const Numbers times = known(place, &SweepResult::to_target_s);
  const std::string others = diverged_of(place) + missing_of(place, each);
  if (times.empty()) return (place.size() < each ? kUnknownCell : "never") + others;
  std::string text = seconds_text(*mean(times));
  if (times.size() > 1) text += fmt::format(" ± {}", seconds_text(standard_error(times)));
  return text + share(times.size(), place.size()) + others;
}

std::string accuracy_cell(const Place& place, std::size_t each) {
  const Numbers shares = known(place, &SweepResult::accuracy);
  const std::string others = place.empty() ? "" : diverged_of(place) + missing_of(place, each);
  if (shares.empty()) return kUnknownCell + others;
  std::string text = percent(*mean(shares), 2);
  if (shares.size() > 1) text += fmt::format(" ± {}", percent(standard_error(shares), 2));
  return text + share(shares.size(), place.size()) + others;
}

// A place's mean that can be compared with another's; nothing unless all trainings have a value, and none diverged.
std::optional<double> whole_mean(const Place& place, Field field, std::size_t each) {
  if (!diverged_of(place).empty()) return std::nullopt;
  const Numbers numbers = known(place, field);
  return numbers.size() >= wanted(place, each) ? mean(numbers) : std::nullopt;
}

// The compared column against the others in one row, or in the mean of all.
struct Standing {
  Numbers ratios;  // for each other column: its time divided by the compared column's
  std::optional<double> ratio;
  std::string fastest;  // the fastest other column
  std::optional<double> fastest_ratio;
  // the compared column's accuracy minus the other's, indexed by other column
  std::vector<std::optional<double>> points;
};

Standing standing_of(const SweepGrid& grid, const std::vector<Place>& row) {
  Standing standing;
  const Place& own = row[*grid.compare];
  const auto own_time = whole_mean(own, &SweepResult::to_target_s, grid.each);
  const auto own_accuracy = whole_mean(own, &SweepResult::accuracy, grid.each);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i == *grid.compare) continue;
    const auto accuracy = whole_mean(row[i], &SweepResult::accuracy, grid.each);
    standing.points.push_back(accuracy && own_accuracy ? std::optional(*own_accuracy - *accuracy)
                                                       : std::nullopt);
    const auto time = whole_mean(row[i], &SweepResult::to_target_s, grid.each);
    if (!time || !own_time || *own_time <= 0) continue;
    standing.ratios.push_back(*time / *own_time);
    if (standing.fastest_ratio && *standing.fastest_ratio <= standing.ratios.back()) continue;
    standing.fastest_ratio = standing.ratios.back();
    standing.fastest = grid.columns[i];
  }
  standing.ratio = mean(standing.ratios);
  return standing;
}

Standing mean_of(const std::vector<Standing>& rows) {
  const auto over = [&](const auto& field) {
    Numbers numbers;
    for (const Standing& row : rows) {
      if (const std::optional<double> value = field(row)) numbers.push_back(*value);
    }
    return mean(numbers);
  };
  Standing all;
  all.ratio = over([](const Standing& row) { return row.ratio; });
  all.fastest_ratio = over([](const Standing& row) { return row.fastest_ratio; });
  for (std::size_t i = 0; i < rows.front().points.size(); ++i)
    all.points.push_back(over([i](const Standing& row) { return row.points[i]; }));
  return all;
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : kUnknownCell;
}

std::string points_text(const std::optional<double>& points) {
  return points ? fmt::format("{:+.2f}", 100 * *points) : kUnknownCell;
}

std::vector<std::string> cells_of(std::string name, const Standing& standing, std::string counted) {
  std::vector<std::string> cells = {std::move(name), ratio_text(standing.ratio) + std::move(counted)};
  cells.push_back(ratio_text(standing.fastest_ratio) +
                  (standing.fastest.empty() ? "" : " " + printable(standing.fastest)));
  for (const auto& points : standing.points) cells.push_back(points_text(points));
  return cells;
}

// The last row of a comparison: a mean is over the rows that have the number, "2.05 (1 of 2)".
std::vector<std::string> mean_cells(const std::vector<Standing>& rows) {
  const auto counted = [&](std::string text, const auto& has) {
    const auto count = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), has));
    return count == 0 ? text : text + share(count, rows.size());
  };
  const auto has_ratio = [](const Standing& row) { return row.ratio.has_value(); };
  const Standing mean = mean_of(rows);
  std::vector<std::string> cells = {"mean", counted(ratio_text(mean.ratio), has_ratio),
                                    counted(ratio_text(mean.fastest_ratio), has_ratio)};
  for (std::size_t i = 0; i < mean.points.size(); ++i)
    cells.push_back(
        counted(points_text(mean.points[i]), [i](const Standing& row) { return row.points[i].has_value(); }));
  return cells;
}

std::string html_of(const TextTable& table) {
  const auto line = [&](const std::vector<std::string>& row, const char* tag) {
    std::string text = "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text +=
          fmt::format("<{0}{1}>{2}</{0}>", tag, table.is_left(i) ? " class=\"left\"" : "", as_html(row[i]));
    return text + "</tr>\n";
  };
  const auto& rows = table.rows();
  std::string text = "<table>\n<thead>" + line(rows.front(), "th") + "</thead>\n<tbody>";
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) text += line(*row, "td");
  return text + "</tbody>\n</table>\n";
}

std::string text_of(const TextTable& table, TableStyle style) {
  if (style == TableStyle::kHtml)
    return fmt::format("<div class=\"scroll\" tabindex=\"0\">{}</div></section>", html_of(table));
  return style == TableStyle::kMarkdown ? table.markdown() : table.text();
}

std::vector<std::string> head_of(const SweepGrid& grid) {
  std::vector<std::string> head = {printable(grid.row_head)};
  for (const std::string& column : grid.columns) head.push_back(printable(column));
  return head;
}

std::string measure(const SweepGrid& grid, std::string (*cell)(const Place&, std::size_t), TableStyle style) {
  TextTable table(head_of(grid), TextTable::LastColumn::kNumbers);
  for (std::size_t i = 0; i < grid.rows.size(); ++i) {
    std::vector<std::string> cells = {printable(grid.rows[i])};
    for (const Place& place : grid.places[i]) cells.push_back(cell(place, grid.each));
    table.add(std::move(cells));
  }
  return text_of(table, style);
}

std::string comparison(const SweepGrid& grid, TableStyle style) {
  std::vector<std::string> head = {printable(grid.row_head), "mean of the others' times", "fastest other"};
  for (std::size_t i = 0; i < grid.columns.size(); ++i) {
    if (i != *grid.compare) head.push_back("points above " + printable(grid.columns[i]));
  }
  TextTable table(std::move(head), TextTable::LastColumn::kNumbers);
  std::vector<Standing> rows;
  for (std::size_t i = 0; i < grid.rows.size(); ++i) {
    rows.push_back(standing_of(grid, grid.places[i]));
    const std::string counted = rows[i].ratio ? share(rows[i].ratios.size(), grid.columns.size() - 1) : "";
    table.add(cells_of(printable(grid.rows[i]), rows[i], counted));
  }
  if (rows.size() > 1) table.add(mean_cells(rows));
  return text_of(table, style);
}

// The parts of a summary that ranking.h needs, from a training's result.
Summary summary_of(const SweepResult& result, const std::string& column, const Target& target) {
  Summary summary;
  summary.run.policy = column;
  summary.run.world = World::kVirtual;
  summary.run.target = target;
  summary.run.diverged = result.diverged;
  summary.finish_cause = control::FinishCause::kEverySample;
  control::Evaluated last;
  last.loss = result.loss.value_or(NAN);
  last.accuracy = result.accuracy.value_or(NAN);
  summary.last_evaluation = last;
  if (result.to_target_s) {
    summary.met_target = last;
    summary.met_target->at = Time(from_seconds(*result.to_target_s));
  }
  return summary;
}

// The fastest column of a row, in the words of a comparison.
std::vector<std::string> verdict_of(const SweepGrid& grid, const std::vector<Place>& row,
                                    const Target& target) {
  std::vector<Summary> summaries;
  PlannedRuns planned;
  for (std::size_t i = 0; i < row.size(); ++i) {
    planned.all += wanted(row[i], grid.each);
    for (const SweepResult& result : row[i]) summaries.push_back(summary_of(result, grid.columns[i], target));
  }
  return rank(summaries, planned).verdict;
}

std::string verdicts(const SweepGrid& grid, TableStyle style) {
  std::string text;
  for (std::size_t i = 0; i < grid.rows.size() && i < grid.targets.size(); ++i) {
    if (!grid.targets[i]) continue;
    for (const std::string& line : verdict_of(grid, grid.places[i], *grid.targets[i])) {
      const std::string said =
          grid.rows[i].empty() ? line : fmt::format("{}: {}", printable(grid.rows[i]), line);
      text += style == TableStyle::kHtml ? fmt::format("<li>{}.</li>\n", as_html(said)) : said + "\n";
    }
  }
  if (text.empty() || style != TableStyle::kHtml) return text;
  return fmt::format("<ul>\n{}</ul></section>", text);
}

std::string heading(const std::string& text, TableStyle style) {
  if (style == TableStyle::kHtml) return fmt::format("<section><h2>{}</h2>", as_html(text));
  return style == TableStyle::kMarkdown ? fmt::format("**{}**\n\n", text) : text + "\n";
}

}  // namespace

std::string sweep_tables(const SweepGrid& grid, TableStyle style) {
  const std::string before = grid.title.empty() ? "" : printable(grid.title) + ": ";
  std::string text = heading(before + "virtual seconds to the target", style) +
                     measure(grid, time_cell, style) + "\n" +
                     heading(before + "accuracy at the end (%)", style) + measure(grid, accuracy_cell, style);
  if (grid.compare) {
    text += "\n" +
            heading(fmt::format(
                        "{0}{1} beside the others: their times in multiples of {1}'s, and how many points "
                        "of accuracy {1} ends above them",
                        before, printable(grid.columns[*grid.compare])),
                    style) +
            comparison(grid, style);
  }
  if (style == TableStyle::kMarkdown) return text;
  std::string said = verdicts(grid, style);
  if (said.empty()) return text;
  said = heading(before + "who is the fastest", style) + said;
  // The verdicts come first on a page, and last in a terminal, where people see them at once.
  return style == TableStyle::kHtml ? said + text : text + "\n" + said;
}

}  // namespace paceline::report
