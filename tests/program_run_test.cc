// Jobs that train a program of the user's: real processes, a program in plain Python
// (paceline/computing/program/testdata).
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/decisions/policy/testing/every_policy.h"
#include "paceline/records/store/safetensors.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf, ::testing::ContainsRegex;
using ::testing::HasSubstr, ::testing::Not;

const std::string kScript = fs::absolute("paceline/computing/program/testdata/program.py").string();

// `keys` stand before the sections. The program's own words are `args`.
fs::path program_job(const TempFolder& folder, const std::string& keys, const std::string& sections = "",
                     const std::string& args = "") {
  const fs::path job = folder / "job.toml";
  write_text(job, fmt::format(
                      "name = \"program\"\nruns_dir = \"{}\"\n{}\n{}\n[program]\nrun = \"{}\"\nargs = [{}]\n",
                      (folder / "runs").string(), keys, sections, kScript, args));
  return job;
}

std::string devices(int count, int pace_ms = 0) {
  return pace_ms == 0 ? fmt::format("[[device]]\ncount = {}\n", count)
                      : fmt::format("[[device]]\ncount = {}\npace_ms = {}\n", count, pace_ms);
}

fs::path train_to_the_end(const TempFolder& folder, const fs::path& job,
                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"train", job.string()};
  words.insert(words.end(), more.begin(), more.end());
  const Ended ended = run(words);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return only_run(folder / "runs");
}

class Policies : public ::testing::TestWithParam<std::string> {};

// Each sample once, and the same orders again.
TEST_P(Policies, TrainAProgram) {
  const TempFolder folder;
  const fs::path job =
      program_job(folder, "epochs = 1", fmt::format("[sync]\npolicy = \"{}\"\n", GetParam()) + devices(3));
  const fs::path trained = train_to_the_end(folder, job);
  expect_each_sample_once(RecordedRun::read(trained), 1);
  const Ended replayed = run({"replay", trained.string()});
  EXPECT_EQ(replayed.status, 0) << replayed.errors;
}

INSTANTIATE_TEST_SUITE_P(All, Policies,
                         testing::ValuesIn(policy::testing::with_every_policy(
                             {"ssp:3", "dssp:3-15", "elastic-bsp:5", "local-sgd:4", "groups:2+1:ssp:3"})),
                         policy::testing::policy_test_name);

// One server, two, and members that sum among themselves give the same last bit live and in virtual time.
TEST(ProgramRuns, BspEndsInTheSameBytesInAllWorlds) {
  std::vector<std::map<std::string, std::string>> ends;
  for (const char* cluster : {"", "[cluster]\nservers = 2\n", "[cluster]\nreduction = \"group\"\n"}) {
    for (const bool in_virtual_time : {false, true}) {
      const TempFolder folder;
      const fs::path job = program_job(folder, "epochs = 1", devices(2) + cluster);
      ends.push_back(checkpoint_weights(train_to_the_end(
          folder, job,
          in_virtual_time ? std::vector<std::string>{"--virtual"} : std::vector<std::string>{})));
      EXPECT_EQ(ends.back(), ends.front()) << cluster << in_virtual_time;
    }
  }
  EXPECT_FALSE(ends.front().empty());
}

TEST(ProgramRuns, WithoutAJobFileAProgramIsTrainedToo) {
  const TempFolder folder;
  const Ended ended = run({"run", kScript, "--devices", "2", "--policy", "asp", "--set",
                           "runs_dir=" + (folder / "runs").string(), "--set", "epochs=0.5"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("600 of 600 samples"));
}

// Numbers of the program's own reach the journal, the metrics and the report, and one may be the target.
TEST(ProgramRuns, ItsOwnMetricsAreRecorded) {
  for (const bool in_virtual_time : {false, true}) {
    const TempFolder folder;
    // The run ends by its target: an evaluator may come as late as it likes.
    const fs::path job =
        program_job(folder, "epochs = 200",
                    "[evaluate]\ntarget = \"f1 >= 0.5\"\nstop_at_target = true\n" + devices(2, 5));
    const fs::path trained = train_to_the_end(
        folder, job, in_virtual_time ? std::vector<std::string>{"--virtual"} : std::vector<std::string>{});
    const RecordedRun recorded = RecordedRun::read(trained);
    ASSERT_FALSE(recorded.evaluations.empty());
    EXPECT_EQ(recorded.evaluations[0].metrics, (Metrics{{"f1", 0.5}}));
    EXPECT_LT(recorded.evaluations[0].samples, 240'000);
    for (const control::Fact& fact : recorded.facts) {
      const auto* ready = std::get_if<control::ReplicaReady>(&fact.what);
      EXPECT_TRUE(ready == nullptr || ready->metrics.count("seed") == 1);
    }
    EXPECT_THAT(read_text(trained / "metrics.jsonl"), HasSubstr(R"("metrics":{"f1":0.5})"));
    const auto report = nlohmann::json::parse(read_text(trained / "summary.json"));
    const auto& summary = report.at("summary");
    EXPECT_EQ(summary.at("finished_why"), "the target is reached");
    EXPECT_EQ(summary.at("last_evaluation").at("metrics").at("f1"), 0.5);
    EXPECT_GE(summary.at("training_metrics").at("seed"), 0);
  }
}

// Nothing pulls at the last tensor, so that it stays as it began.
TEST(ProgramRuns, ARunBeginsWithTheWeightsOfAFile) {
  for (const bool in_virtual_time : {false, true}) {
    const TempFolder folder;
    const std::vector<float> numbers(20, 5.0f);
    const std::string file = (folder / "begin.safetensors").string();
    const std::vector<store::TensorView> tensors = {
        {"w", {3}, numbers.data()}, {"mean", {1}, numbers.data()}, {"far.b", {20}, numbers.data()}};
    ASSERT_TRUE(store::write_safetensors(file, tensors, {}).ok());
    const fs::path job =
        program_job(folder, "epochs = 0.2", devices(2) + fmt::format("[model]\nweights = \"{}\"\n", file));
    const fs::path trained = train_to_the_end(
        folder, job, in_virtual_time ? std::vector<std::string>{"--virtual"} : std::vector<std::string>{});
    std::string bytes(20 * sizeof(float), '\0');
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    EXPECT_EQ(checkpoint_weights(trained).at("far.b"), bytes);
    // Once there is a checkpoint the file is not needed.
    fs::remove(file);
    const Ended again = run({"train", "--resume", trained.string(), "--set", "epochs=0.3"});
    EXPECT_EQ(again.status, 0) << again.errors;
  }
}

TEST(ProgramRuns, WeightsThatDoNotFitLeaveNoRun) {
  const TempFolder folder;
  const float number = 5;
  const std::string file = (folder / "begin.safetensors").string();
  const std::vector<store::TensorView> tensors = {{"w", {1}, &number}};
  ASSERT_TRUE(store::write_safetensors(file, tensors, {}).ok());
  const Ended ended =
      run({"train", program_job(folder, "", devices(1)).string(), "--set", "model.weights=" + file});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, HasSubstr("tensor 'w' has the shape [1], and [3] in the model"));
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

// The program's settings become the job's, and the job file cannot have other values.
TEST(ProgramRuns, AProgramAndItsJobSayTheSame) {
  const TempFolder folder;
  const fs::path job = program_job(folder, "epochs = 0.1", devices(1));
  const fs::path trained = train_to_the_end(folder, job);
  EXPECT_THAT(read_text(trained / "job.toml"), HasSubstr("batch = 4"));
  const Ended other = run({"train", job.string(), "--set", "optimizer.lr=0.1"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("optimizer.lr is 0.1"));
  EXPECT_THAT(other.errors, HasSubstr("and 0.5 in"));
}

// A run keeps its program's answer, and a program that has changed since does not go on with it. It does not
// go on after its loop either, where it might save its model.
TEST(ProgramRuns, AnotherProgramDoesNotGoOnWithARun) {
  const TempFolder folder;
  const fs::path job = program_job(folder, "epochs = 0.1", devices(2), "\"tells-end\", \"0\"");
  const fs::path script = folder / "program.py";
  const std::string as_it_was = read_text(kScript);
  write_text(script, as_it_was);
  write_text(job, std::regex_replace(read_text(job), std::regex(kScript), script.string()));
  const std::string ends = (folder / "ends").string();
  ASSERT_EQ(setenv("END_FILE", ends.c_str(), 1), 0);
  const fs::path trained = train_to_the_end(folder, job);
  EXPECT_THAT(read_text(ends), HasSubstr("worker done\n"));
  const auto resumed_with = [&](const std::string& was, const std::string& is) {
    fs::remove(ends);
    const std::size_t at = as_it_was.find(was);
    EXPECT_NE(at, std::string::npos) << was;
    write_text(script, std::string(as_it_was).replace(at, was.size(), is));
    const Ended ended = run({"train", "--resume", trained.string(), "--set", "epochs=0.2"});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(read_text(ends), Not(HasSubstr("worker done\n")));
    return ended.errors;
  };
  EXPECT_THAT(resumed_with("\"w\": 3", "\"w\": 4"), HasSubstr("tensor 'w' has shape [3] and not [4]"));
  EXPECT_THAT(resumed_with("1200", "1100"), HasSubstr("the data have 1100 samples, and had 1200"));
  EXPECT_THAT(resumed_with("\"batch\": 4", "\"batch\": 5"),
              HasSubstr("the run began with batch = 4, and " + script.string() +
                        " says 5; say 4 there again, or add --set batch=5"));
  unsetenv("END_FILE");
}

TEST(ProgramRuns, AProgramThatDoesNotStartLeavesNoRun) {
  for (const char* how : {"\"model-exit\"", "\"twice-named\""}) {
    const TempFolder folder;
    const Ended ended = run({"train", program_job(folder, "", devices(2), how).string()});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.errors, HasSubstr("program.py: the program"));
    EXPECT_FALSE(fs::exists(folder / "runs"));
  }
}

std::vector<pid_t> programs_of(pid_t worker) { return children(worker, kScript); }

// The worker watches the program's pid, so it sees the death at once, even if a child of the program keeps
// the socket.
TEST(ProgramRuns, WithoutAProgramThatIsKilledTheOthersGoOn) {
  const TempFolder folder;
  const fs::path job = program_job(folder, "epochs = 3", devices(3, 20));
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const auto programs = programs_of(children(train.pid(), "w1").at(0));
  ASSERT_EQ(programs.size(), 1u);
  kill(programs[0], SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors,
              HasSubstr("w1 was lost (program.py: the program ended (killed by signal 9 (Killed))"));
  const RecordedRun recorded = RecordedRun::read(only_run(folder / "runs"));
  expect_each_sample_once(recorded, 3);
}

TEST(ProgramRuns, AProgramThatRaisesSaysWhere) {
  const TempFolder folder;
  const Ended ended = run({"train", program_job(folder, "", devices(2), "\"error\", \"3\"").string()});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.errors, HasSubstr("train.py:7: ValueError: no"));
}

// A policy would take the end of loading for the time when the weights came.
TEST(ProgramRuns, WeightsThatAreThereBeforeTheSamplesAreNotWaitedFor) {
  const TempFolder folder;
  const auto recorded = RecordedRun::read(train_to_the_end(
      folder, program_job(folder, "epochs = 0.1", devices(2) + "[sync]\npolicy = \"asp\"\n")));
  int first = 0;
  for (const control::Fact& fact : recorded.facts) {
    const auto* ready = std::get_if<control::ReplicaReady>(&fact.what);
    if (ready == nullptr || ready->clock != Clock(1)) continue;
    EXPECT_EQ(ready->pulling, Duration::zero()) << "the first weights are there before anybody is released";
    ++first;
  }
  EXPECT_EQ(first, 2);
}

// Its samples are issued again, and its worker goes on.
TEST(ProgramRuns, AGradientThatIsNotFiniteIsDiscarded) {
  for (const char* options :
       {"", "[cluster]\nservers = 2\nreduction = \"group\"\n", "[sync]\npolicy = \"asp\"\n"}) {
    SCOPED_TRACE(options);
    const TempFolder folder;
    // So slow that the other worker does not do all, and that the command hears of it before the end.
    const fs::path job =
        program_job(folder, "epochs = 2", devices(2, 10) + options, "\"nan\", \"5\", \"w1\"");
    const Ended ended = run({"train", job.string()});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_THAT(ended.errors, HasSubstr("w1: 'w' is not finite in its gradient, at a loss of 2.5 (version "));
    EXPECT_THAT(ended.errors, Not(HasSubstr("was lost")));
    const fs::path trained = only_run(folder / "runs");
    expect_each_sample_once(RecordedRun::read(trained), 2);
    EXPECT_EQ(run({"replay", trained.string()}).status, 0);
  }
}

// The momentum of its worker would stay like that.
TEST(ProgramRuns, AWorkerOfLocalStepsGoesOnAfterAGradientThatIsNotFinite) {
  const TempFolder folder;
  const fs::path job = program_job(
      folder, "epochs = 2", devices(2, 10) + "[sync]\npolicy = \"local-sgd:4\"\n", "\"nan\", \"5\", \"w1\"");
  const Ended ended = run({"train", job.string()});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("w1: 'w' is not finite in its gradient, at a loss of "));
  EXPECT_THAT(ended.errors, Not(HasSubstr("was lost")));
  expect_each_sample_once(RecordedRun::read(only_run(folder / "runs")), 2);
}

TEST(ProgramRuns, AWorkerWhoseGradientsAreNeverFiniteIsGivenUp) {
  const TempFolder folder;
  const fs::path job = program_job(folder, "epochs = 2", devices(3), "\"nan\", \"from 1\", \"w1\"");
  const Ended ended = run({"train", job.string()});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("w1 was lost"));
  // All that it sent, and three at least: the others may need another moment to have done well themselves.
  EXPECT_THAT(ended.errors,
              ContainsRegex("([3-9]|[1-9][0-9]+) of its last [0-9]+ were no good, and none of the others'. "
                            "Look at this machine"));
  expect_each_sample_once(RecordedRun::read(only_run(folder / "runs")), 2);
}

// Nothing that is not finite becomes a checkpoint, and the run says what to try.
TEST(ProgramRuns, ARunWhoseGradientsAreNeverFiniteEndsAndSpoilsNoCheckpoint) {
  for (const char* options :
       {"", "[cluster]\nservers = 2\n", "[cluster]\nreduction = \"group\"\n", "virtual"}) {
    const TempFolder folder;
    const bool in_virtual_time = std::string(options) == "virtual";
    // Asynchronous: a commit is of one gradient. So slow that a checkpoint is whole long before.
    const fs::path job =
        program_job(folder, "epochs = 2",
                    devices(2, 30) + "[checkpoint]\nevery_epochs = 0.05\n" + (in_virtual_time ? "" : options),
                    in_virtual_time ? "\"nan\", \"150\"" : "\"nan\", \"from 200\"");
    std::vector<std::string> words = {"train", job.string()};
    if (in_virtual_time) words.emplace_back("--virtual");
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.errors, HasSubstr(in_virtual_time ? "has weights that are not finite numbers"
                                                        : "the training diverges: the latest "));
    EXPECT_THAT(ended.errors, HasSubstr("lower optimizer.lr"));
    for (const auto& [name, bytes] : checkpoint_weights(only_run(folder / "runs"))) {
      std::vector<float> weights(bytes.size() / sizeof(float));
      std::memcpy(weights.data(), bytes.data(), bytes.size());
      for (const float weight : weights) EXPECT_TRUE(std::isfinite(weight)) << name;
    }
  }
}

// A program may load data for minutes, and a server's death must not cost that.
TEST(ProgramRuns, AServersDeathLeavesProgramsRunning) {
  const TempFolder folder;
  const fs::path job =
      program_job(folder, "epochs = 3", devices(2, 20) + "[checkpoint]\nevery_epochs = 0.1\n");
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "runs"); }));
  const auto before = programs_of(children(train.pid(), "w0").at(0));
  ASSERT_EQ(before.size(), 1u);
  kill(children(train.pid(), "server").at(0), SIGKILL);
  ASSERT_TRUE(train.until_said("and nothing is lost"));
  EXPECT_EQ(programs_of(children(train.pid(), "w0").at(0)), before);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  expect_each_sample_once(RecordedRun::read(only_run(folder / "runs")), 3);
}

// The programs go on after their loops only once: a half-trained model might overwrite a good one.
TEST(ProgramRuns, ARunThatWasStoppedGoesOn) {
  const TempFolder folder;
  const std::string ends = (folder / "ends").string();
  ASSERT_EQ(setenv("END_FILE", ends.c_str(), 1), 0);
  const fs::path job = program_job(folder, "epochs = 2", devices(2, 30), "\"tells-end\", \"0\"");
  {
    Program train({"train", job.string()});
    ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
    train.signal(SIGINT);
    const Ended stopped = train.wait();
    EXPECT_EQ(stopped.status, 130) << stopped.errors;
  }
  EXPECT_THAT(read_text(ends),
              AllOf(HasSubstr("worker failed\n"), Not(ContainsRegex("(worker|evaluator) done"))));
  const fs::path stopped = only_run(folder / "runs");
  const Ended ended = run({"train", "--resume", stopped.string()});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(read_text(ends), AllOf(HasSubstr("worker done\n"), HasSubstr("evaluator done\n")));
  expect_kept_samples_once(stopped, 2);
  unsetenv("END_FILE");
}

// A command that came over the wire is never run.
TEST(ProgramRuns, AWorkerStartsOnlyWhatItsOwnHostNames) {
  const TempFolder folder;
  const fs::path job = program_job(folder, "epochs = 50", devices(2, 50) + "[sync]\npolicy = \"asp\"\n");
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "runs") >= 1; }));
  const pid_t own = children(train.pid(), "w1").at(0);
  std::vector<std::string> words = {"worker", "--name", "w1"};
  const auto reach = reach_of(own);
  words.insert(words.end(), reach.begin(), reach.end());
  kill(own, SIGKILL);
  const fs::path other = folder / "other.toml";
  write_text(other, "epochs = 1\n");
  words.insert(words.end(), {"--job", other.string()});
  const Ended ended = run(words);
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.errors, HasSubstr("has no [program]"));
}

}  // namespace
}  // namespace paceline::tests
