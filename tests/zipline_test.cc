// `paceline zipline` as a user runs it.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace paceline::tests {
namespace {

class Zipline : public testing::Test {
 protected:
  // 1.0 s and 2.3 s an iteration; the fast one's fifth comes closest to the slow one's first.
  void SetUp() override { write_text(file_, "# two\nw0:3,4,5,6,7\nslow \x1b[2J:6.9,9.2,11.5,\n"); }

  Ended zipline(std::vector<std::string> more) const {
    more.insert(more.begin(), {"zipline", file_.string()});
    return run(more);
  }

  const TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "times.txt";
};

void expect_the_answer(const std::string& text, const std::string& method) {
  const nlohmann::json answer = nlohmann::json::parse(text);
  EXPECT_EQ(answer.at("method"), method);
  EXPECT_EQ(answer.at("begin"), 6.9);
  EXPECT_EQ(answer.at("end"), 7);
  EXPECT_EQ(answer.at("range"), 7 - 6.9);
  EXPECT_GE(answer.at("micros"), 0);
  EXPECT_EQ(answer.at("picks"), nlohmann::json::parse(R"([{"id": "w0", "index": 4, "time": 7.0},
                                                         {"id": "slow \u001b[2J", "index": 0, "time": 6.9}])"));
}

TEST_F(Zipline, PrintsATable) {
  const Ended ended = zipline({});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.output.find("2 lists meet from 6.9 to 7, a range of 0.1;"), std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("slow ?[2J"), std::string::npos) << ended.output;
}

TEST_F(Zipline, WritesOneJsonObject) {
  for (const char* method : {"zip-line", "zip-line-scan", "zip-line-opt", "zip-line-opt-bs", "full-grid-scan",
                             "full-grid-scan-exact", "grid-scan", "naive"}) {
    const Ended ended = zipline({"--method", method, "--json", "-"});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    expect_the_answer(ended.output, method);
  }
  const Ended ended = zipline({"--json", (folder_ / "answer.json").string()});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(ended.output, "");
  expect_the_answer(read_text(folder_ / "answer.json"), "zip-line");
}

// Milliseconds since 1970 are whole numbers, and so is what they differ by.
TEST_F(Zipline, TakesMillisecondsSince1970) {
  write_text(file_, "w0:1553557741828,1553557742828\nw1:1553559041829\n");
  const Ended ended = zipline({});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.output.find("meet from 1553557742828 to 1553559041829, a range of 1299001;"),
            std::string::npos)
      << ended.output;
}

TEST_F(Zipline, SaysInOneLineWhatIsWrong) {
  const auto expect_error = [&](const std::vector<std::string>& more, const std::string& says) {
    const Ended ended = zipline(more);
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.output, "");
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
    EXPECT_NE(ended.errors.find(says), std::string::npos) << ended.errors;
  };
  expect_error({"--method", "fast"}, "method 'fast': unknown; write zip-line");
  expect_error({"--json", (folder_ / "no" / "such.json").string()}, "such.json");
  write_text(file_, "w0:1,2\nw1:3,2\n");
  expect_error({}, "times.txt:2: the time in place 2 is less than the one before; sort the times");
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += fmt::format("w{}:1,2,3,4,5\n", i);
  write_text(file_, wide);
  expect_error({"--method", "naive"}, "naive would take up to 4e+29 steps on these 40 lists; use zip-line");
  std::filesystem::remove(file_);
  expect_error({}, "times.txt");
}

}  // namespace
}  // namespace paceline::tests
