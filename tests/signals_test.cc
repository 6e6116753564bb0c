// The signals with which clusters warn, SIGUSR1 and SIGUSR2, come to real processes: a checkpoint is written and
// training goes on, or the run stops with one.
#include <signal.h>

#include <fstream>
#include <memory>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr, ::testing::Not;

// The exit status after a signal to the command of another host.
constexpr int kExitOfOthersStop = 75;
constexpr double kEpochs = 2;
const std::string kScript = fs::absolute("paceline/computing/program/testdata/program.py").string();

// Two slow devices; no checkpoint is due before the end, so one that is there earlier was written for a signal.
std::string slow_devices(const std::string& on_signal) {
  const std::string key = on_signal.empty() ? "" : fmt::format("on_signal = \"{}\"\n", on_signal);
  return "[checkpoint]\nevery_epochs = 100\n" + key + "[[device]]\ncount = 2\npace_ms = 60\n";
}

fs::path built_in_job(const TempFolder& folder, const std::string& on_signal = "") {
  const fs::path job = small_job(folder.path(), fmt::format("epochs = {}\n", kEpochs));
  write_text(job, read_text(job) + slow_devices(on_signal));
  return job;
}

fs::path program_job(const TempFolder& folder, const std::string& sections) {
  const fs::path job = folder / "job.toml";
  write_text(job,
             fmt::format("name = \"program\"\nruns_dir = \"{}\"\nepochs = {}\n{}[program]\nrun = \"{}\"\n",
                         (folder / "runs").string(), kEpochs, sections, kScript));
  return job;
}

// The process and all that it started, directly or not.
std::vector<pid_t> family(pid_t first) {
  std::vector<pid_t> all = {first};
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", all[i]));
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
  return all;
}

bool has_handler(pid_t pid, int number) {
  const std::string status = read_text(fmt::format("/proc/{}/status", pid));
  const std::size_t at = status.find("SigCgt:");
  if (at == std::string::npos) return false;
  return (std::stoull(status.substr(at + 7), nullptr, 16) >> (number - 1) & 1) != 0;
}

// The first snapshot may come before the first commit, and its journal's folder is there before both.
void wait_for_commits(Program& train, const fs::path& runs) {
  ASSERT_TRUE(train.until([&] { return metrics_so_far(runs) > 0 && newest_metric(runs, "commits") > 0; }));
}

// A run has another attempt only if a process of a busy machine was silent.
void expect_one_attempt(const fs::path& run_folder) {
  const auto journal = store::JournalReader::open(store::RunPaths{run_folder}.journal());
  ASSERT_TRUE(journal.ok()) << journal.status();
  const std::string log = read_text(run_folder / "logs" / "coordinator.log");
  EXPECT_TRUE(journal->attempts()->size() == 1 || log.find("silent for") != std::string::npos) << log;
}

// The line that says so, whose version is an earlier one than the last, and that version's checkpoint.
void expect_checkpoint_between(const std::string& errors, const std::string& signal, const fs::path& runs) {
  const std::regex line(signal + ": the checkpoint of version ([0-9,]+) is written, and training goes on");
  std::smatch said;
  ASSERT_TRUE(std::regex_search(errors, said, line)) << errors;
  std::string version = said[1];
  std::erase(version, ',');
  expect_one_attempt(only_run(runs));
  EXPECT_LT(std::stoll(version), kept_commits(only_run(runs)).commits.back().second.version.value());
  EXPECT_TRUE(fs::exists(only_run(runs) / "checkpoints" / fmt::format("v{:012}", std::stoll(version))));
  expect_kept_samples_once(only_run(runs), kEpochs);
}

void expect_signal_writes_checkpoint(const TempFolder& folder, const fs::path& job) {
  const fs::path runs = folder / "runs";
  Program train({"train", job.string()});
  wait_for_commits(train, runs);
  for (const pid_t pid : family(train.pid())) kill(pid, SIGUSR1);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, Not(HasSubstr("was lost")));
  expect_checkpoint_between(ended.errors, "SIGUSR1", runs);
}

TEST(WarningSignals, WriteACheckpointIfEveryProcessOfARunGetsThem) {
  const TempFolder folder;
  expect_signal_writes_checkpoint(folder, built_in_job(folder));
}

TEST(WarningSignals, DoNotEndTheProgramsOfARun) {
  const TempFolder folder;
  expect_signal_writes_checkpoint(folder, program_job(folder, slow_devices("")));
}

// A command that becomes the program once the file `go` is there. Until then `asked` is there.
std::string waiting_program(const TempFolder& folder) {
  const fs::path waits = folder / "waits.sh";
  write_text(waits, fmt::format("#!/bin/sh\ntouch '{0}/asked'\nwhile [ ! -e '{0}/go' ]; do sleep 0.05; done\n"
                                "exec python3 '{1}'\n",
                                folder.path().string(), kScript));
  fs::permissions(waits, fs::perms::owner_all);
  return waits.string();
}

// While the command asks the program, neither of them ends.
TEST(WarningSignals, BeforeTrainingBeginsWriteTheFirstVersions) {
  const TempFolder folder;
  const fs::path job = program_job(folder, slow_devices(""));
  Program train({"train", job.string(), "--set", "program.run=" + waiting_program(folder)});
  ASSERT_TRUE(train.until([&] { return fs::exists(folder / "asked"); }));
  for (const pid_t pid : family(train.pid())) kill(pid, SIGUSR2);
  write_text(folder / "go", "");
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  expect_checkpoint_between(ended.errors, "SIGUSR2", folder / "runs");
}

bool is_running(pid_t pid) {
  std::ifstream words(fmt::format("/proc/{}/cmdline", pid));
  return words.get() != EOF;  // a process that has ended has none
}

// A program may have started processes of its own before it joins.
TEST(StopSignals, EndTheProcessesOfAProgramThatIsAsked) {
  for (const int number : {SIGINT, SIGTERM}) {
    const TempFolder folder;
    const fs::path asked = folder / "asked.sh";
    write_text(asked, fmt::format("#!/bin/sh\nsleep 1000 &\necho $! > '{0}/new'\nmv '{0}/new' '{0}/helper'\n"
                                  "wait\n",
                                  folder.path().string()));
    fs::permissions(asked, fs::perms::owner_all);
    Program train({"train", program_job(folder, "").string(), "--set", "program.run=" + asked.string()});
    ASSERT_TRUE(train.until([&] { return fs::exists(folder / "helper"); }));
    const pid_t helper = std::stoi(read_text(folder / "helper"));
    EXPECT_TRUE(eventually([&] { return is_running(helper); }));  // in the middle of an exec it has no words either
    train.signal(number);
    const Ended ended = train.wait();
    EXPECT_EQ(ended.status, 128 + number) << ended.errors;
    EXPECT_EQ(ended.errors, "paceline: stopped before anything was trained\n");
    EXPECT_TRUE(eventually([&] { return !is_running(helper); }));  // a kill is over before its process is
    kill(helper, SIGKILL);
  }
}

// exec() keeps both, for example if a Python program becomes `paceline run`.
TEST(StopSignals, ComeEvenIfTheStarterBlocksThemAndIgnoresTheEndsOfChildren) {
  const TempFolder folder;
  Program train({"train", built_in_job(folder).string()}, [] {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    return ::signal(SIGCHLD, SIG_IGN) != SIG_ERR && sigprocmask(SIG_BLOCK, &stops, nullptr) == 0;
  });
  wait_for_commits(train, folder / "runs");
  train.signal(SIGTERM);
  const Ended stopped = train.wait();
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.errors;
}

// A second warning does not end the run at once, as a second Ctrl-C does.
TEST(WarningSignals, StopTheRunIfTheJobSaysSo) {
  for (const bool of_program : {false, true}) {
    const TempFolder folder;
    Program train({"train", of_program ? program_job(folder, slow_devices("stop")).string()
                                       : built_in_job(folder, "stop").string()});
    wait_for_commits(train, folder / "runs");
    for (const pid_t pid : family(train.pid())) kill(pid, SIGUSR1);
    ASSERT_TRUE(train.until_said("stopping"));
    train.signal(SIGUSR1);
    const Ended stopped = train.wait();
    EXPECT_EQ(stopped.status, 128 + SIGUSR1) << stopped.errors;
    EXPECT_THAT(stopped.errors, HasSubstr("SIGUSR1 came, and checkpoint.on_signal is \"stop\""));
    EXPECT_THAT(stopped.errors, HasSubstr("resume with: paceline train --resume"));
    const fs::path trained = only_run(folder / "runs");
    const Ended ended = run({"train", "--resume", trained.string()});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    expect_kept_samples_once(trained, kEpochs);
  }
}

TEST(WarningSignals, DoNothingIfTheJobSaysSo) {
  const TempFolder folder;
  Program train({"train", built_in_job(folder, "ignore").string()});
  wait_for_commits(train, folder / "runs");
  for (const pid_t pid : family(train.pid())) kill(pid, SIGUSR1);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, Not(HasSubstr("SIGUSR1")));
  expect_one_attempt(only_run(folder / "runs"));
  expect_kept_samples_once(only_run(folder / "runs"), kEpochs);
}

TEST(WarningSignals, AreAnsweredInVirtualTime) {
  for (const std::string on_signal : {"write", "stop"}) {
    const TempFolder folder;
    Program train({"train", program_job(folder, slow_devices(on_signal)).string(), "--virtual", "--set",
                   "program.run=" + waiting_program(folder)});
    ASSERT_TRUE(
        train.until([&] { return fs::exists(folder / "asked") && has_handler(train.pid(), SIGUSR1); }));
    for (const pid_t pid : family(train.pid())) kill(pid, SIGUSR1);
    write_text(folder / "go", "");
    const Ended ended = train.wait();
    const bool stops = on_signal == "stop";
    EXPECT_EQ(ended.status, stops ? 128 + SIGUSR1 : 0) << ended.errors;
    EXPECT_THAT(ended.errors,
                HasSubstr(stops ? "stopping with a checkpoint" : "SIGUSR1: the checkpoint of version "));
    if (!stops) expect_each_sample_once(RecordedRun::read(only_run(folder / "runs")), kEpochs);
  }
}

// With links, the commit of a version is ordered before its weights are made. The signal comes before training, so it is
// answered at version 1; a run of one commit ends with these weights.
TEST(WarningSignals, InVirtualTimeWriteTheWeightsOfTheirVersion) {
  const TempFolder folder, other;
  const auto words = [](const fs::path& job, const std::string& program, const std::string& epochs) {
    return std::vector<std::string>{"train",
                                    job.string(),
                                    "--virtual",
                                    "--set",
                                    "link.gbps=0.01",
                                    "--set",
                                    "epochs=" + epochs,
                                    "--set",
                                    "program.run=" + program};
  };
  const fs::path job = program_job(folder, "[checkpoint]\nevery_epochs = 100\n");
  Program train(words(job, waiting_program(folder), "0.1"));
  ASSERT_TRUE(train.until([&] { return fs::exists(folder / "asked") && has_handler(train.pid(), SIGUSR1); }));
  kill(train.pid(), SIGUSR1);
  write_text(folder / "go", "");
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("SIGUSR1: the checkpoint of version 1 is written"));
  const fs::path trained = only_run(folder / "runs");
  EXPECT_GT(fs::remove_all(trained / "checkpoints" / "v000000000030"), 0u) << "the last version";

  EXPECT_EQ(run(words(program_job(other, ""), kScript, "0.0034")).status, 0);
  EXPECT_EQ(checkpoint_weights(trained), checkpoint_weights(only_run(other / "runs")));
}

// Two hosts on one disk.
class WarningSignalsOfHosts : public ::testing::Test {
 protected:
  void start(const std::string& on_signal) {
    if (!fs::exists(folder_ / "certs")) {
      ASSERT_EQ(run({"certs", (folder_ / "certs").string(), "--job", "small"}).status, 0);
    }
    const fs::path job = built_in_job(folder_, on_signal);
    write_text(job, read_text(job) + fmt::format("[network]\nlisten = \"127.0.0.1:{}\"\ncerts = \"{}\"\n",
                                                 port_, (folder_ / "certs" / "small").string()));
    for (const int rank : {1, 0}) {
      at(rank) = std::make_unique<Program>(std::vector<std::string>{
          "node", job.string(), "--rank", std::to_string(rank), "--hosts", "2", "--coordinator",
          fmt::format("127.0.0.1:{}", port_), "--set", "cluster.shared_folder=true"});
    }
    wait_for_commits(*at(0), runs_);
  }
  void warn(int rank) {
    for (const pid_t pid : family(at(rank)->pid())) kill(pid, SIGUSR1);
  }
  std::unique_ptr<Program>& at(int rank) { return hosts_[rank]; }

  TempFolder folder_;
  const fs::path runs_ = folder_ / "runs";
  const int port_ = free_port();
  std::unique_ptr<Program> hosts_[2];
};

TEST_F(WarningSignalsOfHosts, ToAFurtherHostWriteACheckpoint) {
  start("write");
  warn(1);
  std::string errors;
  for (const int rank : {0, 1}) {
    const Ended ended = at(rank)->wait();
    EXPECT_EQ(ended.status, 0) << ended.errors;
    errors += ended.errors;
  }
  expect_checkpoint_between(errors, "SIGUSR1", runs_);
}

// Slurm signals all tasks of a step, and starts them again if the job is requeued.
TEST_F(WarningSignalsOfHosts, StopAllHostsAndTheSameCommandsGoOn) {
  start("stop");
  for (const int rank : {1, 0}) warn(rank);
  for (const int rank : {0, 1}) {
    const Ended ended = at(rank)->wait();
    EXPECT_THAT(ended.status, ::testing::AnyOf(128 + SIGUSR1, kExitOfOthersStop)) << ended.errors;
  }
  const fs::path stopped = only_run(runs_);
  start("stop");
  for (const int rank : {0, 1}) {
    const Ended ended = at(rank)->wait();
    EXPECT_EQ(ended.status, 0) << ended.errors;
  }
  EXPECT_EQ(only_run(runs_), stopped);
  expect_kept_samples_once(stopped, kEpochs);
}

}  // namespace
}  // namespace paceline::tests
