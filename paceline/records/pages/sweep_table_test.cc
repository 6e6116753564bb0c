#include "paceline/records/pages/sweep_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::report {
namespace {

SweepResult result_of(std::optional<double> to_target_s, std::optional<double> accuracy) {
  SweepResult result;
  result.to_target_s = to_target_s;
  result.accuracy = accuracy;
  return result;
}

SweepGrid grid() {
  SweepGrid grid{.title = "small",
                 .row_head = "scenario",
                 .rows = {"a", "b"},
                 .columns = {"BSP", "ASP", "CGP"},
                 .places = {},
                 .compare = 2};
  grid.places = {{{result_of(200, 0.62), result_of(220, 0.64)},
                  {result_of(100, 0.50), result_of({}, 0.54)},
                  {result_of(100, 0.61), result_of(110, 0.61)}},
                 {{result_of(300, 0.6), result_of(300, 0.6)},
                  {result_of(120, 0.5), result_of(120, 0.5)},
                  {result_of(100, 0.6), result_of(100, 0.62)}}};
  return grid;
}

TEST(SweepTables, SayTimesAccuraciesAndHowOneColumnStands) {
  EXPECT_EQ(sweep_tables(grid(), TableStyle::kMarkdown),
            "**small: virtual seconds to the target**\n\n"
            "| scenario | BSP | ASP | CGP |\n|---|---:|---:|---:|\n"
            "| a | 210.0 ± 10.0 | 100.0 (1 of 2) | 105.0 ± 5.00 |\n"
            "| b | 300.0 ± 0.00 | 120.0 ± 0.00 | 100.0 ± 0.00 |\n\n"
            "**small: accuracy at the end (%)**\n\n"
            "| scenario | BSP | ASP | CGP |\n|---|---:|---:|---:|\n"
            "| a | 63.00 ± 1.00 | 52.00 ± 2.00 | 61.00 ± 0.00 |\n"
            "| b | 60.00 ± 0.00 | 50.00 ± 0.00 | 61.00 ± 1.00 |\n\n"
            "**small: CGP beside the others: their times in multiples of CGP's, and how many points of "
            "accuracy CGP ends above them**\n\n"
            "| scenario | mean of the others' times | fastest other | points above BSP | points above ASP |\n"
            "|---|---:|---:|---:|---:|\n"
            "| a | 2.00 (1 of 2) | 2.00 BSP | -2.00 | +9.00 |\n"
            "| b | 2.10 | 1.20 ASP | +1.00 | +11.00 |\n"
            "| mean | 2.05 | 1.60 | -0.50 | +10.00 |\n");
}

// A sweep that was interrupted has only some seeds of a place.
TEST(SweepTables, NameMissingTrainingsAndCompareThemWithNothing) {
  SweepGrid some = grid();
  some.each = 3;
  some.places[1][1] = {result_of(120, 0.5), result_of(120, 0.5), result_of(120, 0.5)};
  some.places[1][2] = {result_of(100, 0.6), result_of(100, 0.62), result_of(100, 0.61)};
  some.places[0][1] = {result_of({}, 0.5)};
  some.places[1][0] = {result_of(300, 0.6), result_of({}, 0.6)};
  EXPECT_EQ(sweep_tables(some, TableStyle::kMarkdown),
            "**small: virtual seconds to the target**\n\n"
            "| scenario | BSP | ASP | CGP |\n|---|---:|---:|---:|\n"
            "| a | 210.0 ± 10.0, 1 missing | –, 2 missing | 105.0 ± 5.00, 1 missing |\n"
            "| b | 300.0 (1 of 2), 1 missing | 120.0 ± 0.00 | 100.0 ± 0.00 |\n\n"
            "**small: accuracy at the end (%)**\n\n"
            "| scenario | BSP | ASP | CGP |\n|---|---:|---:|---:|\n"
            "| a | 63.00 ± 1.00, 1 missing | 50.00, 2 missing | 61.00 ± 0.00, 1 missing |\n"
            "| b | 60.00 ± 0.00, 1 missing | 50.00 ± 0.00 | 61.00 ± 0.58 |\n\n"
            "**small: CGP beside the others: their times in multiples of CGP's, and how many points of "
            "accuracy CGP ends above them**\n\n"
            "| scenario | mean of the others' times | fastest other | points above BSP | points above ASP |\n"
            "|---|---:|---:|---:|---:|\n"
            "| a | – | – | – | – |\n"
            "| b | 1.20 (1 of 2) | 1.20 ASP | – | +11.00 |\n"
            "| mean | 1.20 (1 of 2) | 1.20 (1 of 2) | – | +11.00 (1 of 2) |\n");
}

TEST(SweepTables, StandInAPageAsText) {
  SweepGrid odd = grid();
  odd.title = "<script>alert(1)</script>";
  odd.rows[0] = "a & \"b\"";
  const std::string html = sweep_tables(odd, TableStyle::kHtml);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("<h2>&lt;script&gt;alert(1)&lt;/script&gt;: accuracy at the end (%)</h2>"),
            std::string::npos)
      << html;
  EXPECT_NE(html.find("<td class=\"left\">a &amp; &quot;b&quot;</td><td>210.0 ± 10.0</td>"),
            std::string::npos)
      << html;
}

// 1, 2 and 6 points about their mean of 3: √(14/2/3).
TEST(SweepTables, SayTheStandardErrorOfAMean) {
  SweepGrid one = grid();
  one.compare.reset();
  one.rows = {"a"};
  one.columns = {"BSP"};
  one.places = {{{result_of({}, 0.01), result_of({}, 0.02), result_of({}, 0.06)}}};
  const std::string text = sweep_tables(one, TableStyle::kMarkdown);
  EXPECT_NE(text.find("| a | 3.00 ± 1.53 |\n"), std::string::npos) << text;
}

TEST(SweepTables, StandInATerminal) {
  SweepGrid one = grid();
  one.compare.reset();
  one.title.clear();
  one.rows = {"a\x1b"};
  one.places.resize(1);
  const std::string text = sweep_tables(one, TableStyle::kText);
  EXPECT_EQ(
      text.rfind("virtual seconds to the target\nscenario           BSP             ASP           CGP\n---",
                 0),
      0u)
      << text;
  EXPECT_NE(text.find("\na?        210.0 ± 10.0  100.0 (1 of 2)  105.0 ± 5.00\n"), std::string::npos) << text;
}

TEST(SweepTables, SayWhoIsTheFastestAsAComparisonDoes) {
  SweepGrid one = grid();
  one.title.clear();
  one.targets = {Target{"accuracy", 0.6}, Target{"accuracy", 0.55}};
  one.places[1][0] = {result_of({}, 0.6), result_of(300, 0.6)};
  one.places[1][2] = {result_of({}, 0.59), result_of({}, 0.59)};
  const std::string text = sweep_tables(one, TableStyle::kText);
  EXPECT_THAT(text, ::testing::EndsWith(
                        "\n\nwho is the fastest\n"
                        "a: BSP is the first to reach the target (accuracy ≥ 60 %) among those that end "
                        "within 1 point of the "
                        "best (63.00 %): after 210.0 virtual s on average\n"
                        "a: CGP reaches it 2.00 × as fast, but ends 2.00 points lower than BSP\n"
                        "b: none among those that end within 1 point of the best (60.00 %) has reached the "
                        "target (accuracy "
                        "≥ 55 %) with every seed\n"
                        "b: BSP reached it with 1 of 2 seeds\n"
                        "b: ASP reaches it after 120.0 virtual s, but ends 10.00 points lower than BSP\n"));
  EXPECT_THAT(sweep_tables(one, TableStyle::kMarkdown),
              ::testing::Not(::testing::HasSubstr("first to reach")));
  one.rows[0] = "<b>";
  EXPECT_THAT(sweep_tables(one, TableStyle::kHtml), ::testing::HasSubstr("<li>&lt;b&gt;: BSP is the first"));
  one.each = 3;
  EXPECT_THAT(sweep_tables(one, TableStyle::kText),
              ::testing::HasSubstr("\nb: 6 of 9 trainings are done, so it is open who is the fastest\n"));
  one.targets[0].reset();  // the row's columns have different targets
  EXPECT_THAT(sweep_tables(one, TableStyle::kText), ::testing::Not(::testing::HasSubstr("\n<b>: ")));
}

TEST(SweepTables, CountTrainingsThatDiverged) {
  SweepGrid one = grid();
  one.title.clear();
  one.targets = {Target{"accuracy", 0.6}, Target{"accuracy", 0.5}};
  one.places[0][2][1] = result_of(120, {});
  one.places[0][2][1].diverged = true;
  one.places[1] = {{result_of(300, 0.6)}, {result_of({}, {})}, {result_of(100, {})}};
  one.places[1][1][0].diverged = one.places[1][2][0].diverged = true;
  const std::string text = sweep_tables(one, TableStyle::kMarkdown);
  for (const char* row :
       {"| a | 210.0 ± 10.0 | 100.0 (1 of 2) | 110.0 ± 10.0, 1 diverged |\n",
        "| b | 300.0 | never, diverged | 100.0, diverged |\n",
        "| a | 63.00 ± 1.00 | 52.00 ± 2.00 | 61.00 (1 of 2), 1 diverged |\n",
        "| b | 60.00 | –, diverged | –, diverged |\n", "| a | – | – | – | – |\n| b | – | – | – | – |\n"})
    EXPECT_THAT(text, ::testing::HasSubstr(row));
  EXPECT_THAT(sweep_tables(one, TableStyle::kText),
              ::testing::AllOf(
                  ::testing::HasSubstr("\na: CGP is not ranked: its training diverged with 1 of 2 seeds\n"),
                  ::testing::HasSubstr("\nb: BSP is the first to reach the target")));
}

TEST(SweepTables, SayWhatIsNotThere) {
  SweepGrid one = grid();
  one.rows = {"a"};
  one.places = {{{}, {result_of({}, {}), result_of({}, 0.5)}, {result_of({}, 0.6), result_of(5, 0.6)}}};
  const std::string text = sweep_tables(one, TableStyle::kMarkdown);
  EXPECT_NE(text.find("| a | – | never | 5.00 (1 of 2) |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| a | – | 50.00 (1 of 2) | 60.00 ± 0.00 |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| a | – | – | – | – |\n"), std::string::npos) << text;
}

TEST(SweepResult, IsReadAsItWasWritten) {
  const SweepResult all{.virtual_s = 0.1,
                        .to_target_s = 1e-3,
                        .accuracy = 0.3,
                        .best_accuracy = 0.4,
                        .loss = 1.5,
                        .best_loss = 1.25,
                        .samples = 7,
                        .commits = 8,
                        .staleness_mean = 1.0 / 3,
                        .staleness_max = 9,
                        .wall_s = 2.5,
                        .diverged = true};
  SweepResult few;
  few.samples = 1;
  for (const SweepResult& result : {all, few}) {
    const Json json = Json::parse(to_json(result).dump());
    const auto again = sweep_result_from(json);
    ASSERT_TRUE(again);
    EXPECT_EQ(to_json(*again), json);
    EXPECT_EQ(again->staleness_mean, result.staleness_mean);
    EXPECT_EQ(again->best_loss, result.best_loss);
    EXPECT_EQ(again->diverged, result.diverged);
    for (const auto& [key, value] : json.items()) {
      Json broken = json;
      broken[key] = "x";
      EXPECT_FALSE(sweep_result_from(broken)) << key;
      broken.erase(key);
      EXPECT_EQ(sweep_result_from(broken).has_value(), key == "diverged") << key;
    }
  }
  EXPECT_FALSE(sweep_result_from(Json::array()));
}

// The weights of that evaluation are from before the divergence.
TEST(SweepResult, HasNoEndIfTheRunDivergedAfterAnEvaluation) {
  Summary summary;
  summary.run.diverged = true;
  summary.last_evaluation = control::Evaluated{{}, Version(3), 10, 1.5, 0.61};
  summary.best_accuracy = 0.61;
  const SweepResult result = sweep_result(summary, 1);
  EXPECT_TRUE(result.diverged);
  EXPECT_FALSE(result.accuracy);
  EXPECT_FALSE(result.loss);
  EXPECT_EQ(result.best_accuracy, 0.61);
  EXPECT_EQ(to_json(result).at("diverged"), true);
}

TEST(SweepResult, HasNoLossIfItsEvaluationIsNoNumber) {
  Summary summary;
  summary.last_evaluation = control::Evaluated{{}, Version(3), 10, std::nan(""), 0.1};
  summary.best_loss = std::nan("");
  summary.best_accuracy = 0.2;
  const SweepResult result = sweep_result(summary, 1);
  EXPECT_EQ(result.accuracy, 0.1);
  EXPECT_EQ(result.best_accuracy, 0.2);
  EXPECT_FALSE(result.loss);
  EXPECT_FALSE(result.best_loss);
  EXPECT_TRUE(to_json(result).at("loss").is_null());
}

}  // namespace
}  // namespace paceline::report
