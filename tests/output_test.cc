// Files that a user asks to be written, and places where that is impossible: no file of the user is harmed,
// and one line says what is wrong.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  Output() { write_text(scenario_, "iterations = 10\n[[device]]\ncount = 2\n"); }

  Ended simulate(const std::string& json) const {
    return run({"simulate", scenario_.string(), "--policies", "bsp", "--json", json});
  }
  static void expect_one_line(const Ended& ended, const std::vector<std::string>& parts) {
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
    for (const std::string& part : parts)
      EXPECT_NE(ended.errors.find(part), std::string::npos) << ended.errors;
  }

  const TempFolder folder_;
  const fs::path scenario_ = folder_ / "scenario.toml";
};

TEST_F(Output, APageOfSimulatedPoliciesSaysWhatWasRunAndIsSmall) {
  const std::string page = (folder_ / "page.html").string();
  const Ended ended = run({"simulate", "examples/scenarios/static-mix.toml", "--policies", "bsp,asp",
                           "--seeds", "5", "--html", page});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const std::string text = read_text(page);
  EXPECT_LT(text.size(), 2'000'000u);
  for (const std::string part :
       {R"(["scenario","examples/scenarios/static-mix.toml"])", R"(["length","20,000 iterations"])",
        R"(["policies","bsp, asp"])", R"(["seeds","1 to 5"])", R"(["command","paceline simulate )",
        R"(["begun","20)", R"(["host",")", R"(["version",")"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(Output, ALinkStaysALink) {
  write_text(folder_ / "behind", "old");
  for (const char* target : {"behind", "new"}) {
    fs::create_symlink(target, folder_ / "link");
    EXPECT_EQ(simulate((folder_ / "link").string()).status, 0);
    EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
    EXPECT_NE(read_text(folder_ / target).find("\"bsp\""), std::string::npos);
    fs::remove(folder_ / "link");
  }
}

TEST_F(Output, APipeIsWrittenTo) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read_back;
  std::thread reader([&] { read_back = read_text(pipe); });
  const Ended ended = simulate(pipe);
  if (!fs::is_fifo(pipe)) {
    reader.detach();
    FAIL() << "the pipe is gone";
  }
  reader.join();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(read_back.find("\"bsp\""), std::string::npos);
}

TEST_F(Output, ADeviceIsNeverReplaced) {
  const std::string full = (folder_ / "full").string();
  if (mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0)
    GTEST_SKIP() << "needs the right to make a device";
  expect_one_line(simulate(full), {full});
  EXPECT_TRUE(fs::is_character_file(full));
}

TEST_F(Output, APlaceThatIsNotThereIsSeenBeforeTheWork) {
  const std::string nowhere = (folder_ / "none/out.json").string();
  fs::remove(scenario_);
  expect_one_line(simulate(nowhere), {nowhere});
  expect_one_line(simulate(folder_.path().string()), {folder_.path().string(), "is a folder"});
  expect_one_line(run({"plan", "none.toml", "--json", nowhere}), {nowhere});
  expect_one_line(run({"plan", "none.toml", "--write-profile", nowhere}), {nowhere});
  expect_one_line(run({"zipline", "none.txt", "--json", nowhere}), {nowhere});
  expect_one_line(run({"sweep", "none.toml", "--json", nowhere}), {nowhere});
}

TEST_F(Output, ALargerOldFileIsReplacedWhole) {
  const std::string file = (folder_ / "out.json").string();
  write_text(file, std::string(100'000, 'x'));
  EXPECT_EQ(simulate(file).status, 0);
  EXPECT_LT(fs::file_size(file), 10'000u);
}

TEST_F(Output, StandardOutputThatIsFull) {
  const std::string simulate_bsp = "$PACELINE simulate " + scenario_.string() + " --policies bsp ";
  for (const std::string& line : {std::string("$PACELINE --version"), std::string("$PACELINE --help"),
                                  simulate_bsp, simulate_bsp + "--json -"})
    expect_one_line(run_in_shell(line + " > /dev/full"), {"standard output", "No space left"});
}

TEST_F(Output, StandardOutputThatIsClosed) {
  expect_one_line(run_in_shell("$PACELINE --version >&-"), {"standard output", "closed"});
  // The first file that a program opens takes the number of a closed stream.
  const fs::path job = small_job(folder_.path(), "epochs = 0.1\n");
  expect_one_line(run_in_shell("$PACELINE train " + job.string() + " >&-"), {"standard output", "closed"});
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

// In a log there are no colors, no bar and no lines of boxes.
TEST_F(Output, OffATerminalThereAreOnlyWords) {
  const std::string job = small_job(folder_.path(), "epochs = 0.1\n").string();
  const Ended trained = run({"train", job});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_NE(trained.errors.find("run: " + only_run(folder_ / "runs").string() + "\n"), std::string::npos)
      << trained.errors;
  EXPECT_NE(trained.output.find(" done: no samples"), std::string::npos) << trained.output;
  const Ended simulated = run({"simulate", scenario_.string(), "--policies", "bsp"});
  for (const std::string& text : {trained.errors, trained.output, simulated.output}) {
    EXPECT_EQ(text.find('\033'), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos) << text;
    for (const char* drawn : {"─", "█", "▌", "▏"}) EXPECT_EQ(text.find(drawn), std::string::npos) << text;
  }
}

TEST_F(Output, QuietSaysTheResultAlone) {
  const Ended ended =
      run({"train", small_job(folder_.path(), "epochs = 0.1\n").string(), "--virtual", "--quiet"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.errors, "");
  EXPECT_NE(ended.output.find("report: "), std::string::npos) << ended.output;
}

// The program reads the job before it becomes the one with libtorch, which needs it too.
TEST_F(Output, AJobFromStandardInput) {
  const std::string job = small_job(folder_.path(), "epochs = 0.1\n").string();
  for (const std::string& line :
       {"cat " + job + " | $PACELINE train - --virtual", "$PACELINE train - --virtual < " + job}) {
    const Ended ended = run_in_shell(line);
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_NE(read_text(only_run(folder_ / "runs") / "job.toml").find("'small'"), std::string::npos);
    fs::remove_all(folder_ / "runs");
  }
  expect_one_line(run_in_shell("echo 'epochs = = 3' | $PACELINE train -"), {"standard input:1", "not TOML"});
  expect_one_line(run_in_shell("$PACELINE train - < /dev/null"), {"standard input: is empty"});
  expect_one_line(run_in_shell("$PACELINE train - <&-"), {"standard input: is closed"});
}

// bash names the pipe of <(…) /dev/fd/63. It can be read once, but a job is read several times.
TEST_F(Output, AJobFromAPipe) {
  const std::string job = small_job(folder_.path(), "epochs = 0.1\n").string();
  for (const std::string virtually : {"", " --virtual"}) {
    const Ended ended = run_in_shell("bash -c '$PACELINE train <(cat " + job + ")" + virtually + "'");
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_NE(read_text(only_run(folder_ / "runs") / "job.toml").find("'small'"), std::string::npos);
    fs::remove_all(folder_ / "runs");
  }
  const Ended times = run_in_shell("bash -c '$PACELINE zipline <(printf \"a:1,2\\nb:2,3\\n\")'");
  EXPECT_EQ(times.status, 0) << times.errors;
  expect_one_line(run_in_shell("bash -c '$PACELINE train <(echo epochs = = 3)'"),
                  {"/dev/fd/", ":1: not TOML"});
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_one_line(run({"train", pipe}), {pipe + ": is a pipe; write - in its place, and < " + pipe});
}

TEST_F(Output, WeightsHaveTheEndingOfTheirFormat) {
  const std::string run_folder = (folder_ / "none").string();
  expect_one_line(run({"export", run_folder, (folder_ / "h.csv").string()}), {"h.csv", "--csv FOLDER"});
  for (const char* name : {"w.foo", "w", "w.pt"})
    expect_one_line(run({"export", run_folder, (folder_ / name).string()}),
                    {name, "a file that ends in .safetensors"});
  const std::string folder = (folder_ / "w.safetensors").string();
  fs::create_directory(folder);
  expect_one_line(run({"export", run_folder, folder}), {folder + ": is a folder, not a regular file; name"});
}

TEST_F(Output, OtherFilesFromStandardInput) {
  const auto ends_alike = [&](const std::string& command, const std::string& file, const std::string& shown) {
    const auto line = [&](const std::string& from, const std::string& to) {
      return "$PACELINE " + command + " " + from + " " + shown + " > " + (folder_ / to).string();
    };
    const Ended ended = run_in_shell(line(file, "a") + " && " + line("- < " + file, "b"));
    EXPECT_EQ(ended.status, 0) << command << ": " << ended.errors;
    EXPECT_FALSE(read_text(folder_ / "a").empty()) << command;
    EXPECT_EQ(read_text(folder_ / "a"), read_text(folder_ / "b")) << command;
  };
  ends_alike("simulate", "examples/scenarios/dssp-two-gpus.toml", "--policies bsp,asp");
  ends_alike("simulate", "examples/plan/slow-link.toml", "");
  ends_alike("plan", "examples/plan/static-mix.toml", "");
  write_text(folder_ / "times", "w1:1,2,3\nw2:1.5,3\n");
  ends_alike("zipline", (folder_ / "times").string(), "| sed 1d");
  // Standard input is read before the program becomes the one with libtorch, and used after.
  const Ended measured = run_in_shell(
      "printf '[model]\nname = \"mlp\"\nsample = [1, 28, 28]\n[[device]]\nname = \"a\"\n' | $PACELINE plan "
      "-");
  EXPECT_EQ(measured.status, 0) << measured.errors;
  for (const std::string command : {"simulate", "plan", "sweep", "zipline"})
    expect_one_line(run_in_shell("$PACELINE " + command + " - < /dev/null"), {"standard input: is empty"});
  expect_one_line(run_in_shell("echo 'a = = 3' | $PACELINE sweep -"), {"standard input:1", "not TOML"});
}

TEST_F(Output, NobodyReadsIsNoError) {
  // `true` ends at once; what is written then finds no reader.
  const Ended ended =
      run_in_shell("{ sleep 0.2; $PACELINE train " + small_job(folder_.path(), "epochs = 0.1\n").string() +
                   " --virtual; echo status $? >&2; } | true");
  EXPECT_NE(ended.errors.find("status 0"), std::string::npos) << ended.errors;
}

TEST_F(Output, AFileThatMayNotGrow) {
  const Ended ended = run_in_shell("ulimit -f 0; $PACELINE simulate " + scenario_.string() +
                                   " --policies bsp --json " + (folder_ / "out.json").string());
  EXPECT_EQ(ended.status, 2) << ended.errors;
  EXPECT_FALSE(fs::exists(folder_ / "out.json"));
}

// The file size limit is checked before anything starts: to the system, shared memory is a file.
TEST_F(Output, TooShortFilesForATrainingAreSaidAtOnce) {
  const fs::path job = small_job(folder_.path(), "epochs = 0.1\n");
  expect_one_line(run_in_shell("ulimit -f 10; $PACELINE train " + job.string()),
                  {"ulimit -f allows", "raise it"});
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

// A disk of its own, of 256 kB: the checkpoint of a run does not fit.
TEST_F(Output, AFullDiskIsOneLineAndLeavesNoHalfCheckpoint) {
  const fs::path job = small_job(folder_.path(), "epochs = 1\n");
  const std::string runs = (folder_ / "runs").string();
  const Ended ended =
      run_in_shell("mkdir " + runs + " && exec unshare --mount sh -c 'mount -t tmpfs -o size=256k none " +
                   runs + " && $PACELINE train --virtual --quiet " + job.string() +
                   "; echo status $?; find " + runs + " -name \"*.partial*\"'");
  if (ended.errors.find("unshare") != std::string::npos || ended.errors.find("mount:") != std::string::npos)
    GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(ended.output, "status 2\n") << ended.errors;
  EXPECT_NE(ended.errors.find("the disk is full"), std::string::npos) << ended.errors;
}

TEST_F(Output, TooLittleMemoryIsOneLine) {
  // The limit is enough to load the program, and too little for the scenario.
  write_text(scenario_, "iterations = 1\n[[device]]\ncount = 1000000\n");
  const Ended ended =
      run_in_shell("ulimit -v 400000; $PACELINE simulate " + scenario_.string() + " --policies bsp");
  expect_one_line(ended, {"out of memory", "ulimit -v"});
}

// Libraries below libtorch would wait for ever.
TEST_F(Output, TooLittleAddressSpaceForLibtorchIsSaidAtOnce) {
  const fs::path job = small_job(folder_.path(), "epochs = 0.1\n");
  expect_one_line(run_in_shell("ulimit -v 600000; $PACELINE train " + job.string()),
                  {"ulimit -v allows", "0.6 GB"});
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace paceline::tests
