// A real program at the other end: what it computes, and every way in which it can fail.
#include "paceline/computing/program/program_engine.h"

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/exit_reason.h"
#include "paceline/records/store/files.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::program {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool always() { return true; }

StartOptions options(const std::string& how = "", int at_step = 1) {
  StartOptions options;
  options.name = "program.py";
  options.process.command = {"python3", "paceline/computing/program/testdata/program.py", how,
                             std::to_string(at_step)};
  options.start.role = Role::kEvaluator;
  return options;
}

engine::Memory memory_of(const ipc::SharedFloats& floats, bool writable) {
  return {floats.path(), floats.mapping().data(), floats.mapping().size(), 0, writable};
}

// A program with weights and a gradient in shared memory.
class Bench {
 public:
  explicit Bench(const StartOptions& start)
      : engine_(ProgramEngine::start(start).value()),
        weights_(ipc::SharedFloats::create("weights", layout().size()).value()),
        gradient_(ipc::SharedFloats::create("gradient", layout().size()).value()) {
    engine_->share(memory_of(weights_, true));
    engine_->share(memory_of(gradient_, true));
    EXPECT_TRUE(engine_->initial_weights(weights_.floats()).ok());
  }

  absl::StatusOr<engine::StepResult> step(const std::vector<std::int32_t>& samples,
                                          const engine::KeepGoing& keep_going = always) {
    EXPECT_TRUE(engine_->prepare({.samples = samples, .step_seed = 7}).ok());
    const auto pointers = engine::tensor_pointers<const float>(layout(), weights_.floats().data());
    engine::Weights weights(pointers);
    weights.on_card = on_card_;
    return engine_->step(weights, engine::tensor_pointers(layout(), gradient_.floats().data()),
                         engine::kWholeBatch, keep_going);
  }
  // From now on the weights are said to be in a GPU's memory.
  void put_on_card() {
    on_card_ = true;
    engine::Memory board = memory_of(weights_, false);
    board.card = "GPU-1";
    engine_->share(board);
  }
  std::vector<float> of(const ipc::SharedFloats& floats, std::size_t tensor) const {
    const ps::TensorSpec& spec = layout().tensors()[tensor];
    const float* begin = floats.floats().data() + spec.offset;
    return {begin, begin + spec.size};
  }
  std::vector<float> weights(std::size_t tensor) const { return of(weights_, tensor); }
  std::vector<float> gradient(std::size_t tensor) const { return of(gradient_, tensor); }
  const ps::Layout& layout() const { return engine_->layout(); }
  ProgramEngine& engine() { return *engine_; }
  ipc::SharedFloats& weights() { return weights_; }

 private:
  std::unique_ptr<ProgramEngine> engine_;
  ipc::SharedFloats weights_, gradient_;
  bool on_card_ = false;
};

TEST(ProgramEngine, KnowsTheModelOfItsProgram) {
  const auto engine = ProgramEngine::start(options()).value();
  EXPECT_EQ(engine->samples(), 1200);
  ASSERT_EQ(engine->layout().tensors().size(), 3u);
  EXPECT_EQ(engine->layout().tensors()[2].name, "far.b");
  EXPECT_EQ(engine->layout().tensors()[1].kind, ps::TensorKind::kStatistic);
  EXPECT_THAT(engine->model().sets,
              ElementsAre("batch=4", "optimizer.lr=0.5", "optimizer.momentum=0.0", "optimizer.name=\"sgd\""));
}

TEST(ProgramEngine, ComputesOnMemoryOfOurs) {
  Bench bench(options());
  EXPECT_THAT(bench.weights(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(bench.weights(2), ::testing::Each(9));
  const auto result = bench.step({2, 4});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss, 3);
  EXPECT_EQ(result->metrics.at("seed"), 7);
  EXPECT_THAT(bench.gradient(0), ElementsAre(-2, -1, 0));
  EXPECT_THAT(bench.gradient(1), ElementsAre(3));
  bench.weights().floats()[0] = 10;
  ASSERT_TRUE(bench.step({1}).ok());
  EXPECT_THAT(bench.gradient(0), ElementsAre(9, 1, 2));
}

TEST(ProgramEngine, Evaluates) {
  Bench bench(options());
  const auto pointers = engine::tensor_pointers<const float>(bench.layout(), bench.weights().floats().data());
  const auto result = bench.engine().evaluate(pointers, 1, always);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss, 6);
  EXPECT_EQ(result->accuracy, 0.25);
  EXPECT_EQ(result->metrics.at("f1"), 0.5);
}

// Another coordinator comes with other memory, and the program goes on.
TEST(ProgramEngine, MapsOtherMemoryWhileItRuns) {
  Bench bench(options());
  for (int i = 0; i < 3; ++i) {
    auto other = ipc::SharedFloats::create("other", bench.layout().size()).value();
    other.floats()[0] = static_cast<float>(100 * i);
    bench.engine().share(memory_of(other, false));
    const auto pointers = engine::tensor_pointers<const float>(bench.layout(), other.floats().data());
    const auto result = bench.engine().evaluate(pointers, 1, always);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->loss, 100 * i);
    bench.engine().forget(other.mapping().data());
  }
}

TEST(ProgramEngine, AnIterationThatIsGivenUpLeavesTheNextOneWhole) {
  Bench bench(options());
  const auto given_up = bench.step({5}, [] { return false; });
  // The program may have been done before keep_going was asked.
  EXPECT_TRUE(given_up.ok() || absl::IsCancelled(given_up.status())) << given_up.status();
  const auto result = bench.step({8});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss, 8);
}

// The memory of a session that is over goes while the program is busy with an evaluation that nobody wants any more.
TEST(ProgramEngine, ABusyProgramIsNotToldOfMemoryThatGoes) {
  const std::filesystem::path may_end = std::filesystem::path(::testing::TempDir()) / "evaluation-may-end";
  std::filesystem::remove(may_end);
  StartOptions start = options();
  start.process.command = {"python3", "paceline/computing/program/testdata/program.py", "evaluate-late",
                           may_end};
  Bench bench(start);
  const auto evaluate = [&](const ipc::SharedFloats& weights, const engine::KeepGoing& keep_going) {
    const auto pointers = engine::tensor_pointers<const float>(bench.layout(), weights.floats().data());
    return bench.engine().evaluate(pointers, 1, keep_going).status();
  };
  const auto never = [] { return false; };
  EXPECT_TRUE(absl::IsCancelled(evaluate(bench.weights(), never)));
  {
    const auto other = ipc::SharedFloats::create("other", bench.layout().size()).value();
    bench.engine().share(memory_of(other, false));
    EXPECT_TRUE(absl::IsCancelled(evaluate(other, never)));
    bench.engine().forget(other.mapping().data());
  }
  ASSERT_TRUE(store::atomic_write(may_end, "").ok());
  EXPECT_EQ(evaluate(bench.weights(), always), absl::OkStatus());
}

// The program's thread waits for its GPU, and the GPU for the word.
TEST(ProgramEngine, ListsLargeBatchesOnlyOnceAnEarlyStepMayBegin) {
  Bench bench(options("words"));
  bench.put_on_card();
  const auto batch = [](int step) {
    return engine::Batch{.samples = std::vector<std::int32_t>(20000, 100000 + step), .step_seed = 7};
  };
  for (int i = 0; i < 9; ++i) {
    const std::vector<engine::Batch> next = {batch(i), batch(i + 1)};
    bench.engine().expect(next);
    const auto result = bench.step(next.front().samples);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->loss, 100000 + i);
    EXPECT_EQ(result->metrics.at("early"), i < 5 ? 0 : 1);
    EXPECT_EQ(result->metrics.at("expected"), 1);
    EXPECT_THAT(bench.gradient(1), ElementsAre(100000 + i));
  }
}

TEST(ProgramEngine, TellsOfNoMoreBatchesThanALineHasRoomFor) {
  Bench bench(options("words"));
  bench.put_on_card();
  const auto batch = [](int step) {
    return engine::Batch{.samples = std::vector<std::int32_t>(900'000, 2'000'000'000 + step), .step_seed = 7};
  };
  const std::vector<engine::Batch> next = {batch(0), batch(1)};
  ASSERT_EQ(expected_in_a_line(next), 1);
  EXPECT_LT(expect_line(std::span(next).first(1)).size(), kLongestLine);
  EXPECT_GT(expect_line(next).size(), kLongestLine);
  bench.engine().expect(next);
  for (int i = 0; i < 2; ++i) {
    const auto result = bench.step(next.at(i).samples);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->loss, 2'000'000'000 + i);
    EXPECT_EQ(result->metrics.at("expected"), i == 0 ? 1 : 0);
  }
}

TEST(ProgramEngine, ALossThatIsNoNumberIsOne) {
  Bench bench(options("no-number"));
  EXPECT_TRUE(std::isnan(bench.step({1})->loss));
}

TEST(ProgramEngine, AStepMayBeSkipped) {
  Bench bench(options("skip"));
  EXPECT_TRUE(bench.step({1})->skipped);
  EXPECT_FALSE(bench.step({1})->skipped);
}

// A program may import for minutes, and evaluate for minutes.
TEST(ProgramEngine, OnlyAStepHasTheLimitOfAStep) {
  StartOptions slow = options("slow");
  slow.step_limit_s = 4;  // an honest step takes far less, even on a busy machine
  Bench bench(slow);
  const auto pointers = engine::tensor_pointers<const float>(bench.layout(), bench.weights().floats().data());
  EXPECT_TRUE(bench.step({1}).ok());
  EXPECT_TRUE(bench.engine().evaluate(pointers, 1, always).ok());
  EXPECT_TRUE(bench.step({1}).ok());
}

TEST(ProgramEngine, TheLimitOfAStepDoesNotCountATimeInWhichTheWorkerStoodStill) {
  StartOptions hangs = options("hang", 1);
  hangs.step_limit_s = 2;
  Bench bench(hangs);
  const auto begin = steady_clock::now();
  bool stood_still = false;
  const auto stand_still = [&] {
    if (!std::exchange(stood_still, true)) std::this_thread::sleep_for(std::chrono::seconds(3));
    return true;
  };
  EXPECT_FALSE(bench.step({1}, stand_still).ok());
  EXPECT_GT(steady_clock::now() - begin, std::chrono::seconds(5));
}

struct Case {
  const char* how;
  const char* says;
};

class Fails : public ::testing::TestWithParam<Case> {};

// In the first step and in a later one, in one line, in a second; and once it has, it stays so.
TEST_P(Fails, WithOneLine) {
  for (const int at_step : {1, 3}) {
    StartOptions start = options(GetParam().how, at_step);
    start.step_limit_s = std::string(GetParam().how) == "hang" ? 2 : 0;
    Bench bench(start);
    for (int i = 1; i < at_step; ++i) ASSERT_TRUE(bench.step({1}).ok());
    const auto begin = steady_clock::now();
    const absl::Status status = bench.step({1}).status();
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
    EXPECT_FALSE(bench.step({1}).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Program, Fails,
    ::testing::Values(Case{"exit", "ended (exit status 3)"},
                      Case{"leave",
                           "ended (exit status 0) before the job was over; let its loop end by itself"},
                      Case{"die", "killed by signal 11"}, Case{"stop", "stopped by a signal"},
                      Case{"hang", "step_limit_s"}, Case{"rubbish", "not a message"},
                      Case{"early", "out of turn"}, Case{"short", "out of turn"}, Case{"endless", "too long"},
                      Case{"error", "train.py:7: ValueError: no"}, Case{"child", "ended (exit status 4)"}),
    [](const auto& one) { return one.param.how; });

// So its process counts as killed too: another one would most likely not end like that.
TEST(ProgramEngine, AProgramThatWasKilledHasNoErrorOfItsOwn) {
  for (const auto& [how, reason] :
       {std::pair{"kill", ExitReason::kKilled}, std::pair{"die", ExitReason::kOwnError}}) {
    Bench bench(options(how));
    EXPECT_EQ(exit_reason_of(bench.step({1}).status()), reason) << how;
  }
}

// The program is still there for a stage.
TEST(ProgramEngine, AStepWithoutMemoryIsNoEndIfTheJobMayCutTheModel) {
  StartOptions start = options("short", 2);
  start.start.recuts = true;
  Bench bench(start);
  ASSERT_TRUE(bench.step({1}).ok());
  const absl::Status status = bench.step({1}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "train.py:3: no room");
  EXPECT_TRUE(bench.step({1}).ok());
}

TEST(ProgramEngine, OnlyALiveJobThatMayCutTheModelAsksForAStage) {
  const auto recuts = [](const std::string& more, Role role) {
    const auto job = config::parse_job(more + "[program]\nrun = \"train.py\"\n", "job.toml");
    EXPECT_TRUE(job.ok()) << job.status();
    return start_options(*job, role, "w0", 1).start.recuts;
  };
  const std::string joint =
      "parallel = \"joint\"\n[[device]]\ncount = 2\n[[layer]]\ncount = 2\nwork_ms = 1\n";
  EXPECT_TRUE(recuts(joint, Role::kWorker));
  EXPECT_FALSE(recuts(joint, Role::kVirtual));
  EXPECT_FALSE(recuts("", Role::kWorker));
}

TEST(ProgramEngine, ADeathShowsThoughNobodyWaitsForAnAnswer) {
  Bench bench(options("step-and-exit"));
  EXPECT_TRUE(bench.engine().check_alive().ok());
  ASSERT_TRUE(bench.step({1}).ok());
  absl::Status alive;
  const auto until = steady_clock::now() + std::chrono::seconds(60);
  while ((alive = bench.engine().check_alive()).ok() && steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(std::string(alive.message()), HasSubstr("ended (exit status 6)"));
  EXPECT_FALSE(bench.step({1}).ok());
}

TEST(ProgramEngine, SaysWhatIsWrongAtTheStart) {
  StartOptions nowhere = options();
  nowhere.process.command = {"/nowhere/python"};
  EXPECT_EQ(ProgramEngine::start(nowhere).status().code(), absl::StatusCode::kNotFound);
  StartOptions elsewhere = options();
  elsewhere.process.directory = "/nowhere";
  EXPECT_EQ(ProgramEngine::start(elsewhere).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ProgramEngine::start(options("model-exit")).status().message()),
              HasSubstr("exit status 1"));
  StartOptions silent = options();
  silent.process.command = {"python3", "-c", ""};
  EXPECT_EQ(ProgramEngine::start(silent).status().message(),
            "program.py: the program ended (exit status 0) before it said what it trains; a Python program "
            "calls paceline.join()");
  EXPECT_THAT(std::string(ProgramEngine::start(options("twice-named")).status().message()),
              HasSubstr("'w' twice"));
}

TEST(ProgramEngine, WaitsForWhatAProgramDoesAfterTheJob) {
  EXPECT_TRUE(ProgramEngine::start(options()).value()->end(false).ok());
  EXPECT_EQ(ProgramEngine::start(options("fails-after")).value()->end(false).message(),
            "program.py: exit status 5 after the job was over");
  StartOptions stays = options("stays-after");
  stays.after_limit_s = 1;
  EXPECT_EQ(
      ProgramEngine::start(stays).value()->end(false).message(),
      "program.py: it still ran 1 s after the job was over, as program.after_limit_s allows, and is killed");
  // A step that nobody waits for any more may take as long as it likes, and is no fault.
  stays.process.command = options("hang").process.command;
  Bench hangs(stays);
  EXPECT_TRUE(absl::IsCancelled(hangs.step({1}, [] { return false; }).status()));
  EXPECT_TRUE(hangs.engine().end(false).ok());
}

// An answer that nobody waits for any more may come before the error.
TEST(ProgramEngine, SaysWhereAProgramFailedAfterTheJob) {
  EXPECT_EQ(ProgramEngine::start(options("error-after")).value()->end(false).message(),
            "train.py:9: ValueError: no room (after the job was over)");
}

TEST(ProgramEngine, GivesTheLastWeightsToAProgramThatWantsThem) {
  const std::string file = ::testing::TempDir() + fmt::format("paceline-last-{}", getpid());
  for (const char* how : {"takes-last", "tells-end"}) {
    StartOptions wants = options(how);
    wants.process.environment.push_back("END_FILE=" + file);
    Bench bench(wants);
    bench.weights().floats()[1] = 8;
    const auto pointers =
        engine::tensor_pointers<const float>(bench.layout(), bench.weights().floats().data());
    EXPECT_TRUE(bench.engine().take_last(pointers, always).ok());
    EXPECT_TRUE(bench.engine().end(false).ok());
  }
  EXPECT_EQ(*store::read_file(file, 100), "[1.0, 8.0, 3.0]\nevaluator done\n")
      << "the second one did not ask";
  std::filesystem::remove(file);
}

TEST(ProgramEngine, BringsTheStateOfItsOptimizer) {
  EXPECT_EQ(Bench(options()).engine().first_steps(), 0);
  Bench bench(options("has-state"));
  EXPECT_EQ(bench.engine().first_steps(), 7);
  const std::int64_t floats = bench.layout().size();
  auto state = ipc::SharedFloats::create("state", 2 * floats).value();
  bench.engine().share(memory_of(state, true));
  ASSERT_TRUE(bench.engine().first_state(state.floats()).ok());
  const std::int64_t last = bench.layout().tensors()[2].offset;
  const float* const values = state.floats().data();
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[last], 1);
  EXPECT_EQ(values[floats], 1);
  EXPECT_EQ(values[floats + last], 2);
}

// Code after a program's loop may save the model over a good one.
TEST(ProgramEngine, SaysWhetherTheJobIsDone) {
  const std::string file = ::testing::TempDir() + fmt::format("paceline-end-{}", getpid());
  const auto told = [&](Role role, bool end) {
    std::filesystem::remove(file);
    StartOptions tells = options("tells-end");
    tells.process.environment.push_back("END_FILE=" + file);
    tells.start.role = role;
    auto engine = ProgramEngine::start(tells).value();
    EXPECT_TRUE(!end || engine->end(true).ok());
    engine.reset();
    return *store::read_file(file, 100);
  };
  EXPECT_EQ(told(Role::kWorker, true), "worker done first\n");
  EXPECT_EQ(told(Role::kWorker, false), "worker failed\n");
  EXPECT_EQ(told(Role::kEvaluator, false), "evaluator failed\n");
  EXPECT_EQ(told(Role::kProbe, false), "probe done\n") << "it is not asked for more";
  std::filesystem::remove(file);
}

int open_files() {
  int count = 0;
  DIR* all = opendir("/proc/self/fd");
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

TEST(ProgramEngine, LeavesNothingOpen) {
  const int before = open_files();
  { Bench bench(options()); }
  {
    Bench bench(options("exit"));
    EXPECT_FALSE(bench.step({1}).ok());
  }
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace paceline::program
