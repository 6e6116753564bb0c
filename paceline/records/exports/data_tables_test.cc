#include "paceline/records/exports/data_tables.h"
#include "paceline/records/pages/time_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/pages/report_json.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/stats/time_stats.h"

namespace paceline::exports {
namespace {

using report::Json;

TEST(DataTables, CellsAreQuotedWhereTheyHaveTo) {
  const DataTable table{
      "t",
      {"a", "b, c"},
      {{"plain", 1.5}, {"with, comma", nullptr}, {"with \"quotes\"", true}, {"two\nlines", -3}}};
  EXPECT_EQ(
      to_csv(table),
      "a,\"b, c\"\r\nplain,1.5\r\n\"with, comma\",\r\n\"with \"\"quotes\"\"\",true\r\n\"two\nlines\",-3\r\n");
  EXPECT_THAT(to_json_lines(table), testing::StartsWith("{\"a\":\"plain\",\"b, c\":1.5}\n"));
}

const DataTable& table_named(const std::vector<DataTable>& tables, const std::string& name) {
  for (const DataTable& table : tables) {
    if (table.name == name) return table;
  }
  ADD_FAILURE() << "no table " << name;
  return tables.front();
}

TEST(DataTables, HaveWhatTheReportShows) {
  report::RunStats stats({.title = "job", .policy = "bsp", .total_samples = 3200, .target = {}});
  report::TimeStats time({});
  const report::ExampleJob job = report::uneven_four();
  Time end = report::run_example(job, "bsp", stats);
  report::run_example(job, "bsp", time);
  Json document = report::report_json(stats.summary(end), stats.history(end));
  document["time"] = report::time_json(time.ledger(end), "bsp");
  document["evaluations"][0]["metrics"] = {{"f1", 0.5}, {"samples", 7}};
  const std::vector<DataTable> tables = data_tables(document);
  for (const DataTable& table : tables) {
    for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size()) << table.name;
  }
  EXPECT_EQ(table_named(tables, "evaluations").columns,
            (std::vector<std::string>{"time_s", "samples", "loss", "accuracy", "f1", "metrics/samples"}));
  EXPECT_EQ(table_named(tables, "replicas").rows.size(), 4u);
  EXPECT_EQ(table_named(tables, "time").columns.size(), 1 + report::kTimeCauses);
  EXPECT_EQ(table_named(tables, "waits").rows.size(), 3u);
  EXPECT_EQ(table_named(tables, "spans").rows[1][3], "waiting");
  const DataTable& evaluations = table_named(tables, "evaluations");
  EXPECT_EQ(evaluations.rows[0][4], 0.5);
  EXPECT_TRUE(evaluations.rows[1][4].is_null());
  EXPECT_EQ(table_named(tables, "staleness").rows[0], (std::vector<Json>{0, 0, 100}));
}

// A person who adds up the rows of a table has to know that some are missing.
TEST(DataTables, SayHowMuchTheyLeaveOut) {
  report::RunStats stats({.title = "job", .policy = "bsp", .total_samples = 3200, .target = {}});
  const Time end = report::run_example(report::uneven_four(), "bsp", stats);
  Json document = report::report_json(stats.summary(end), stats.history(end));
  const auto said = [&](const char* key) -> std::int64_t {
    const std::vector<DataTable> tables = data_tables(document);
    for (const auto& row : table_named(tables, "summary").rows) {
      if (row[0] == key) return row[1];
    }
    ADD_FAILURE() << "no row " << key;
    return -1;
  };
  for (const char* key : {"replicas_left_out", "events_left_out", "spans_left_out", "replicas_without_spans"})
    EXPECT_EQ(said(key), 0) << key;
  document["replicas_left_out"] = 7;
  document["events_left_out"] = 8;
  document["replicas"][0]["lane"]["left_out"] = 20;
  document["replicas"][1]["lane"]["left_out"] = 3;
  document["replicas"][2]["lane"] = nullptr;
  EXPECT_EQ(said("replicas_left_out"), 7);
  EXPECT_EQ(said("events_left_out"), 8);
  EXPECT_EQ(said("spans_left_out"), 23);
  EXPECT_EQ(said("replicas_without_spans"), 8);
  document["time"] = {{"devices", Json::array()}, {"devices_left_out", 9}, {"holds_back", ""}};
  EXPECT_EQ(said("devices_left_out"), 9);
}

}  // namespace
}  // namespace paceline::exports
