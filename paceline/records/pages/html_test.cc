#include "paceline/records/pages/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/records/pages/page_parts.h"
#include "paceline/records/pages/report_json.h"
#include "paceline/records/stats/example_run.h"

namespace paceline::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHostile = "</script><script>alert(1)</script><!-- {{script}} \xff";

Json hostile_run() {
  ExampleJob job = uneven_four();
  job.replicas[0].name = kHostile;
  job.replicas[1].leaves_at_s = 1.05;
  job.replicas[1].why_it_leaves = kHostile;
  RunStats stats(
      {.title = kHostile, .policy = kHostile, .world = World::kLive, .total_samples = 3200, .target = {}});
  const Time end = run_example(job, "ssp:3", stats);
  return report_json(stats.summary(end), stats.history(end));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

// The data that the browser's script parses.
std::string data_of(const std::string& page) {
  const std::string open = R"(id="data">)";
  const std::size_t start = page.find(open) + open.size();
  return page.substr(start, page.find("</script>", start) - start);
}

TEST(Html, HostileTextStaysData) {
  const std::string page = render_report(hostile_run());
  EXPECT_EQ(count(page, "</script>"), 2U) << "that of the data and that of the script";
  EXPECT_EQ(count(page, "<!--"), 0U);
  EXPECT_THAT(data_of(page), Not(HasSubstr("<")));
  const Json data = Json::parse(data_of(page));
  EXPECT_THAT(data[0]["replicas"][0]["name"].get<std::string>(),
              HasSubstr("</script><script>alert(1)</script><!-- {{script}}"));
}

TEST(Html, IsSelfContained) {
  const std::string page = render_report(hostile_run());
  for (const char* const outside : {" src=", " href=", "url(http", "@import", "//cdn"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(Html, TheScriptMakesNoMarkupOfText) {
  const std::string script(html_script());
  for (const char* const markup :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("}) {
    EXPECT_THAT(script, Not(HasSubstr(markup)));
  }
  EXPECT_THAT(script, Not(HasSubstr("</script"))) << "it would end its own element";
}

TEST(Html, AComparisonHoldsItsRunsInOrder) {
  Json first = hostile_run();
  Json second = first;
  first["policy"] = "bsp";
  second["policy"] = "asp";
  const Json data = Json::parse(data_of(render_comparison({first, second})));
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data[0]["policy"], "bsp");
  EXPECT_EQ(data[1]["policy"], "asp");
}

TEST(Html, ARunWithoutAnythingIsAPage) {
  const RunStats stats(
      {.title = "", .policy = "bsp", .world = World::kLive, .total_samples = 0, .target = {}});
  EXPECT_THAT(render_report(report_json(stats.summary({}), stats.history({}))), HasSubstr("</html>"));
}

std::string file(const std::string& name, const std::string& folder = "paceline/records/pages/") {
  std::ifstream in(folder + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string joined(const std::string& first, const std::vector<std::string>& names) {
  std::string all = file(first, "third_party/uplot/") + "\n";
  for (const std::string& name : names) all += file(name) + "\n";
  return all;
}

TEST(Html, HasTheFilesThatWereCompiledIn) {
  EXPECT_EQ(html_page(), file("report.html"));
  EXPECT_TRUE(html_style() == joined("uPlot.min.css", {"report.css"}));
  EXPECT_TRUE(html_script() == joined("uPlot.iife.min.js", {"draw.js", "charts.js", "curves.js", "groups.js",
                                                            "lanes.js", "plans.js", "time.js", "page.js"}));
  EXPECT_GT(html_script().size(), 10'000U);
}

TEST(HtmlTables, ATitleIsText) {
  const std::string page = render_tables(kHostile, "<table></table>");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("<h1>&lt;/script&gt;&lt;script&gt;"));
  EXPECT_EQ(count(page, "<table></table>"), 1u);
}

TEST(HtmlTables, EscapesTheSettings) {
  EXPECT_EQ(about_section(Json::array({Json::array({"model", "<b>"}), Json::array({"seed", "1, 2"})})),
            "<section><div class=\"title\"><h2>What was run</h2></div><dl class=\"about\">\n"
            "<dt>model</dt><dd>&lt;b&gt;</dd>\n<dt>seed</dt><dd>1, 2</dd>\n</dl></section>\n");
}

}  // namespace
}  // namespace paceline::report
