#include "paceline/records/exports/data_tables.h"

#include <algorithm>
#include <set>

#include "paceline/records/exports/metric_names.h"

namespace paceline::exports {

namespace {

using report::Json;

DataTable of_objects(std::string name, const Json& list, std::vector<std::string> columns) {
  DataTable table{std::move(name), std::move(columns), {}};
  for (const Json& one : list) {
    std::vector<Json>& row = table.rows.emplace_back();
    for (const std::string& column : table.columns) row.push_back(one.value(column, Json(nullptr)));
  }
  return table;
}

DataTable of_arrays(std::string name, const Json& list, std::vector<std::string> columns) {
  DataTable table{std::move(name), std::move(columns), {}};
  for (const Json& one : list) {
    std::vector<Json>& row = table.rows.emplace_back();
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      row.push_back(i < one.size() ? one[i] : Json(nullptr));
  }
  return table;
}

// The user's own metrics, which some rows have and others do not.
void add_metrics(DataTable& table, const std::vector<Json>& metrics) {
  std::set<std::string> names;
  for (const Json& one : metrics) {
    for (const auto& [name, value] : one.items()) names.insert(name);
  }
  const std::vector<std::string> taken = table.columns;
  for (const std::string& name : names) {
    table.columns.push_back(own_name(name, taken));
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      table.rows[i].push_back(metrics[i].value(name, Json(nullptr)));
  }
}

// Rows that say how much the other tables leave out, as the document of a long or large run does.
void add_left_out(const Json& document, DataTable& summary) {
  std::int64_t spans = 0, without = document.at("replicas_left_out");
  for (const Json& replica : document.at("replicas")) {
    if (replica.at("lane").is_null())
      ++without;
    else
      spans += replica.at("lane").at("left_out").get<std::int64_t>();
  }
  summary.rows.push_back({"replicas_left_out", document.at("replicas_left_out")});
  summary.rows.push_back({"events_left_out", document.at("events_left_out")});
  summary.rows.push_back({"spans_left_out", spans});
  summary.rows.push_back({"replicas_without_spans", without});
  if (document.contains("time"))
    summary.rows.push_back({"devices_left_out", document.at("time").at("devices_left_out")});
}

DataTable summary_table(const Json& document) {
  DataTable table{"summary", {"key", "value"}, {}};
  for (const char* key : {"title", "policy", "world"}) table.rows.push_back({key, document.at(key)});
  for (const auto& [key, value] : document.at("summary").items()) {
    if (value.is_primitive()) table.rows.push_back({key, value});
  }
  if (document.contains("time")) table.rows.push_back({"holds_back", document.at("time").at("holds_back")});
  add_left_out(document, table);
  return table;
}

DataTable evaluations_table(const Json& document) {
  const Json& list = document.at("evaluations");
  DataTable table = of_objects("evaluations", list, {"time_s", "samples", "loss", "accuracy"});
  std::vector<Json> metrics;
  for (const Json& one : list) metrics.push_back(one.at("metrics"));
  add_metrics(table, metrics);
  return table;
}

DataTable training_table(const Json& document) {
  const Json& list = document.at("training");
  DataTable table = of_arrays("training", list, {"time_s", "samples", "loss"});
  std::vector<Json> metrics;
  for (const Json& one : list) metrics.push_back(one.size() > 3 ? one[3] : Json::object());
  add_metrics(table, metrics);
  return table;
}

DataTable staleness_table(const Json& document) {
  DataTable table{"staleness", {"from", "to", "gradients"}, {}};
  const std::int64_t width = document.at("staleness").at("bin_width");
  std::int64_t from = 0;
  for (const Json& count : document.at("staleness").at("counts")) {
    table.rows.push_back({from, from + width - 1, count});
    from += width;
  }
  return table;
}

DataTable groups_table(const Json& document) {
  DataTable table{"groups", {"from", "to", "cause", "commits"}, {}};
  const Json& groups = document.at("groups");
  for (const Json& size : groups.at("sizes")) {
    for (std::size_t i = 0; i < size.at("commits").size(); ++i) {
      table.rows.push_back({size.at("from"), size.at("to"), groups.at("causes")[i], size.at("commits")[i]});
    }
  }
  return table;
}

DataTable gaps_table(const Json& document) {
  DataTable table{"gaps", {"replica", "time_s", "gap"}, {}};
  for (const Json& replica : document.at("replicas")) {
    if (replica.at("gap").is_null()) continue;
    for (const Json& point : replica.at("gap"))
      table.rows.push_back({replica.at("name"), point[0], point[1]});
  }
  return table;
}

std::string doing_of(const Json& letter) {
  if (letter == "c") return "computing";
  return letter == "w" ? "waiting" : "done";
}

DataTable spans_table(const Json& document) {
  DataTable table{"spans", {"replica", "start_s", "end_s", "doing", "iteration", "why"}, {}};
  const Json& reasons = document.at("reasons");
  for (const Json& replica : document.at("replicas")) {
    if (replica.at("lane").is_null()) continue;
    for (const Json& one : replica.at("lane").at("intervals")) {
      const std::int64_t reason = one[4];
      table.rows.push_back({replica.at("name"), one[0], one[1], doing_of(one[2]), one[3],
                            reason < 0 ? Json(nullptr) : reasons[static_cast<std::size_t>(reason)]});
    }
  }
  return table;
}

void add_time(const Json& time, std::vector<DataTable>& tables) {
  DataTable spent{"time", {}, {}}, waits{"waits", {"device", "on", "rule", "s"}, {}};
  for (const Json& device : time.at("devices")) {
    std::vector<Json> row;
    for (const auto& [key, value] : device.items()) {
      if (key == "waits") continue;
      if (spent.rows.empty()) spent.columns.push_back(key);
      row.push_back(value);
    }
    spent.rows.push_back(std::move(row));
    for (const Json& wait : device.at("waits"))
      waits.rows.push_back({device.at("device"), wait.at("on"), wait.at("rule"), wait.at("s")});
  }
  tables.push_back(std::move(spent));
  tables.push_back(std::move(waits));
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  const std::string text = value.is_string() ? value.get<std::string>() : report::one_line(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

template <class Cells, class Text>
std::string csv_line(const Cells& cells, Text text) {
  std::string line;
  for (const auto& cell : cells) line += (&cell == &cells.front() ? "" : ",") + text(cell);
  return line + "\r\n";
}

}  // namespace

std::vector<DataTable> data_tables(const Json& document) {
  std::vector<DataTable> tables{
      summary_table(document),
      evaluations_table(document),
      training_table(document),
      of_arrays("throughput", document.at("throughput"), {"time_s", "samples_per_s"}),
      staleness_table(document),
      groups_table(document),
      of_objects("replicas", document.at("replicas"),
                 {"name", "doing", "why", "iterations", "discarded", "samples", "mean_compute_s",
                  "wait_share", "mean_staleness"}),
      gaps_table(document),
      spans_table(document),
      of_objects("events", document.at("events"), {"time_s", "replica", "text"})};
  tables[6].columns[0] = "replica";
  if (document.contains("time")) add_time(document.at("time"), tables);
  const auto add_objects = [&](const char* name, std::vector<std::string> columns) {
    if (document.contains(name)) tables.push_back(of_objects(name, document.at(name), std::move(columns)));
  };
  add_objects("speeds", {"replica", "samples_per_s", "past_samples_per_s", "ratio"});
  add_objects("servers", {"server", "commits", "mean_ms", "update_ms", "gradient_ms"});
  add_objects("links", {"from", "to", "kind", "bytes"});
  add_objects("memory", {"process", "resident_bytes"});
  if (!document.at("plan").is_null()) {
    tables.push_back(of_arrays("batches", document.at("plan").at("batches"),
                               {"time_s", "batches", "predicted_ms", "measured_ms", "elapsed_ms"}));
  }
  return tables;
}

std::string to_csv(const DataTable& table) {
  std::string text = csv_line(table.columns, [](const std::string& name) { return csv_cell(Json(name)); });
  for (const std::vector<Json>& row : table.rows) text += csv_line(row, csv_cell);
  return text;
}

std::string to_json_lines(const DataTable& table) {
  std::string text;
  for (const std::vector<Json>& row : table.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = row[i];
    text += report::one_line(object) + "\n";
  }
  return text;
}

}  // namespace paceline::exports
