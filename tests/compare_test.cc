// `paceline compare`, and `paceline report` on the folder it leaves.
#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

TEST(Compare, ReportGivesTheSameAgainFromTheJournals) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "epochs = 0.1\n");
  // Neither the policies nor their names are in alphabetical order.
  const Ended compared = run({"compare", job.string(), "--policies", "ssp:2,bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  const fs::path comparison = fs::directory_iterator(folder / "runs")->path();
  const std::string page = read_text(comparison / "report.html");
  fs::remove(comparison / "report.html");

  const Ended again = run({"report", comparison.string()});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(again.output, compared.output);
  EXPECT_EQ(again.errors, "");
  EXPECT_TRUE(read_text(comparison / "report.html") == page);

  for (const auto& entry : fs::directory_iterator(comparison)) {
    if (entry.path().string().ends_with("-bsp")) fs::remove(entry.path() / "journal.sqlite");
  }
  fs::create_directory(folder / "others");
  for (const auto& entry : fs::directory_iterator(comparison)) {
    if (entry.is_directory())
      fs::copy(entry, folder / "others" / entry.path().filename(), fs::copy_options::recursive);
  }
  const Ended others = run({"report", (folder / "others").string()});
  EXPECT_EQ(others.status, 2) << others.output;
  EXPECT_NE(others.errors.find("runs of several jobs, which are no comparison"), std::string::npos)
      << others.errors;
  const Ended without = run({"report", comparison.string()});
  EXPECT_EQ(without.status, 0) << without.errors;
  EXPECT_NE(without.errors.find("left out: "), std::string::npos) << without.errors;
  EXPECT_NE(without.errors.find("-bsp/journal.sqlite"), std::string::npos) << without.errors;
  EXPECT_EQ(without.output.find("bsp"), std::string::npos) << without.output;
  EXPECT_NE(without.output.find("asp"), std::string::npos) << without.output;
}

TEST(Compare, TrainsAJobAsSeveralWouldPlanIt) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", "epochs = 0.1\nmicro_batch = 2\n",
                "[[device]]\ncount = 2\npace_ms = 20\n[[device]]\npace_ms = 60\nbatch = 4\n");
  const std::string ways = "joint,frozen,data,uneven-data,pipeline,gpipe,gpipe-work,pipedream,hetpipe";
  const Ended compared =
      run({"compare", job.string(), "--virtual", "--policies", "bsp,asp", "--parallel", ways});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  for (const std::string policy : {"bsp", "asp"}) {
    EXPECT_THAT(compared.output, testing::HasSubstr("\n" + policy + "  ")) << "plain data parallelism";
    for (const std::string way :
         {"joint", "frozen", "uneven-data", "pipeline", "gpipe", "gpipe-work", "pipedream", "hetpipe"})
      EXPECT_THAT(compared.output, testing::HasSubstr("\n" + policy + ", " + way + "  "));
  }
  EXPECT_THAT(compared.errors, testing::HasSubstr("(as gpipe plans it; "));
}

TEST(Compare, AModelIsMeasuredOnceForAllRuns) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", "epochs = 0.1\nmicro_batch = 2\n", "[[device]]\ncount = 2\npace_ms = 20\n");
  const Ended compared =
      run({"compare", job.string(), "--virtual", "--parallel", "data,joint,gpipe", "--seeds", "2"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  EXPECT_THAT(compared.errors, testing::HasSubstr("2 of 6: joint, seed="));
  std::map<std::string, int> measured;
  for (const auto& entry : fs::directory_iterator(fs::directory_iterator(folder / "run" / "runs")->path())) {
    if (!entry.is_directory()) continue;
    const std::string text = read_text(entry.path() / "job.toml");
    std::string times;
    for (std::size_t at = 0; (at = text.find("work_ms = ", at)) != std::string::npos; ++at)
      times += text.substr(at, text.find_first_of(",}\n", at) - at) + "; ";
    ++measured[times];
  }
  EXPECT_EQ(measured[""], 2) << "data parallelism needs no times";
  EXPECT_EQ(measured.size(), 2u);
}

TEST(Compare, SaysThatNoneReachedTheTarget) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "epochs = 0.1\nevaluate.target = \"loss <= 0.001\"\n");
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  EXPECT_THAT(compared.output, testing::HasSubstr("\nnone has reached the target (loss ≤ 0.001)\n"));
}

// Forty of MNIST's test images, and nothing else.
void write_mnist_test_files(const fs::path& folder) {
  fs::create_directory(folder);
  const std::string count{'\0', '\0', '\0', 40}, side{'\0', '\0', '\0', 28};
  std::string labels = std::string{'\0', '\0', 8, 1} + count;
  for (int i = 0; i < 40; ++i) labels += static_cast<char>(i % 10);
  write_text(folder / "t10k-images-idx3-ubyte",
             std::string{'\0', '\0', 8, 3} + count + side + side + std::string(40 * 28 * 28, 'x'));
  write_text(folder / "t10k-labels-idx1-ubyte", labels);
}

TEST(Compare, WhatToKnowOfTheDataIsSaidAtTheEndAndOnThePages) {
  const TempFolder folder;
  write_mnist_test_files(folder / "mnist");
  const fs::path job = folder / "job.toml";
  write_text(job, fmt::format("runs_dir = \"{0}/runs\"\nbatch = 4\n[model]\nname = \"mlp\"\nwidth = 8\n"
                              "[data]\nsource = \"mnist:{0}/mnist\"\n",
                              folder.path().string()));
  const std::string note = "only MNIST's test files are here: 32 of their images train and 8 test";
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  EXPECT_THAT(compared.output, testing::HasSubstr(note));
  const fs::path comparison = fs::directory_iterator(folder / "runs")->path();
  EXPECT_THAT(read_text(comparison / "report.html"), testing::HasSubstr(note));
  fs::remove_all(folder / "runs");

  const Ended trained = run({"train", job.string()});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output, testing::HasSubstr(note));
  const fs::path run_folder = only_run(folder / "runs");
  EXPECT_THAT(read_text(run_folder / "report.html"), testing::HasSubstr(note));
  EXPECT_THAT(read_text(run_folder / "summary.json"), testing::HasSubstr(note));
}

TEST(Compare, TrainsWithSeveralSeeds) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "epochs = 0.1\nseed = 7\n");
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp", "--seeds", "2"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  EXPECT_EQ(std::count(compared.output.begin(), compared.output.end(), '\n'), 6) << compared.output;
  EXPECT_THAT(compared.output, testing::HasSubstr(" ± "));
  const fs::path comparison = fs::directory_iterator(folder / "runs")->path();
  const std::string page = read_text(comparison / "report.html");
  for (const char* part : {"bsp, seed 7", "asp, seed 8", "\"means\""})
    EXPECT_THAT(page, testing::HasSubstr(part));
  const Ended again = run({"report", comparison.string()});
  EXPECT_EQ(again.output, compared.output);

  const Ended lines = run({"compare", "--resume", comparison.string(), "--json"});
  ASSERT_EQ(lines.status, 0) << lines.errors;
  std::set<std::pair<std::string, int>> trained;
  std::istringstream text(lines.output);
  for (std::string line; std::getline(text, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_TRUE(fs::exists(comparison / json.at("folder").get<std::string>() / "journal.sqlite")) << line;
    EXPECT_TRUE(json.at("target").is_null()) << line;
    EXPECT_GT(json.at("summary").at("samples"), 0) << line;
    trained.emplace(json.at("policy"), json.at("seed"));
  }
  EXPECT_EQ(trained, (std::set<std::pair<std::string, int>>{{"asp", 7}, {"asp", 8}, {"bsp", 7}, {"bsp", 8}}));
}

TEST(Compare, GoesOnWhereItStopped) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "epochs = 20\n");
  Program first({"compare", job.string(), "--virtual", "--policies", "bsp,asp,ssp:2"});
  ASSERT_TRUE(first.until_said("2 of 3: "));
  first.signal(SIGINT);
  const Ended stopped = first.wait();
  EXPECT_EQ(stopped.status, 128 + SIGINT) << stopped.errors;
  EXPECT_THAT(stopped.errors, testing::ContainsRegex("2 of 3: asp; about .* left\n"));
  const fs::path comparison = fs::directory_iterator(folder / "runs")->path();
  EXPECT_THAT(stopped.errors,
              testing::HasSubstr("go on with: paceline compare --resume " + comparison.string()));
  fs::remove(job);
  const Ended ended = run({"compare", "--resume", comparison.string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, testing::Not(testing::HasSubstr("1 of 3")));
  EXPECT_THAT(ended.errors, testing::HasSubstr("3 of 3: "));
  for (const char* policy : {"\nbsp  ", "\nasp  ", "\nssp:2  "})
    EXPECT_THAT(ended.output, testing::HasSubstr(policy));
  std::size_t runs = 0;
  for (const auto& entry : fs::directory_iterator(comparison)) runs += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(runs, 3u);
  // All of it is trained: nothing but the table.
  const Ended again = run({"compare", "--resume", comparison.string()});
  EXPECT_EQ(again.output, ended.output);
  EXPECT_THAT(again.errors, testing::Not(testing::HasSubstr(" of 3")));
  EXPECT_EQ(run({"compare", "--resume", (folder / "runs").string()}).status, 2);
}

// With a rate that rises so far that the weights of the next updates are no numbers.
constexpr char kDiverges[] =
    "[optimizer]\nlr = 1e5\n[schedule]\nshape = \"table\"\ntable = [[0.6, 5e-7], [0.6, 1e6]]\n"
    "[evaluate]\nevery_epochs = 0.5\n";

TEST(Compare, APolicyThatDivergesIsAResultAndTheNextOneIsTrained) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "job", "epochs = 1\n", std::string(kDiverges) + "target = \"loss <= 5.5\"\n");
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  for (const char* policy : {"bsp", "asp"}) {
    EXPECT_THAT(compared.errors, testing::HasSubstr(fmt::format("\n{}: version ", policy)));
    EXPECT_THAT(compared.output, testing::HasSubstr(fmt::format("\n{} (diverged)  ", policy)));
    EXPECT_THAT(compared.output,
                testing::HasSubstr(fmt::format("\n{} is not ranked: its training diverged\n", policy)));
  }
  const fs::path comparison = fs::directory_iterator(folder / "job" / "runs")->path();
  const Ended again = run({"compare", "--resume", comparison.string()});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_EQ(again.output, compared.output);
  EXPECT_THAT(again.errors, testing::Not(testing::HasSubstr(" of 2: "))) << "nothing is trained again";
  EXPECT_EQ(run({"report", comparison.string()}).output, compared.output);
  EXPECT_THAT(read_text(comparison / "report.html"), testing::HasSubstr("bsp (diverged)"));
  const Ended lines = run({"compare", "--resume", comparison.string(), "--json"});
  const auto line = nlohmann::json::parse(lines.output.substr(0, lines.output.find('\n')));
  EXPECT_EQ(line.at("summary").at("ending"), "diverged");
}

// A worker's loss or a server's weights end a live run.
TEST(Compare, ALiveRunThatDivergesIsAResultToo) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "job", "epochs = 1\n", kDiverges);
  const Ended compared = run({"compare", job.string(), "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  for (const char* policy : {"\nbsp (diverged)  ", "\nasp (diverged)  "})
    EXPECT_THAT(compared.output, testing::HasSubstr(policy));
}

std::int64_t samples_of(const fs::path& comparison, const std::string& policy) {
  for (const auto& entry : fs::directory_iterator(comparison)) {
    if (!entry.path().string().ends_with("-" + policy)) continue;
    return nlohmann::json::parse(read_text(entry.path() / "summary.json")).at("summary").at("samples");
  }
  ADD_FAILURE() << "no run of " << policy;
  return 0;
}

TEST(Compare, ARunThatEndedAtItsTargetIsNotTrainedOn) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "job", "epochs = 20\n",
                                 "[evaluate]\nevery_epochs = 0.25\ntarget = \"loss <= 5.5\"\n"
                                 "stop_at_target = true\n");
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  const fs::path comparison = fs::directory_iterator(folder / "job" / "runs")->path();
  const std::int64_t before = samples_of(comparison, "bsp");
  ASSERT_LT(before, 20 * kSmallJobSamples) << "it has to end at its target";
  const Ended again = run({"compare", "--resume", comparison.string()});
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.errors, testing::Not(testing::HasSubstr(" of 2: ")));
  EXPECT_EQ(again.output, compared.output);
  EXPECT_EQ(samples_of(comparison, "bsp"), before);
}

TEST(Compare, ARunThatWasStoppedIsMarkedAndItIsOpenWhoIsTheFastest) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "job", "epochs = 20\n", "[evaluate]\ntarget = \"loss <= 5.5\"\n");
  Program first({"compare", job.string(), "--virtual", "--policies", "bsp,asp,ssp:2"});
  ASSERT_TRUE(first.until_said("2 of 3: "));
  const fs::path comparison = fs::directory_iterator(folder / "job" / "runs")->path();
  // So far that there is something to report.
  ASSERT_TRUE(first.until([&] {
    return std::any_of(fs::directory_iterator(comparison), fs::directory_iterator(), [](const auto& entry) {
      std::error_code unknown;
      return entry.path().string().ends_with("-asp") &&
             fs::file_size(entry.path() / "metrics.jsonl", unknown) > 0 && !unknown;
    });
  }));
  first.signal(SIGINT);
  const Ended stopped = first.wait();
  ASSERT_EQ(stopped.status, 128 + SIGINT) << stopped.errors;
  for (const std::string& output : {stopped.output, run({"report", comparison.string()}).output}) {
    EXPECT_THAT(output, testing::ContainsRegex("\nasp \\(unfinished\\) .* – +– +–\n"));
    EXPECT_THAT(output,
                testing::HasSubstr("\n1 of 3 trainings are done, so it is open who is the fastest\n"));
    EXPECT_THAT(output, testing::Not(testing::HasSubstr("bsp *")));
  }
  EXPECT_THAT(read_text(comparison / "report.html"), testing::HasSubstr("asp (unfinished)"));
}

TEST(Compare, ItsFolderMayHaveAQuoteInItsName) {
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), "epochs = 0.1\n");
  const fs::path runs = folder / "3\" disk";
  std::string text = read_text(job);
  const std::string usual = fmt::format("\"{}\"", (folder / "runs").string());
  write_text(job, text.replace(text.find(usual), usual.size(), "'" + runs.string() + "'"));
  const Ended compared = run({"compare", job.string(), "--virtual", "--policies", "bsp,asp"});
  ASSERT_EQ(compared.status, 0) << compared.errors;
  const fs::path comparison = fs::directory_iterator(runs)->path();
  EXPECT_EQ(std::count_if(fs::directory_iterator(comparison), fs::directory_iterator(),
                          [](const auto& entry) { return fs::exists(entry.path() / "job.toml"); }),
            2);
}

TEST(Compare, AsksForSomethingToCompare) {
  const Ended ended = run({"compare"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, testing::HasSubstr("say what to compare, for example --policies "));
}

}  // namespace
}  // namespace paceline::tests
