// Mistakes of a user: each gives one line that names the file, the key and the fix, exit status 2, and leaves
// nothing behind.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  std::string job;                // the whole job file
  std::vector<std::string> says;  // parts of the line
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// Expects one line on standard error, however many lines a message could have had.
void expect_one_line(const Ended& ended, const std::vector<std::string>& parts) {
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
  for (const std::string& part : parts) EXPECT_NE(ended.errors.find(part), std::string::npos) << ended.errors;
}

class BadJob : public testing::TestWithParam<Case> {};

TEST_P(BadJob, IsOneLineAndLeavesNothing) {
  const TempFolder folder;
  const fs::path job = folder / "job.toml";
  write_text(job, fmt::format("runs_dir = \"{}\"\n", (folder / "runs").string()) + GetParam().job);
  expect_one_line(run({"train", job.string()}), GetParam().says);
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadJob,
    testing::Values(
        Case{"broken_toml", "epochs = = 3", {"job.toml:2", "not TOML"}},
        Case{"unknown_key", "epoch = 3", {"job.toml:2", "epoch", "did you mean 'epochs'"}},
        Case{"unknown_key_in_section",
             "[optimizer]\nmomentom = 0.9",
             {"job.toml:3", "optimizer.momentom", "'momentum'"}},
        Case{"key_below_a_table",
             "[model]\nname = \"mlp\"\n[[device]]\ncount = 2\nepochs = 3",
             {"job.toml:6", "device.epochs", "move it above [[device]]"}},
        Case{"wrong_type", "[optimizer]\nlr = \"fast\"", {"job.toml:3", "optimizer.lr", "write a number"}},
        Case{"out_of_range", "batch = 0", {"job.toml:2", "batch", "from 1"}},
        Case{"impossible_dssp",
             "[sync]\npolicy = \"dssp:9-3\"",
             {"job.toml:3", "sync.policy", "write dssp:3-9"}},
        Case{"unknown_policy", "[sync]\npolicy = \"bps\"", {"sync.policy", "'bps'", "bsp"}},
        Case{"local_adam",
             "[optimizer]\nname = \"adam\"\n[sync]\npolicy = \"local-sgd:4\"",
             {"job.toml:5", "sync.policy", "optimizer.name = \"sgd\""}},
        Case{"unknown_model", "[model]\nname = \"resnet21\"", {"model.name", "resnet20"}},
        Case{"both_paces", "[[device]]\npace = \"2x\"\npace_ms = 5", {"device.pace_ms", "not both"}},
        Case{"bad_pace", "[[device]]\npace = \"fast\"", {"device.pace", "3.0x"}},
        Case{"change_of_nobody", "[[change]]\ndevice = 5", {"change.device", "from 0 to 0"}},
        Case{"bad_target", "[evaluate]\ntarget = \"accuracy > 0.5\"", {"evaluate.target", "accuracy >= 0.6"}},
        Case{"no_such_data", "[data]\nsource = \"cifar10:/no/such/folder\"", {"/no/such/folder"}},
        Case{"unknown_data",
             "[data]\nsource = \"imagenet:/tmp\"",
             {"job.toml:3: data.source: ", "'imagenet'", "cifar10:"}},
        Case{"data_like_others",
             "[data]\nsource = \"cifr10:x\"",
             {"job.toml:3: data.source: ", "did you mean \"cifar10:DIR\"?"}},
        Case{"more_samples_than_there_are",
             "[data]\ntrain_samples = 100000",
             {"job.toml:3: data.train_samples", "60000"}},
        Case{"no_such_weights",
             "[model]\nweights = \"/no/such\"",
             {"job.toml:3: model.weights: /no/such: no such file"}},
        Case{"model_does_not_fit",
             "[model]\nname = \"resnet20\"\n[data]\nsource = \"text:/bin/sh\"",
             {"resnet20"}},
        Case{"heads", "[model]\nname = \"gpt-byte\"\nwidth = 30\nheads = 4", {"heads"}},
        Case{"pipelines_of_local_sgd",
             "parallel = \"static\"\nmicro_batch = 1\n[sync]\npolicy = \"local-sgd:2\"\n[[device]]\ncount = "
             "2\n[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]",
             {"job.toml:2", "parallel", "local-sgd"}},
        Case{
            "cuts_beyond_the_model",
            "parallel = \"static\"\nmicro_batch = 1\n[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w0\", "
            "\"w1\"]\ncuts = [99]",
            {"job.toml:8: pipeline.cuts: 99"}},
        Case{"not_a_section", "model = 3", {"model", "[model]"}}),
    [](const auto& one) { return one.param.name; });

TEST(BadInput, MissingJobFile) {
  expect_one_line(run({"train", "/no/such/job.toml"}), {"/no/such/job.toml"});
}

TEST(BadInput, UnknownOption) {
  expect_one_line(run({"train", "--fast"}), {"train has no option --fast; see paceline train --help"});
}

TEST(BadInput, AKeyOfTheJobAsAnOption) {
  expect_one_line(run({"train", "--epochs", "3"}),
                  {"train has no option --epochs; it is a key of the job: write --set epochs=3;"});
  expect_one_line(run({"train", "job.toml", "--train-samples=100"}), {"--set data.train_samples=100;"});
  expect_one_line(run({"compare", "--policies", "bsp", "--lr", "0.1"}), {"--set optimizer.lr=0.1;"});
  expect_one_line(run({"train", "--epochs"}), {"--set epochs=VALUE;"});
  expect_one_line(run({"data", "digits", "there", "--epochs", "3"}), {"data has no option --epochs; see"});
}

TEST(BadInput, AWordTooMany) {
  expect_one_line(run({"train", "job.toml", "extra", "more"}),
                  {"train: 'extra' is one word too many; write paceline train [options] [job]; see paceline "
                   "train --help"});
  expect_one_line(run({"certs", "a", "b"}),
                  {"'b' is one word too many; write paceline certs [options] dir;"});
}

TEST(BadInput, AProgramAsAJobAndAJobAsAProgram) {
  const TempFolder folder;
  write_text(folder / "train.py", "print('hello')\n");
  write_text(folder / "job.toml", "epochs = 1\n");
  const std::string program = (folder / "train.py").string(), job = (folder / "job.toml").string();
  expect_one_line(run({"train", program}), {program + ": is a Python program", "paceline run " + program});
  expect_one_line(run({"run", job}), {job + ": is a job file", "paceline train " + job});
}

TEST(BadInput, WordsAboutAProgramThatNobodyNamed) {
  for (const std::string option : {"--micro-batch", "--threads"})
    expect_one_line(run({"plan", "examples/plan/changing-mix.toml", option, "4"}),
                    {option, "name one, and --cluster"});
  expect_one_line(run({"plan", "examples/plan/changing-mix.toml", "--python", "python3.12"}),
                  {"--python", "name one"});
  expect_one_line(run({"profile", "train.py", "-m", "train"}), {"program", "-m"});
}

TEST(BadInput, LikelyMeant) {
  expect_one_line(run({"trian"}), {"'trian' is not a command", "Did you mean 'train'?"});
  expect_one_line(run({"jump"}), {"'jump' is not a command", "The commands are certs, compare"});
  expect_one_line(run({"compare", "--polices", "bsp"}),
                  {"compare has no option --polices", "Did you mean '--policies'?"});
}

TEST(BadInput, NoSubcommand) { expect_one_line(run({}), {"--help"}); }

TEST(BadInput, AnOptionBeforeItsCommand) {
  expect_one_line(run({"--policy", "cgp", "train"}), {"--policy", "write the command first", "--help"});
  expect_one_line(run({"--verison"}), {"did you mean '--version'?"});
}

TEST(BadInput, AnOptionWithoutItsValue) {
  expect_one_line(run({"train", "--resume"}), {"--resume: needs a value"});
  expect_one_line(run({"simulate", "s.toml", "--policies"}), {"--policies: needs a value"});
}

TEST(BadInput, ANumberThatIsTooSmall) {
  for (const char* seconds : {"-1", "0", "nan", "soon"}) {
    expect_one_line(run({"worker", "--name", "w0", "--coordinator", "127.0.0.1:1", "--patience", seconds}),
                    {"--patience: write a number above 0; see"});
  }
  expect_one_line(run({"train", "--resume", "runs", "--from", "-1"}),
                  {"--from: write a whole number from 0"});
}

TEST(BadInput, ANumberOutOfItsRange) {
  for (const char* seeds : {"0", "101", "x"}) {
    expect_one_line(run({"compare", "--policies", "bsp", "--seeds", seeds}),
                    {"--seeds: write a whole number from 1 to 100; see paceline compare --help"});
  }
}

TEST(BadInput, AnAddressWithoutAPort) {
  const TempFolder folder;
  const Ended ended = run({"ui", folder.path().string(), "--listen", "foo"});
  expect_one_line(ended, {"'foo'", "HOST:PORT"});
  EXPECT_EQ(ended.errors.find("other machines"), std::string::npos) << ended.errors;
}

TEST(BadInput, AFileWhereAFolderBelongs) {
  const TempFolder folder;
  const std::string file = (folder / "file").string();
  write_text(file, "text\n");
  expect_one_line(run({"report", file}), {file + ": is a file"});
  expect_one_line(run({"certs", file}), {file + ": is a file"});
  expect_one_line(run({"ui", file}), {file + ": is a file; name a folder with runs in it"});
}

TEST(BadInput, ARunWhereAComparisonBelongs) {
  const TempFolder folder;
  write_text(folder / "job.toml", "");
  expect_one_line(run({"compare", "--resume", folder.path().string()}),
                  {"is the folder of a run", "paceline train --resume " + folder.path().string()});
}

// The number of hosts comes from the environment, so the error must not name a --set.
TEST(BadInput, MoreHostsThanAJobCanHave) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "");
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "100", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  const Ended ended = run({"node", job.string()});
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
  expect_one_line(ended, {"at most 64 hosts", "100"});
  EXPECT_EQ(ended.errors.find("--set"), std::string::npos) << ended.errors;
}

TEST(BadInput, BadSet) {
  expect_one_line(run({"train", "--set", "optimizer.lr"}), {"--set optimizer.lr", "KEY=VALUE"});
  expect_one_line(run({"train", "--set", "sync.policy=dssp:9-3"}), {"sync.policy", "dssp:3-9"});
  // The file is not to blame.
  const TempFolder folder;
  const fs::path job = folder / "job.toml";
  write_text(job, "epochs = 3\n");
  const Ended ended = run({"train", job.string(), "--set", "optimizer.lr=fast"});
  expect_one_line(ended, {"--set optimizer.lr=fast: write a number"});
  EXPECT_EQ(ended.errors.find("job.toml"), std::string::npos) << ended.errors;
}

TEST(BadInput, BadPolicies) {
  expect_one_line(run({"compare", "--policies", "bsp,ssp"}), {"--policies: ", "'ssp'", "ssp:3"});
  // Their runs would count as seeds of one.
  expect_one_line(run({"compare", "--policies", "bsp,bsp"}), {"'bsp'", "twice"});
  expect_one_line(run({"compare", "--parallel", "data,uneven-data,data"}), {"--parallel", "'data'", "twice"});
  expect_one_line(run({"simulate", "examples/scenarios/static-mix.toml", "--policies", "asp,asp"}),
                  {"--policies: ", "'asp'", "twice"});
}

// The policy is refused before the first one is trained.
TEST(BadInput, ASecondPolicyThatDoesNotFitTheJob) {
  const TempFolder folder;
  const auto job =
      small_job(folder.path(), "epochs = 0.1\n[optimizer]\nname = \"adam\"\n[[device]]\ncount = 2\n");
  for (const auto& [policy, says] :
       {std::pair{"local-sgd:4", "plain SGD"}, std::pair{"backup:2", "backup:1 or less"}})
    expect_one_line(run({"compare", job.string(), "--policies", std::string("bsp,") + policy}),
                    {std::string("job.toml with --policies ") + policy + ": ", says});
  expect_one_line(run({"compare", job.string(), "--policies", "bsp", "--parallel", "data,static"}),
                  {"static"});
  // The second policy says a default, and the file says another value.
  expect_one_line(
      run({"compare", small_job(folder.path(), "[sync]\npatience = 0.3\n").string(), "--policies",
           "bsp,cgp:patience=0.1"}),
      {"job.toml with --policies cgp:patience=0.1", "sync.patience", "say it in one of them only"});
  expect_one_line(run({"simulate", (folder / "s.toml").string(), "--policies", "backup:1"}), {"s.toml"});
  write_text(folder / "s.toml", "[[device]]\n");
  expect_one_line(run({"simulate", (folder / "s.toml").string(), "--policies", "backup:1"}),
                  {"--policies", "backup:0 or less"});
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

// Plain PyTorch takes it, too.
TEST(BadInput, ABatchOfMoreSamplesThanThereAreIsNone) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "epochs = 1");
  const Ended ended = run({"train", job.string(), "--set", "batch=1000000"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_NE(ended.output.find("1,200 of 1,200 samples"), std::string::npos) << ended.output;
}

// Otherwise the last value would win without notice.
TEST(BadInput, OneKeySaidTwice) {
  const std::string says = " say the same key; write one of them";
  expect_one_line(run({"train", "--policy", "bsp", "--set", "sync.policy=asp"}),
                  {"--policy bsp and --set sync.policy=asp" + says});
  expect_one_line(run({"compare", "--policies", "bsp", "--set", "sync.policy=asp"}),
                  {"--policies bsp and --set sync.policy=asp" + says});
  expect_one_line(run({"compare", "--parallel", "data", "--set", "parallel=joint"}),
                  {"--parallel data and --set parallel=joint" + says});
  expect_one_line(run({"run", "hi.py", "--policy", "asp", "--set", "sync.policy=bsp"}),
                  {"--policy asp and --set sync.policy=bsp" + says});
  expect_one_line(run({"run", "hi.py", "--devices", "2", "--set", "device=[{count=3}]"}),
                  {"--devices 2 and --set device=[{count=3}]" + says});
}

// A script whose file was not written would train the default job.
TEST(BadInput, BlankStandardInput) {
  for (const char* text : {"", "\n", "  \n\t\n"})
    expect_one_line(run_in_shell(fmt::format("printf '{}' | $PACELINE train -", text)),
                    {"standard input: is empty; write the file to it"});
}

TEST(BadInput, MoreLiveDevicesThanTheWeightsHaveRoomFor) {
  const TempFolder folder;
  const std::string job = small_job(folder.path(), "epochs = 2\n[[device]]\ncount = 600\n").string();
  expect_one_line(run({"train", "--quiet", job}), {"at most 470 devices", "this one has 600", "--virtual"});
  EXPECT_FALSE(fs::exists(folder / "runs") && !fs::is_empty(folder / "runs"));
  EXPECT_EQ(run({"train", "--quiet", "--virtual", job}).status, 0);
}

TEST(BadInput, CutsThatTheModelDoesNotHave) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "parallel = \"static\"\nmicro_batch = 2\n");
  write_text(job, read_text(job) +
                      "[[device]]\ncount = 2\n[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [500]\n");
  expect_one_line(run({"train", job.string()}), {"pipeline.cuts", "500"});
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST(BadInput, ResumeOfNoRun) {
  const TempFolder folder;
  expect_one_line(run({"train", "--resume", folder.path().string()}), {folder.path().string()});
  write_text(folder / "comparison.json", "{}");
  expect_one_line(run({"train", "--resume", folder.path().string()}),
                  {folder.path().string(), "paceline compare --resume"});
}

// A script passes an empty word if its variable is not set.
TEST(BadInput, EmptyWords) {
  const TempFolder folder;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train", "--resume", ""},
                                             {"train", ""},
                                             {"node", "--resume", ""},
                                             {"node", ""},
                                             {"compare", ""},
                                             {"compare", "", "--policies", "bsp"},
                                             {"simulate", ""},
                                             {"sweep", ""},
                                             {"report", ""},
                                             {"replay", ""}})
    expect_one_line(run(words), {"is empty"});
}

TEST(BadInput, EmptyPaths) {
  for (const char* source : {"mnist:", "cifar10:", "text:"})
    expect_one_line(run({"train", "--set", std::string("data.source=") + source}),
                    {std::string("--set data.source=") + source + ": name a f", "after the colon"});
  expect_one_line(run({"train", "--set", "runs_dir="}), {"runs_dir", "folder"});
  expect_one_line(run({"train", "--virtual", "--set", "runs_dir="}), {"runs_dir", "folder"});
}

// A job whose run folders are in the working directory.
std::string job_of_working_directory(const fs::path& folder, const std::string& runs_dir) {
  const auto job = small_job(folder, "");
  write_text(job, "runs_dir = \"" + runs_dir + "\"\n" + read_text(job).substr(read_text(job).find("batch")));
  return job.string();
}

TEST(BadInput, AFolderWhoseNameIsNoText) {
  const TempFolder folder;
  const std::string job = job_of_working_directory(folder.path(), "runs");
  const std::string cafe = (folder / "caf\xe9").string();
  expect_one_line(run_in_shell(fmt::format("mkdir '{0}' && cd '{0}' && $PACELINE train {1}", cafe, job)),
                  {"/caf?/runs: the name of this folder is not UTF-8", "runs_dir"});
}

TEST(BadInput, ADeletedWorkingDirectory) {
  const TempFolder folder;
  const std::string job = job_of_working_directory(folder.path(), "here");
  const std::string go = "mkdir " + (folder / "gone").string() + " && cd " + (folder / "gone").string() +
                         " && rmdir ../gone && $PACELINE ";
  for (const std::string& words : {"train " + job, "compare --policies bsp " + job}) {
    const Ended ended = run_in_shell(go + words);
    expect_one_line(ended, {"working directory is gone"});
  }
}

TEST(BadInput, TruncatedCifar) {
  const TempFolder folder;
  write_text(folder / "data_batch_1.bin", std::string(3073 * 2 + 5, '\1'));
  write_text(folder / "test_batch.bin", std::string(3073, '\1'));
  const std::string source = "data.source=cifar10:" + folder.path().string();
  expect_one_line(run({"train", "--set", "model.name=cnn", "--set", source}), {"data_batch_1.bin", "3073"});
}

TEST(BadInput, TakenPort) {
  // The test itself listens at the coordinator's address.
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  const TempFolder folder;
  const auto job = small_job(folder.path(), "");
  const Ended ended = run({"train", job.string(), "--set", "network.listen=" + where});
  expect_one_line(ended, {"--set network.listen=" + where + ": cannot listen on", "127.0.0.1:0"});
  EXPECT_FALSE(fs::exists(folder / "runs")) << "a folder was made for nothing";

  Ended compared = run({"compare", job.string(), "--policies", "bsp", "--set", "network.listen=" + where});
  close(taken);
  // The first line names the folder.
  EXPECT_TRUE(compared.errors.starts_with("comparison: ")) << compared.errors;
  compared.errors.erase(0, compared.errors.find('\n') + 1);
  expect_one_line(compared, {"network.listen"});
  EXPECT_TRUE(fs::is_empty(folder / "runs"));
}

TEST(BadInput, MoreServersThanTheModelHasTensors) {
  const TempFolder folder;
  write_text(folder / "data_batch_1.bin", std::string(3073 * 2, '\1'));
  write_text(folder / "test_batch.bin", std::string(3073, '\1'));
  const Ended ended = run({"train", "--set", "model.name=mlp", "--set", "cluster.servers=8", "--set",
                           "batch=2", "--set", "data.source=cifar10:" + folder.path().string(), "--set",
                           "runs_dir=" + (folder / "runs").string()});
  expect_one_line(ended, {"paceline: --set cluster.servers=8: the model has too few tensors for 8 servers"});
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST(BadInput, Scenario) {
  const TempFolder folder;
  write_text(folder / "s.toml", "[[device]]\ncompute = 5\n");
  expect_one_line(run({"simulate", (folder / "s.toml").string()}),
                  {"s.toml:2", "device.compute", "unknown key", "compute_ms"});
  expect_one_line(run({"simulate", (folder / "none.toml").string()}), {"none.toml", "no such file"});
}

TEST(BadInput, AFileOfAnotherKind) {
  const TempFolder folder;
  write_text(folder / "s.toml", "detection_ms = 5\n[[device]]\ncompute_ms = 5\n");
  write_text(folder / "j.toml", "epochs = 3\n");
  write_text(folder / "c.toml", "[[device]]\nspeed = 2\n");
  expect_one_line(run({"train", (folder / "s.toml").string()}),
                  {"s.toml: this is a scenario", "`paceline simulate`"});
  expect_one_line(run({"train", (folder / "c.toml").string()}),
                  {"c.toml: this is a cluster", "`paceline plan`"});
  expect_one_line(run({"simulate", (folder / "j.toml").string()}),
                  {"j.toml: this is a job", "`paceline train`"});
  expect_one_line(run({"train", folder.path().string()}), {"is a folder", "name a job file"});
  const fs::path job = small_job(folder.path(), "epochs = 0.1\n");
  ASSERT_EQ(run({"train", job.string()}).status, 0);
  const std::string run_folder = only_run(folder / "runs").string();
  expect_one_line(run({"train", run_folder}),
                  {"is the folder of a run", "paceline train --resume " + run_folder});
}

TEST(BadInput, AClusterThatEmptiesForGood) {
  const TempFolder folder;
  write_text(folder / "s.toml", "[[device]]\n[[change]]\nat_s = 2.5\nwhat = \"crash\"\n");
  expect_one_line(run({"simulate", (folder / "s.toml").string(), "--policies", "asp"}),
                  {"every replica is gone", "none comes back"});
}

// A test that waits for a program hears that the program has ended.
TEST(BadInput, IsSaidToATestThatWaits) {
  Program train({"train", "no-such-job.toml"});
  const testing::AssertionResult came = train.until([] { return false; });
  EXPECT_FALSE(came);
  const std::string why = came.message();
  EXPECT_NE(why.find("paceline has ended with status 2"), std::string::npos) << why;
  EXPECT_NE(why.find("no-such-job.toml: "), std::string::npos) << why;
  EXPECT_TRUE(train.until([] { return true; })) << "it was done before the end";
}

TEST(BadInput, ReplayOfWhatIsNoRun) {
  const TempFolder folder;
  expect_one_line(run({"replay", folder.path().string()}), {"not a run folder"});
}

TEST(BadInput, AWorkerSaysAtOnceWhatItWaitsFor) {
  const TempFolder folder;
  write_text(folder / "token", std::string(64, 'a') + "\n");
  const std::string nobody = fmt::format("127.0.0.1:{}", free_port());
  Program worker(
      {"server", "--coordinator", nobody, "--token-file", (folder / "token").string(), "--patience", "60"});
  EXPECT_TRUE(worker.until_said("for the coordinator at " + nobody, 20));
}

// The token would go over the network as it is.
TEST(BadInput, ACoordinatorThatOthersReachInTheClear) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "epochs = 0.2\n");
  ASSERT_EQ(run({"train", job.string()}).status, 0);
  expect_one_line(run({"coordinator", only_run(folder / "runs").string(), "--listen", "0.0.0.0:0"}),
                  {"network.listen", "can be reached from other machines", "certs"});
}

TEST(BadInput, ARunThatIsToGoOnAsAnotherOne) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "epochs = 0.2\n[[device]]\n[[device]]\nbatch = 9\n");
  ASSERT_EQ(run({"train", job.string(), "--virtual"}).status, 0);
  const std::string trained = only_run(folder / "runs").string();
  const std::string before = read_text(fs::path(trained) / "job.toml");
  const auto refused = [&](const std::string& set, const std::vector<std::string>& says) {
    expect_one_line(run({"train", "--resume", trained, "--set", "epochs=0.4", "--set", set}), says);
    EXPECT_EQ(read_text(fs::path(trained) / "job.toml"), before);
  };
  refused("seed=7", {"--set seed=7: the run began with 1"});
  refused("optimizer.name=adagrad", {"--set optimizer.name=adagrad: the run began with sgd", "velocity"});
  refused("drop_last=true", {"--set drop_last=true: an epoch of this run has 1200 samples"});
}

TEST(BadInput, DamagedCheckpoint) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "epochs = 0.2\n");
  ASSERT_EQ(run({"train", job.string()}).status, 0);
  const fs::path run_folder = only_run(folder / "runs");
  for (const auto& entry : fs::recursive_directory_iterator(run_folder / "checkpoints")) {
    if (entry.path().filename().string().rfind("weights", 0) != 0) continue;
    std::string bytes = read_text(entry.path());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(entry.path(), bytes);
  }
  const Ended resumed = run({"train", "--resume", run_folder.string(), "--set", "epochs=1.0"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_NE(resumed.errors.find("weights-1-of-1.safetensors"), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.errors.find("damaged"), std::string::npos) << resumed.errors;
}

// The line about a damaged journal promises this.
TEST(BadInput, ARunWithoutItsJournalGoesOn) {
  const TempFolder folder;
  const auto job = small_job(folder.path(), "epochs = 0.2\n");
  ASSERT_EQ(run({"train", job.string()}).status, 0);
  const fs::path run_folder = only_run(folder / "runs");
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(run_folder / (std::string("journal.sqlite") + end));
  const Ended resumed = run({"train", "--resume", run_folder.string(), "--set", "epochs=0.4"});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_TRUE(fs::exists(run_folder / "journal.sqlite"));
}

}  // namespace
}  // namespace paceline::tests
