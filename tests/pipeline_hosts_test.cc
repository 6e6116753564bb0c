// Pipelines whose stages are on several hosts, each host played by processes of its own that share no memory
// with the others': the same bytes as on one, and a device that is lost is lost to its own replica alone.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/rng.h"
#include "paceline/base/text_hash.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

fs::path trained(const fs::path& job, const fs::path& runs, const std::vector<std::string>& sets) {
  std::vector<std::string> words = {"train", job.string(), "--set", "runs_dir=" + runs.string()};
  for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
  const Ended ended = run(words);
  EXPECT_EQ(ended.status, 0) << ended.errors;
  return only_run(runs);
}

void expect_alike(const fs::path& one, const fs::path& other) {
  ASSERT_FALSE(checkpoint_weights(one).empty());
  EXPECT_EQ(checkpoint_weights(other), checkpoint_weights(one));
  EXPECT_EQ(RecordedRun::read(other).commit_losses(), RecordedRun::read(one).commit_losses());
}

std::vector<std::string> over(const std::string& links) {
  if (links == "sealed") return {};
  return {"cluster.seal=false", "cluster.fabric=" + links};
}

constexpr char kStatic[] = "parallel = \"static\"\nmicro_batch = 3\n";

struct Cut {
  const char* what;
  int hosts;  // the devices are spread evenly over them
  int devices;
  const char* cuts;   // cuts of gpt-byte
  const char* links;  // carrier of the links
};
void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.what; }

// Pipelines whose first stages are on different hosts, so that sums run in the same order as on one.
const Cut kCuts[] = {
    {"one over two hosts, in the clear", 2, 2, "[{devices=[\"w1\",\"w0\"],cuts=[1],samples=16}]", "ucx"},
    {"one there and back", 2, 4, "[{devices=[\"w0\",\"w2\",\"w1\",\"w3\"],cuts=[1,2,3],samples=16}]",
     "sealed"},
    {"one whose gradient comes of two stages of another host", 2, 3,
     "[{devices=[\"w2\",\"w0\",\"w1\"],cuts=[1,3],samples=16}]", "tcp"},
    {"two over three hosts", 3, 6,
     "[{devices=[\"w0\",\"w1\",\"w2\",\"w4\"],cuts=[1,2,3],samples=16},{devices=[\"w5\",\"w3\"],cuts=[2],"
     "samples=7}]",
     "tcp"},
    {"one whose stages are shared by devices of both hosts", 2, 4,
     "[{devices=[[\"w0\",\"w1\"],[\"w3\",\"w2\"]],cuts=[2],samples=16}]", "sealed"},
    {"one whose stages are shared by two and three devices of three hosts", 3, 6,
     "[{devices=[\"w2\",[\"w0\",\"w3\"],[\"w1\",\"w4\",\"w5\"]],cuts=[1,3],samples=16}]", "ucx"},
};

class PipelineOverHosts : public testing::TestWithParam<Cut> {};

TEST_P(PipelineOverHosts, TrainsToTheBytesOfOneHost) {
  const Cut& cut = GetParam();
  const TempFolder folder;
  const fs::path job = small_job(folder.path(), std::string("epochs = 0.5\n") + kStatic);
  const std::vector<std::string> sets = {fmt::format("device=[{{count={}}}]", cut.devices),
                                         std::string("pipeline=") + cut.cuts};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sets.begin(), sets.end());
    return more;
  };
  const fs::path one = trained(job, folder / "one", with({fmt::format("cluster.servers={}", cut.hosts)}));
  std::vector<std::string> on_several = over(cut.links);
  on_several.push_back(fmt::format("cluster.hosts={}", cut.hosts));
  const fs::path several = trained(job, folder / "several", with(on_several));
  expect_alike(one, several);
  EXPECT_EQ(run({"replay", several.string()}).status, 0);
}

INSTANTIATE_TEST_SUITE_P(Cuts, PipelineOverHosts, testing::ValuesIn(kCuts));

// Real images, through a network of matrices, and one of convolutions with batch norm.
class ImagesOverHosts : public testing::TestWithParam<const char*> {};

TEST_P(ImagesOverHosts, TrainToTheBytesOfOneHost) {
  const std::string data = "../shared/data/mnist";
  if (!fs::exists(data)) GTEST_SKIP() << data << " is not here";
  const TempFolder folder;
  write_text(folder / "job.toml",
             fmt::format("batch = 16\nparallel = \"static\"\nmicro_batch = 4\nepochs = 1\n"
                         "[model]\nname = \"{}\"\nwidth = 64\n"
                         "[data]\nsource = \"mnist:{}\"\ntrain_samples = 320\ntest_samples = 100\n"
                         "[optimizer]\nlr = 0.02\n[[device]]\ncount = 6\n"
                         "[[pipeline]]\ndevices = [\"w0\", \"w2\", \"w4\"]\ncuts = [2, 4]\nsamples = 16\n"
                         "[[pipeline]]\ndevices = [\"w5\", \"w3\", \"w1\"]\ncuts = [1, 3]\nsamples = 16\n",
                         GetParam(), data));
  const fs::path one = trained(folder / "job.toml", folder / "one", {"cluster.servers=3"});
  expect_alike(one, trained(folder / "job.toml", folder / "several", {"cluster.hosts=3"}));
}

INSTANTIATE_TEST_SUITE_P(Models, ImagesOverHosts, testing::Values("mlp", "resnet20"));

// A pipeline over two hosts, one over three, and a device alone.
constexpr char kMixed[] =
    "[[device]]\npace_ms = 20\nhost = 0\n[[device]]\npace_ms = 20\nhost = 1\n"
    "[[device]]\npace_ms = 20\nhost = 2\n[[device]]\npace_ms = 20\nhost = 0\n"
    "[[device]]\npace_ms = 20\nhost = 1\n[[device]]\npace_ms = 50\nhost = 2\n"
    "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\nsamples = 12\n"
    "[[pipeline]]\ndevices = [\"w2\", \"w3\", \"w4\"]\ncuts = [1, 3]\nsamples = 16\n"
    "[[pipeline]]\ndevices = [\"w5\"]\nsamples = 4\n";

struct Killed {
  const char* policy;
  const char* victim;  // a stage of the pipeline of three
  int signal;
  const char* links;  // carrier of the links
};

void PrintTo(const Killed& one, std::ostream* out) { *out << one.policy << ", " << one.victim; }

class StageOfAnotherHost : public testing::TestWithParam<Killed> {};

TEST_P(StageOfAnotherHost, ThatIsLostEndsItsReplicaAlone) {
  const Killed& kill_it = GetParam();
  const std::string victim = kill_it.victim;
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 6\n") + kStatic,
                                 fmt::format("[evaluate]\nevery_epochs = 6\n[sync]\npolicy = \"{}\"\n"
                                             "[cluster]\nhosts = 3\n{}",
                                             kill_it.policy, kMixed));
  std::vector<std::string> words = {"train", job.string()};
  for (const std::string& set : over(kill_it.links)) words.insert(words.end(), {"--set", set});
  Program train(words);
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  Rng rng(text_hash(victim + kill_it.policy));
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(30'000)));
  const auto workers = children(train.pid(), "worker");
  kill(children(train.pid(), victim).at(0), kill_it.signal);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;

  const RecordedRun recorded = RecordedRun::read(only_run(folder / "run" / "runs"));
  expect_kept_samples_once(only_run(folder / "run" / "runs"), 6);
  EXPECT_THAT(expect_one_left(recorded, ReplicaId(1)),
              HasSubstr(fmt::format("stage {}, {}: ", victim[1] - '2', victim)));
  for (const pid_t pid : workers) EXPECT_TRUE(eventually([&] { return kill(pid, 0) != 0; })) << pid;
}

INSTANTIATE_TEST_SUITE_P(Cases, StageOfAnotherHost,
                         testing::Values(Killed{"bsp", "w2", SIGKILL, "sealed"},
                                         Killed{"cgp:k_min=2", "w4", SIGKILL, "ucx"},
                                         Killed{"ssp:3", "w3", SIGSTOP, "tcp"}));

class PoliciesOverHosts : public testing::TestWithParam<const char*> {};

TEST_P(PoliciesOverHosts, TrainOnEachSampleOnceAndAreReplayed) {
  const TempFolder folder;
  const fs::path job =
      write_job(folder, "run", std::string("epochs = 0.5\n") + kStatic,
                fmt::format("[cluster]\nhosts = 3\n[sync]\npolicy = \"{}\"\n{}", GetParam(), kMixed));
  const fs::path run_folder = trained(job, folder / "runs", {});
  expect_kept_samples_once(run_folder, 0.5);
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, PoliciesOverHosts, testing::Values("dssp:1-4"));

TEST(PipelineOverHostsThat, LosesAStageIsFormedAgainOverNewLinks) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 200\n") + kStatic,
                                 std::string("[cluster]\nhosts = 3\n") + kMixed);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  const pid_t victim = children(train.pid(), "w3").at(0);
  std::vector<std::string> worker = worker_beside(victim, "w3");
  kill(victim, SIGKILL);
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const auto replicas_live = [&] { return newest_metric(folder / "run" / "runs", "replicas_live"); };
  ASSERT_TRUE(train.until([&] { return replicas_live() == 2; }));
  const Ended without = run(worker);
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.errors, HasSubstr("this worker has no --address"));
  worker.insert(worker.end(), {"--address", "127.0.0.1"});
  Program again(worker);
  EXPECT_TRUE(again.until([&] { return replicas_live() == 3; }));
  train.signal(SIGTERM);
  EXPECT_EQ(train.wait().status, 128 + SIGTERM);
  EXPECT_EQ(again.wait().status, 0);
  expect_no_sample_twice(RecordedRun::read(run_folder));
  ASSERT_EQ(run({"export", run_folder.string(), "--csv", (folder / "tables").string()}).status, 0);
  const std::string links = read_text(folder / "tables" / "links.csv");
  EXPECT_THAT(links, ContainsRegex("\nw[0-9],w[0-9],activations,[1-9]"));
  EXPECT_THAT(links, ContainsRegex("\nw[0-9],w[0-9],gradients,[1-9]")) << "of a stage for its first one";
}

// The connections of that process to all but the coordinator.
std::vector<FileDescriptor> links_of(pid_t process) {
  const auto reach = reach_of(process);
  const std::string& coordinator = *(std::find(reach.begin(), reach.end(), "--coordinator") + 1);
  const int coordinators = std::stoi(coordinator.substr(coordinator.rfind(':') + 1));
  const FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  std::vector<FileDescriptor> links;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process))) {
    const int number = std::stoi(entry.path().filename().string());
    FileDescriptor socket(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) == coordinators) continue;
    links.push_back(std::move(socket));
  }
  return links;
}

// All processes are well, so only the two ends of a link can notice.
TEST(PipelineOverHostsThat, LosesItsLinksIsFormedAgain) {
  const TempFolder folder;
  const fs::path job = write_job(folder, "run", std::string("epochs = 8\n") + kStatic,
                                 std::string("[cluster]\nhosts = 3\n") + kMixed);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  // After a commit all links have been open. A link that ends before that is only tried again.
  ASSERT_TRUE(train.until([&] { return newest_metric(folder / "run" / "runs", "commits") >= 1; }));
  // The links are one to w3, and two for gradients. They end like links of a network that fails.
  const pid_t w2 = children(train.pid(), "w2").at(0);
  ASSERT_TRUE(train.until([&] { return links_of(w2).size() == 3; }));
  for (const FileDescriptor& link : links_of(w2)) EXPECT_EQ(shutdown(link.get(), SHUT_RDWR), 0);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const RecordedRun recorded = RecordedRun::read(run_folder);
  expect_kept_samples_once(run_folder, 8);
  std::vector<std::string> joined, left;
  for (const control::Fact& fact : recorded.facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) joined.push_back(one->name);
    if (const auto* one = std::get_if<control::ReplicaLeft>(&fact.what)) left.push_back(one->why);
  }
  EXPECT_EQ(std::count(joined.begin(), joined.end(), "w2+w3+w4"), 2 + (std::ssize(left) - 1));
  EXPECT_GE(left.size(), 1u);
  std::string logs;
  for (const char* name : {"w2", "w3", "w4"})
    logs += read_text(run_folder / "logs" / (std::string(name) + ".log"));
  EXPECT_THAT(logs, HasSubstr("another device of the replica is out of reach: "));
  EXPECT_THAT(logs, HasSubstr("; coming again"));
}

// Its stages lose their links as well, and all come again.
TEST(PipelineOverHostsThat, LosesAServerGoesBackToItsCheckpoint) {
  const TempFolder folder;
  const std::string sections =
      "[checkpoint]\nevery_epochs = 0.3\n[cluster]\nhosts = 2\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [2]\nsamples = 16\n[[device]]\ncount = 2\n";
  const std::string keys = std::string("epochs = 1\n") + kStatic;
  const fs::path whole = trained(write_job(folder, "whole", keys, sections), folder / "whole_runs", {});
  // So slow that it is not over when the first checkpoint is seen.
  Program train({"train", write_job(folder, "broken", keys, sections + "pace_ms = 60\n").string()});
  ASSERT_TRUE(train.until([&] { return has_checkpoint(folder / "broken" / "runs"); }));
  kill(children(train.pid(), "server").at(1), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, HasSubstr("going on from the checkpoint"));
  EXPECT_EQ(checkpoint_weights(only_run(folder / "broken" / "runs")), checkpoint_weights(whole));
}

// A device holds one of four units, and a host has three of them or two.
constexpr char kUnits[] =
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n"
    "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";

std::vector<std::string> names_joined(const RecordedRun& recorded) {
  std::vector<std::string> names;
  for (const control::Fact& fact : recorded.facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) names.push_back(one->name);
  }
  return names;
}

TEST(JointOverHosts, FormsPipelinesOfTheirDevicesAndPlansAroundOneThatIsKilled) {
  const TempFolder folder;
  // Micro-batches of 4 are too small to measure a link by.
  const fs::path job = write_job(folder, "run", "parallel = \"joint\"\nmicro_batch = 8\nepochs = 6\n",
                                 std::string("[cluster]\nhosts = 2\n[[device]]\ncount = 5\nbatch = 8\n"
                                             "pace_ms = 24\nmemory_mb = 0.3\n") +
                                     kUnits);
  Program train({"train", job.string()});
  ASSERT_TRUE(train.until([&] { return metrics_so_far(folder / "run" / "runs") >= 1; }));
  // Training begins with four of them; the fifth one, which is needed without w1, may still be on its way.
  for (const char* name : {"w0", "w2", "w3", "w4"}) {
    const std::string maps = fmt::format("/proc/{}/maps", children(train.pid(), name).at(0));
    ASSERT_TRUE(train.until([&] { return read_text(maps).find("paceline-weights") != std::string::npos; }));
  }
  kill(children(train.pid(), "w1").at(0), SIGKILL);
  const Ended ended = train.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  const fs::path run_folder = only_run(folder / "run" / "runs");
  const RecordedRun recorded = RecordedRun::read(run_folder);
  expect_kept_samples_once(run_folder, 6);
  const auto names = names_joined(recorded);
  EXPECT_GE(std::count(names.front().begin(), names.front().end(), '+'), 3) << names.front();
  for (const char* left : {"w0", "w2", "w3", "w4"}) EXPECT_THAT(names.back(), HasSubstr(left));
  EXPECT_THAT(read_text(run_folder / "logs" / "coordinator.log"), HasSubstr("re-planned: "));
  std::set<std::pair<HostPlace, HostPlace>> measured;
  for (const control::Fact& fact : recorded.facts) {
    const auto* link = std::get_if<control::LinkMeasured>(&fact.what);
    if (link == nullptr || link->shared) continue;
    measured.emplace(link->from, link->to);
    EXPECT_GT(link->bytes, 4096) << "all that is timed";
    EXPECT_LT(link->took, from_seconds(10));
  }
  EXPECT_EQ(measured.size(), 2u) << "the way from either host to the other";
  EXPECT_EQ(run({"replay", run_folder.string()}).status, 0);
}

}  // namespace
}  // namespace paceline::tests
