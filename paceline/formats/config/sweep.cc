#include "paceline/formats/config/sweep.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/one_line.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/file_kind.h"
#include "paceline/formats/config/section.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

constexpr std::size_t kMostCells = 10'000;

template <class Named>
std::string names_of(const std::vector<Named>& list) {
  return absl::StrJoin(list, ", ", [](std::string* out, const Named& one) { *out += one.name; });
}

template <class Named>
std::optional<std::size_t> find_named(const std::vector<Named>& list, const std::string& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.name == name; });
  if (found == list.end()) return std::nullopt;
  return static_cast<std::size_t>(found - list.begin());
}

// The key `name` of an axis or a value, which must be one that is not in the list yet.
template <class Named>
std::string new_name(Section& section, const std::vector<Named>& before) {
  const std::string name = section.text("name", "");
  if (name.empty()) section.complain("name", "give it a name");
  if (find_named(before, name)) section.complain("name", fmt::format("'{}' is there twice", name));
  return name;
}

// The index of the item that the text at `key` names. Requires: the key is there, and the list is not empty.
template <class Named>
std::size_t index_of(Section& section, const std::string& key, const std::vector<Named>& list) {
  const std::string name = section.text(key, "");
  const auto found = find_named(list, name);
  if (!found) section.complain(key, fmt::format("'{}' is unknown; write one of: {}", name, names_of(list)));
  return found.value_or(0);
}

std::vector<int> lines_of(const toml::node* list) {
  const toml::array* array = list == nullptr ? nullptr : list->as_array();
  std::vector<int> lines;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i)
    lines.push_back(static_cast<int>(array->get(i)->source().begin.line));
  return lines;
}

SweepAxis read_axis(Section section, const std::vector<SweepAxis>& before, Complaints& complaints) {
  SweepAxis axis;
  axis.name = new_name(section, before);
  for (const toml::table* table : section.tables("value")) {
    Section value(table, "axis.value", complaints);
    std::string name = new_name(value, axis.values);
    axis.values.push_back({std::move(name), value.texts("set"), lines_of(table->get("set"))});
    value.finish();
  }
  if (axis.values.empty()) section.complain("value", "write at least one [[axis.value]] under the axis");
  section.finish();
  return axis;
}

std::vector<std::vector<std::size_t>> all_values(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::size_t>> values;
  for (const SweepAxis& axis : axes) {
    values.emplace_back(axis.values.size());
    std::iota(values.back().begin(), values.back().end(), std::size_t{0});
  }
  return values;
}

std::vector<std::size_t> read_chosen(Section& section, const SweepAxis& axis) {
  std::set<std::size_t> chosen;
  for (const std::string& name : section.texts(axis.name)) {
    const auto value = find_named(axis.values, name);
    if (!value) {
      section.complain(axis.name,
                       fmt::format("'{}' is unknown; write some of: {}", name, names_of(axis.values)));
    } else if (!chosen.insert(*value).second) {
      section.complain(axis.name, fmt::format("'{}' is there twice", name));
    }
  }
  if (chosen.empty()) section.complain(axis.name, "write at least one value");
  return {chosen.begin(), chosen.end()};
}

SweepTable read_table(Section section, const Sweep& sweep, Complaints& complaints) {
  SweepTable table{section.text("title", ""), all_values(sweep.axes)};
  Section axes(section.table("axes"), "table.axes", complaints);
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (axes.has(sweep.axes[i].name)) table.values[i] = read_chosen(axes, sweep.axes[i]);
  }
  axes.finish();
  const std::vector<std::size_t>& columns = table.values[sweep.columns];
  if (sweep.compare && !std::binary_search(columns.begin(), columns.end(), *sweep.compare)) {
    section.complain("axes", fmt::format("leaves out '{}', with which the others are compared",
                                         sweep.axes[sweep.columns].values[*sweep.compare].name));
  }
  section.finish();
  return table;
}

std::size_t cells_in(const SweepTable& table) {
  std::size_t cells = 1;
  for (const auto& values : table.values) cells = std::min(kMostCells + 1, cells * values.size());
  return cells;
}

void read_tables(Section& top, Sweep& sweep, Complaints& complaints) {
  for (const toml::table* table : top.tables("table"))
    sweep.tables.push_back(read_table({table, "table", complaints}, sweep, complaints));
  if (sweep.tables.empty()) sweep.tables.push_back({"", all_values(sweep.axes)});
  for (const SweepTable& table : sweep.tables) {
    if (cells_in(table) > kMostCells)
      top.complain("axis", fmt::format("a table of more than {} trainings; leave some out", kMostCells));
  }
}

// Requires: at least one axis, each with a value.
void read_roles(Section& top, Sweep& sweep) {
  sweep.columns = index_of(top, "columns", sweep.axes);
  if (top.has("mean_over")) sweep.mean_over = index_of(top, "mean_over", sweep.axes);
  if (sweep.mean_over == sweep.columns) top.complain("mean_over", "write another axis than columns");
  if (top.has("compare")) sweep.compare = index_of(top, "compare", sweep.axes[sweep.columns].values);
}

}  // namespace

absl::StatusOr<Sweep> parse_sweep(const std::string& text, const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, parse_toml(text, file));
  Complaints complaints(file);
  Section top(&root, "", complaints);
  Sweep sweep;
  sweep.job = top.text("job", "");
  if (sweep.job.empty()) top.complain("job", "name the job file that lies beside this one");
  sweep.out = top.text("out", "");
  if (sweep.out.empty()) top.complain("out", "name the folder for the results, for example \"runs/sweep\"");
  for (const toml::table* table : top.tables("axis"))
    sweep.axes.push_back(read_axis({table, "axis", complaints}, sweep.axes, complaints));
  if (sweep.axes.empty()) top.complain("axis", "write at least one [[axis]]");
  // The next keys name axes and values; without any there is nothing to look names up in.
  PACELINE_RETURN_IF_ERROR(unless_other_kind(root, FileKind::kSweep, file, complaints.status()));
  read_roles(top, sweep);
  PACELINE_RETURN_IF_ERROR(complaints.status());
  read_tables(top, sweep, complaints);
  top.finish();
  PACELINE_RETURN_IF_ERROR(complaints.status());
  return sweep;
}

std::vector<SweepCell> cells_of(const std::vector<std::vector<std::size_t>>& values) {
  std::vector<SweepCell> cells = {{}};
  for (const std::vector<std::size_t>& choices : values) {
    std::vector<SweepCell> longer;
    for (const SweepCell& cell : cells) {
      for (const std::size_t choice : choices) {
        longer.push_back(cell);
        longer.back().push_back(choice);
      }
    }
    cells = std::move(longer);
  }
  return cells;
}

std::vector<SweepCell> cells_of(const Sweep& sweep) {
  std::set<SweepCell> cells;
  for (const SweepTable& table : sweep.tables) {
    for (SweepCell& cell : cells_of(table.values)) cells.insert(std::move(cell));
  }
  return {cells.begin(), cells.end()};
}

std::vector<std::string> sets_of(const Sweep& sweep, const SweepCell& cell) {
  std::vector<std::string> sets;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const std::vector<std::string>& own = sweep.axes[i].values[cell[i]].sets;
    sets.insert(sets.end(), own.begin(), own.end());
  }
  return sets;
}

absl::Status said_by_sweep(const absl::Status& error, const Sweep& sweep, const SweepCell& cell,
                           const std::string& file) {
  const std::string said(error.message());
  for (std::size_t i = cell.size(); i-- > 0;) {
    const SweepValue& value = sweep.axes[i].values[cell[i]];
    for (std::size_t k = 0; k < value.sets.size(); ++k) {
      const std::string begin = "--set " + one_line(value.sets[k]) + ": ";
      if (!said.starts_with(begin)) continue;
      return {error.code(), fmt::format("{}:{}: {}", file, value.lines[k], said.substr(6))};
    }
  }
  return error;
}

std::string name_of(const Sweep& sweep, const SweepCell& cell) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < cell.size(); ++i) names.push_back(sweep.axes[i].values[cell[i]].name);
  return absl::StrJoin(names, ", ");
}

}  // namespace paceline::config
