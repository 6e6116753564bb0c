// `paceline node`: hosts that find each other, as several processes of this machine that share no parent, and
// as network namespaces if those are permitted. The hosts have certificates, and launchers' environment
// variables give the ranks.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/namespaces.h"
#include "tests/http_get.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;

// The exit status after a signal to the command of another host.
constexpr int kExitOfOthersStop = 75;

void expect_said(const std::string& text, const std::string& what) {
  EXPECT_NE(text.find(what), std::string::npos) << "not said: " << what << "\nbut: " << text;
}

// So slow that two epochs take nine seconds: a checkpoint is seen only when the disk has it, which may take
// long, and the run is not to be over then.
constexpr char kTwoDevices[] = "[[device]]\ncount = 2\npace_ms = 60\n";

// Jobs of three hosts have a patience of 8 s: a host that is still there starts its processes again while the
// lost one is waited for, which takes seconds on a loaded machine.
class Node : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"certs", (folder_ / "certs").string(), "--job", "small"}).status, 0);
  }

  fs::path job(const std::string& top, const std::string& tables, double checkpoint_epochs = 0.2) {
    const fs::path file = small_job(folder_.path(), top);
    write_text(file, read_text(file) + fmt::format("[network]\nlisten = \"{}:{}\"\ncerts = \"{}\"\n"
                                                   "[checkpoint]\nevery_epochs = {}\n{}",
                                                   ipv6_ ? "[::]" : "0.0.0.0", port_,
                                                   (folder_ / "certs" / "small").string(), checkpoint_epochs,
                                                   tables));
    return file;
  }

  // Starts one more host of a job, at this machine's own addresses.
  std::unique_ptr<Program> host(const fs::path& job, int rank, int hosts,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "node",    job.string(),          "--rank",        std::to_string(rank),
        "--hosts", std::to_string(hosts), "--coordinator", fmt::format("{}:{}", first_address(), port_)};
    words.insert(words.end(), more.begin(), more.end());
    const auto set = [&](const std::string& key) { words.insert(words.end(), {"--set", key}); };
    if (!own_disks_) set("cluster.shared_folder=true");
    if (own_disks_ && rank > 0) set("runs_dir=" + disk(rank).string());
    if (!apart_) return std::make_unique<Program>(words);
    return std::make_unique<Program>(words, [this, rank] { return apart_->enter(rank); });
  }

  // Gives hosts networks of their own from now on. Errors: why that is impossible.
  absl::Status set_apart(int hosts) {
    auto made = testing::Namespaces::create(hosts);
    if (made.ok()) apart_.emplace(*std::move(made));
    return made.status();
  }

  // All hosts of the job, which are killed with the test.
  void start(const fs::path& job, int hosts) {
    job_ = job;
    hosts_.resize(static_cast<std::size_t>(hosts));
    for (int rank = hosts - 1; rank >= 0; --rank) start_host(rank);
  }
  void start_host(int rank) { at(rank) = host(job_, rank, static_cast<int>(hosts_.size()), more_); }
  void start_and_wait_for_checkpoint(const fs::path& job, int hosts) {
    start(job, hosts);
    ASSERT_TRUE(at(0)->until([&] { return has_checkpoint(); }));
  }
  // A run of three devices whose hosts keep the weights twice; has commits that only they have, and for a
  // while no checkpoint is due.
  void start_and_wait_for_commit(const std::string& cluster, int hosts, int epochs = 6) {
    start(job(fmt::format("epochs = {}\n", epochs),
              "[cluster]\ncopies = 2\n" + cluster + "[[device]]\ncount = 3\npace_ms = 30\n", 1),
          hosts);
    ASSERT_TRUE(at(0)->until([&] { return has_commit_after_checkpoint(runs_); }));
  }
  void kill_host(int rank) {
    at(rank)->signal(SIGKILL);
    at(rank)->wait();
  }
  std::unique_ptr<Program>& at(int rank) { return hosts_[static_cast<std::size_t>(rank)]; }

  // Waits for the host, which has to end with status 0.
  Ended end_of(int rank) {
    Ended ended = at(rank)->wait();
    EXPECT_EQ(ended.status, 0) << "host " << rank << ": " << ended.errors;
    return ended;
  }

  // Waits for the host after the command of another one was stopped.
  Ended end_of_stopped(int rank) {
    Ended ended = at(rank)->wait();
    EXPECT_EQ(ended.status, kExitOfOthersStop) << "host " << rank << ": " << ended.errors;
    return ended;
  }

  // Whether the host keeps a copy of the run.
  bool is_kept(int rank) const {
    std::error_code error;
    for (auto one = fs::directory_iterator(disk(rank), error); !error && one != fs::directory_iterator();
         ++one) {
      if (fs::exists(one->path() / "mark")) return true;
    }
    return false;
  }
  // Whether the host took over, reached nobody, and waits for the host that led before.
  bool waits_for_leader(int rank) {
    return at(rank)->until_said("1 of the 3 hosts that the run had can be reached: ");
  }
  fs::path disk(int rank) const { return folder_ / fmt::format("disk{}", rank); }
  bool has_checkpoint() const { return tests::has_checkpoint(runs_); }
  fs::path run_folder() const { return only_run(runs_); }
  // Every sample that counts was committed once, and a replay gives the same orders.
  void expect_whole(double epochs) const {
    expect_kept_samples_once(run_folder(), epochs);
    expect_replayed();
  }
  void expect_replayed() const { EXPECT_EQ(run({"replay", run_folder().string()}).status, 0); }

  // The late host was given up for good. Returns the end of the leader, which is stopped here.
  Ended expect_given_up(int rank, int leader) {
    start_host(rank);
    const Ended late = at(rank)->wait();
    EXPECT_EQ(late.status, 2);
    expect_said(late.errors, " was given up, and the run goes on without it\n");
    Ended ended = expect_goes_on_until_stopped(*at(leader), runs_);
    expect_replayed();
    return ended;
  }

  std::string first_address() const {
    if (ipv6_) return "[" + apart_->ipv6_address(0) + "]";
    return apart_ ? apart_->address(0) : "127.0.0.1";
  }

  const TempFolder folder_;
  const int port_ = free_port();
  std::optional<testing::Namespaces> apart_;  // set if hosts have networks of their own
  bool ipv6_ = false;                         // the hosts call each other by IPv6 addresses
  bool own_disks_ = false;                    // one for each host; else all hosts share one
  fs::path runs_ = folder_ / "runs";          // on the host that leads
  fs::path job_;
  std::vector<std::string> more_;                // words for every host
  std::vector<std::unique_ptr<Program>> hosts_;  // indexed by rank
};

// The others need not see the first host's disk if that has all that is needed.
class NodeDisks : public Node, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Node::SetUp();
    own_disks_ = GetParam();
  }
  // No part of the run is on other disks, except their own hosts' logs.
  ~NodeDisks() override {
    for (int rank = 1; own_disks_ && rank < static_cast<int>(hosts_.size()); ++rank)
      EXPECT_FALSE(tests::has_checkpoint(disk(rank)));
  }
};
INSTANTIATE_TEST_SUITE_P(Disks, NodeDisks, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "OfTheirOwn" : "Shared"; });

TEST_P(NodeDisks, FourHostsTrainOneJob) {
  if (const auto made = set_apart(4); !made.ok()) GTEST_SKIP() << made.message();
  start(job("epochs = 1\n", "[[device]]\ncount = 5\npace_ms = 10\n"), 4);
  for (const int rank : {0, 1, 2, 3}) end_of(rank);
  expect_kept_samples_once(run_folder(), 1);
  EXPECT_TRUE(has_checkpoint());
  expect_replayed();
}

// Its server is gone and with it a part of the weights; the run waits for it and goes on from the checkpoint.
TEST_P(NodeDisks, AHostThatDiesAndComesBackIsWaitedFor) {
  start_and_wait_for_checkpoint(job("epochs = 2\n", kTwoDevices), 2);
  kill_host(1);
  start_host(1);
  expect_said(end_of(0).errors, "going on from");
  end_of(1);
  expect_kept_samples_once(run_folder(), 2);
}

// The others wait for the host, and then go on without it. When it is back, it hears that it was given up.
TEST_P(NodeDisks, AHostThatStaysAwayIsGivenUp) {
  start_and_wait_for_checkpoint(
      job("epochs = 200\n", "[cluster]\nhost_patience_s = 8\n[[device]]\ncount = 3\npace_ms = 30\n"), 3);
  kill_host(1);
  const fs::path log = run_folder() / "logs" / "coordinator.log";
  ASSERT_TRUE(at(0)->until([&] { return read_text(log).find("did not come back") != std::string::npos; }));
  expect_said(expect_given_up(1, 0).errors,
              "host 1 did not come back within 8 s; going on without it; going on from ");
  end_of_stopped(2);
}

// A device holds three of four units: what is left are two that have to be a pipeline over their hosts.
TEST_P(NodeDisks, APlannedRunIsPlannedAnewWithoutAHost) {
  std::string tables =
      "[cluster]\nhost_patience_s = 8\n[[device]]\ncount = 3\npace_ms = 30\nmemory_mb = 0.7\n";
  for (int unit = 0; unit < 4; ++unit)
    tables += "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";
  start_and_wait_for_checkpoint(job("epochs = 2\nparallel = \"joint\"\nmicro_batch = 4\n", tables), 3);
  kill_host(1);
  for (const int rank : {0, 2}) end_of(rank);
  std::string joined;
  for (const control::Fact& fact : RecordedRun::read(run_folder()).facts) {
    if (const auto* one = std::get_if<control::ReplicaJoined>(&fact.what)) joined = one->name;
  }
  EXPECT_TRUE(joined == "w0+w2" || joined == "w2+w0") << joined;
  expect_whole(2);
}

TEST_P(NodeDisks, ARunGoesOnWithFewerHosts) {
  const fs::path file = job("epochs = 1\n", "[[device]]\ncount = 3\npace_ms = 90\n");
  start_and_wait_for_checkpoint(file, 3);
  for (const int rank : {2, 0, 1}) kill_host(rank);
  const auto second = host(file, 1, 2);
  Program first({"node", "--resume", run_folder().string(), "--rank", "0", "--hosts", "2", "--coordinator",
                 fmt::format("127.0.0.1:{}", port_), "--set", "cluster.hosts=2"});
  const Ended ended = first.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(second->wait().status, 0);
  expect_kept_samples_once(run_folder(), 1);
}

// Each host has a network of its own, joined by a bridge: the others are reached only over TLS and sealed
// links. A server dies besides; the run ends in the bytes of one undisturbed host.
class NodesApart : public Node, public ::testing::WithParamInterface<std::tuple<const char*, bool>> {};

TEST_P(NodesApart, EndInTheBytesOfOneHost) {
  if (const auto made = set_apart(2); !made.ok()) GTEST_SKIP() << made.message();
  const auto& [replicas, own_disks] = GetParam();
  own_disks_ = own_disks;
  const fs::path file = job(std::string("epochs = 2\nthreads = 1\n") + replicas, kTwoDevices);
  start_and_wait_for_checkpoint(file, 2);
  kill(children(at(1)->pid(), "server").at(0), SIGKILL);
  expect_said(end_of(0).errors, "going on from the checkpoint");
  end_of(1);
  const fs::path alone = folder_ / "alone";
  const Ended one =
      run({"train", file.string(), "--set", "runs_dir=" + alone.string(), "--set", "cluster.servers=2",
           "--set", "network.listen=127.0.0.1:0", "--set", "device=[{count=2}]"});
  ASSERT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(checkpoint_weights(run_folder()), checkpoint_weights(only_run(alone)));
}

INSTANTIATE_TEST_SUITE_P(
    Replicas, NodesApart,
    ::testing::Combine(
        ::testing::Values("",
                          "parallel = \"static\"\nmicro_batch = 4\n"
                          "pipeline = [{devices = [\"w1\", \"w0\"], cuts = [2], samples = 16}]\n"),
        ::testing::Bool()));

// An init system would start it again like this. All processes of the first host die with it, and the second
// one waits.
TEST_P(NodeDisks, AFirstHostThatIsKilledTakesItsRunUpAgain) {
  start_and_wait_for_checkpoint(job("epochs = 2\n", kTwoDevices), 2);
  kill_host(0);
  start_host(0);
  expect_said(end_of(0).errors, "which was cut short; --new begins another run");
  end_of(1);
  EXPECT_FALSE(fs::exists(run_folder() / "mark"));
  expect_kept_samples_once(run_folder(), 2);
  // A run that ended in order is not taken up again.
  start(job_, 2);
  const Ended after = end_of(0);
  EXPECT_EQ(after.errors.find("was cut short"), std::string::npos) << after.errors;
}

// The next host has the coordinator and the evaluator from then on, and in the end says what was trained. The
// one after it finds it there, at another address. All addresses are those of IPv6; other tests have the
// older ones.
TEST_F(Node, AFirstHostThatStaysAwayIsSucceeded) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  ipv6_ = true;
  start_and_wait_for_checkpoint(
      job("epochs = 200\n", "[cluster]\nhost_patience_s = 8\n[[device]]\ncount = 3\npace_ms = 30\n"), 3);
  kill_host(0);
  const std::string before = read_text(run_folder() / "metrics.jsonl");
  ASSERT_TRUE(at(1)->until([&] { return !children(at(1)->pid(), "evaluator").empty(); }));
  EXPECT_TRUE(at(1)->until([&] {
    const std::string metrics = read_text(run_folder() / "metrics.jsonl");
    return metrics.find("\"kind\":\"evaluation\"", before.size()) != std::string::npos;
  }));
  const Ended ended = expect_given_up(0, 1);
  expect_said(ended.errors, "host 0 did not come back; this one leads the run");
  expect_said(ended.output, "report: ");
  expect_said(end_of_stopped(2).errors, "host 1 leads the run, from [fd77::2]:");
  EXPECT_FALSE(fs::exists(run_folder() / "mark"));
}

// A pipeline that the job's author wrote has a stage on the first host: no other one can lead the run, which
// waits for that host then.
TEST_F(Node, AFirstHostThatIsNeededIsWaitedFor) {
  start_and_wait_for_checkpoint(job("epochs = 2\nparallel = \"static\"\nmicro_batch = 4\n"
                                    "pipeline = [{devices = [\"w0\", \"w1\"], cuts = [2], samples = 16}]\n",
                                    std::string("[cluster]\nhost_patience_s = 2\n") + kTwoDevices),
                                2);
  kill_host(0);
  std::string log;
  ASSERT_TRUE(at(1)->until([&] {
    log = at(1)->errors_so_far();
    return log.find("and this one cannot lead the run: ") != std::string::npos;
  }));
  expect_said(log, "cannot lead the run: job.toml");
  start_host(0);
  expect_said(end_of(0).errors, "which was cut short");
  end_of(1);
  expect_whole(2);
}

// The last device cannot hold the model.
TEST_F(Node, ARunThatFailsIsAFailureOnEveryHost) {
  std::string tables =
      "[cluster]\nhost_patience_s = 2\n[[device]]\ncount = 2\npace_ms = 30\nmemory_mb = 0.7\n";
  for (int unit = 0; unit < 4; ++unit)
    tables += "[[layer]]\nwork_ms = 1\nparameter_kb = 100\noutput_kb = 1\n";
  start_and_wait_for_checkpoint(job("epochs = 50\nparallel = \"joint\"\nmicro_batch = 4\n", tables), 2);
  kill(children(at(1)->pid(), "w1").at(0), SIGKILL);
  for (const int rank : {0, 1}) {
    const Ended ended = at(rank)->wait();
    EXPECT_EQ(ended.status, 2) << rank;
    expect_said(ended.errors, "the devices that are left cannot go on");
  }
}

// A host that comes back finds the host that leads the run by now. The leader takes the run up again itself.
TEST_F(Node, HostsComeBackToTheOneThatLeads) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  start_and_wait_for_checkpoint(
      job("epochs = 4\n", "[cluster]\nhost_patience_s = 8\n[[device]]\ncount = 3\npace_ms = 30\n"), 3);
  kill_host(0);
  ASSERT_TRUE(at(1)->until([&] { return !children(at(1)->pid(), "evaluator").empty(); }));
  for (const int rank : {2, 1}) {
    kill_host(rank);
    start_host(rank);
  }
  start_host(0);
  expect_said(end_of(1).errors, "which was cut short");
  for (const int rank : {2, 0}) end_of(rank);
  expect_whole(4);
}

// Down to one host, with no coordinator but its own in the end.
TEST_F(Node, TheLastHostTrainsOnAlone) {
  const int monitor = free_port();
  more_ = {"--ui"};
  start_and_wait_for_checkpoint(
      job("epochs = 4\n", fmt::format("[cluster]\nhost_patience_s = 8\n[monitor]\nlisten = \"127.0.0.1:{}\"\n"
                                      "[[device]]\ncount = 3\npace_ms = 30\n",
                                      monitor)),
      3);
  ASSERT_NE(http_get(monitor, "/metrics"), "") << "host 0 has what watches the run";
  EXPECT_EQ(at(2)->errors_so_far().find("watch: "), std::string::npos);
  for (const int rank : {0, 1}) kill_host(rank);
  EXPECT_TRUE(at(2)->until([&] {
    return http_get(monitor, "/metrics").find("paceline_commits_total") != std::string::npos;
  })) << "it did not come with the lead";
  expect_said(end_of(2).errors, "watch: http://127.0.0.1:");
  expect_whole(4);
}

// Hosts that share a disk or none, and keep the weights twice: then the next host has all that it needs to
// lead.
class NodeLead : public Node, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Node::SetUp();
    own_disks_ = GetParam();
  }
  // The leading host is gone, and its disk with it if that is its own.
  void lose_leader(int rank) {
    if (own_disks_) {
      ASSERT_TRUE(at(rank)->until([&] { return is_kept(rank + 1); }));
    }
    kill_host(rank);
    if (!own_disks_) return;
    fs::remove_all(runs_);
    runs_ = disk(rank + 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Disks, NodeLead, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "OfTheirOwn" : "Shared"; });

// The lead goes from one host to the next, until the last one is alone.
TEST_P(NodeLead, GoesFromHostToHost) {
  start_and_wait_for_commit("host_patience_s = 8\n", 3, 6);
  for (const int rank : {0, 1}) {
    lose_leader(rank);
    ASSERT_TRUE(at(rank + 1)->until([&] { return !children(at(rank + 1)->pid(), "evaluator").empty(); }));
    const std::int64_t before = newest_metric(runs_, "commits");
    ASSERT_TRUE(at(rank + 1)->until([&] { return newest_metric(runs_, "commits") > before + 3; }));
  }
  expect_said(end_of(2).output, " 0 commits lost");
  expect_whole(6);
}

// The host cannot know that it is the one that was cut off, but it knows that it is alone. The others go on without
// it, and tell it so once it reaches them again.
TEST_F(Node, AHostThatIsCutOffLeadsNoRunOfItsOwn) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 8\n", 3, 200);
  ASSERT_TRUE(apart_->set_link(1, false));
  ASSERT_TRUE(waits_for_leader(1));
  ASSERT_TRUE(apart_->set_link(1, true));
  const Ended cut_off = at(1)->wait();
  EXPECT_EQ(cut_off.status, 2);
  expect_said(cut_off.errors, " was given up, and the run goes on without it\n");
  expect_goes_on_until_stopped(*at(0), runs_);
  end_of_stopped(2);
  expect_replayed();
}

// The leader dies while another host is cut off, so the third one reaches nobody. Its server has the only copy of a part of
// the newest version, and the run goes on from there when the others are back.
TEST_F(Node, AHostThatIsLeftAloneWaitsForTheLeader) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 20\n", 3, 6);
  ASSERT_TRUE(at(0)->until([&] { return is_kept(1); }));
  ASSERT_TRUE(apart_->set_link(2, false));
  kill_host(0);
  ASSERT_TRUE(waits_for_leader(1));
  start_host(0);
  // Before that, host 2 could find host 1 leading once more, and both would go on without host 0.
  ASSERT_TRUE(at(0)->until_said("starting: 2 of 3 workers are here"));
  ASSERT_TRUE(apart_->set_link(2, true));
  expect_said(end_of(0).errors, "the servers still had version ");
  for (const int rank : {1, 2}) end_of(rank);
  expect_whole(6);
}

// The first host comes back while the next one takes over, so neither has seen that the other one leads.
TEST_F(Node, AHostThatTakesOverGivesWayToTheFirstOneIfThatComesBackMeanwhile) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 20\n", 3, 6);
  ASSERT_TRUE(at(0)->until([&] { return is_kept(1); }));
  ASSERT_TRUE(apart_->set_link(2, false));  // host 1 cannot train without it
  kill_host(0);
  ASSERT_TRUE(at(1)->until([&] { return !children(at(1)->pid(), "evaluator").empty(); }));
  ASSERT_TRUE(fs::remove(run_folder() / "next_leader"));  // else host 0 asks host 1 first
  start_host(0);
  ASSERT_TRUE(at(1)->until_said("another host leads the run; waiting for the host that led before, at "));
  ASSERT_TRUE(at(0)->until_said("starting: 2 of 3 workers are here"));
  ASSERT_TRUE(apart_->set_link(2, true));
  expect_said(end_of(0).errors, "the servers still had version ");
  for (const int rank : {1, 2}) end_of(rank);
  expect_whole(6);
}

// The greatest name in that folder.
std::string newest_in(const fs::path& folder) {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(folder))
    newest = std::max(newest, entry.path().filename().string());
  return newest;
}

// The other host has all weights of a later version.
TEST_F(Node, ACheckpointThatWasChosenCountsMoreThanLaterWeightsOfServers) {
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 300\n", 2, 4);
  kill_host(0);
  const std::string version = std::to_string(std::stoll(newest_in(run_folder() / "checkpoints").substr(1)));
  Program first({"node", "--resume", run_folder().string(), "--from", version, "--rank", "0", "--hosts", "2",
                 "--coordinator", fmt::format("127.0.0.1:{}", port_)});
  const Ended ended = first.wait();
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(ended.errors.find("the servers still had version"), std::string::npos) << ended.errors;
  EXPECT_EQ(ended.output.find(" 0 commits lost"), std::string::npos) << ended.output;
  end_of(1);
  expect_whole(4);
}

// Neither of two hosts knows which one is cut off, so both go on. Then the first one's run is taken up with
// both: what the other one made meanwhile does no harm, and is not lost.
TEST_F(Node, OneOfTwoHalvesIsTakenUp) {
  if (const auto made = set_apart(2); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 2\n", 2, 200);
  ASSERT_TRUE(apart_->set_link(1, false));
  const auto goes_on_alone = [&](int rank) {
    return children(at(rank)->pid(), "coordinator").size() + children(at(rank)->pid(), "evaluator").size() ==
           2;
  };
  ASSERT_TRUE(at(1)->until([&] { return goes_on_alone(1); }));
  for (const fs::path& runs : {runs_, disk(1)}) {
    const fs::path checkpoints = only_run(runs) / "checkpoints";
    const std::string before = newest_in(checkpoints);
    EXPECT_TRUE(at(runs == runs_ ? 0 : 1)->until([&] { return newest_in(checkpoints) > before; })) << runs;
  }
  const auto stop = [&](int rank) {
    at(rank)->signal(SIGINT);
    EXPECT_EQ(at(rank)->wait().status, 128 + SIGINT);
  };
  stop(1);
  const fs::path other_half = disk(1) / run_folder().filename();
  const std::string other_newest = newest_in(other_half / "checkpoints");
  // Names alone do not tell that the other one's newest checkpoint is of another history.
  EXPECT_TRUE(at(0)->until([&] { return newest_in(run_folder() / "checkpoints") > other_newest; }));
  stop(0);
  ASSERT_TRUE(apart_->set_link(1, true));
  start_host(1);
  at(0) = std::make_unique<Program>(
      std::vector<std::string>{"node", "--resume", run_folder().string(), "--rank", "0", "--hosts", "2",
                               "--coordinator", fmt::format("{}:{}", first_address(), port_)},
      [this] { return apart_->enter(0); });
  EXPECT_TRUE(at(0)->until([&] { return fs::exists(other_half / "journal.sqlite.set-aside"); }));
  expect_goes_on_until_stopped(*at(0), runs_);
  end_of_stopped(1);
  EXPECT_TRUE(fs::exists(other_half / "checkpoints" / (other_newest + ".set-aside")));
  EXPECT_FALSE(fs::exists(other_half / "checkpoints" / other_newest));
  expect_no_sample_twice(kept_commits(run_folder()));
  expect_replayed();
}

// Its command was stopped, and the run went on all the time.
TEST_F(Node, AHostWhoseCommandStoodStillLeadsNoRunOfItsOwn) {
  if (const auto made = set_apart(2); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 1\n", 2, 4);
  at(1)->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  at(1)->signal(SIGCONT);
  end_of(0);
  EXPECT_THAT(end_of(1).errors, ::testing::Not(::testing::HasSubstr("leads the run")));
  expect_whole(4);
}

// Its own disk says that it leads. The host that was to lead next knows better.
TEST_F(Node, AFirstHostThatComesBackLateIsToldWhereHostsShareNoDisk) {
  if (const auto made = set_apart(3); !made.ok()) GTEST_SKIP() << made.message();
  own_disks_ = true;
  start_and_wait_for_commit("host_patience_s = 8\n", 3, 200);
  kill_host(0);
  ASSERT_TRUE(at(1)->until([&] { return !children(at(1)->pid(), "evaluator").empty(); }));
  runs_ = disk(1);
  const Ended ended = expect_given_up(0, 1);
  expect_said(ended.errors, "host 0 did not come back; this one leads the run");
  expect_said(end_of_stopped(2).errors, "host 1 leads the run, from ");
  EXPECT_FALSE(fs::exists(run_folder() / "mark"));
}

// The other hosts have copies of the lost host's weights, in as many parts as there were hosts with them.
TEST_P(NodeLead, AFirstHostThatStaysAwayTakesNoCommitWithItWhereWeightsAreKeptTwice) {
  start_and_wait_for_commit("host_patience_s = 8\n", 3);
  lose_leader(0);
  const Ended ended = end_of(1);
  expect_said(ended.errors, "the servers still had version ");
  expect_said(ended.output, "3 attempts, 0 commits lost");
  end_of(2);
  expect_whole(6);
}

TEST_F(Node, ANewRunIsBegunWhereThatIsAsked) {
  const fs::path file = job("epochs = 1\n", kTwoDevices);
  start_and_wait_for_checkpoint(file, 2);
  for (const int rank : {0, 1}) kill_host(rank);
  const fs::path before = run_folder();
  start_host(1);
  at(0) = host(file, 0, 2, {"--new"});
  for (const int rank : {0, 1}) end_of(rank);
  fs::remove_all(before);
  expect_kept_samples_once(run_folder(), 1);
}

// Another disk lies over the run folder on one host: that is found out before anything is trained.
TEST_F(Node, ARunFolderThatIsNotSharedEndsTheRunAtItsStart) {
  if (const auto made = set_apart(2); !made.ok()) GTEST_SKIP() << made.message();
  const fs::path file = job("epochs = 1\n", "[[device]]\ncount = 2\n");
  const std::string runs = (folder_ / "runs").string();
  fs::create_directory(runs);
  const auto start = [&](int rank) {
    return std::make_unique<Program>(
        std::vector<std::string>{"node", file.string(), "--rank", std::to_string(rank), "--hosts", "2",
                                 "--coordinator", fmt::format("{}:{}", first_address(), port_), "--set",
                                 "cluster.shared_folder=true"},
        [this, &runs, rank] {
          return apart_->enter(rank) && (rank == 0 || mount("tmpfs", runs.c_str(), "tmpfs", 0, nullptr) == 0);
        });
  };
  const auto second = start(1);
  const auto first = start(0);
  for (Program* one : {first.get(), second.get()}) {
    const Ended ended = one->wait();
    EXPECT_EQ(ended.status, 2);
    expect_said(ended.errors, "has to be on a disk that all hosts share");
    expect_said(ended.errors, "runs_dir");
  }
  for (const auto& run : fs::directory_iterator(runs)) EXPECT_FALSE(has_checkpoint()) << run.path();
}

TEST_P(NodeDisks, AStopAnywhereStopsAllCleanly) {
  start_and_wait_for_checkpoint(job("epochs = 30\n", "[[device]]\ncount = 2\npace_ms = 40\n"), 2);
  at(1)->signal(SIGTERM);
  EXPECT_EQ(at(1)->wait().status, 128 + SIGTERM);
  expect_said(end_of_stopped(0).errors,
              "stopped: host 1 was interrupted; resume with: paceline node --resume ");
  // An init system would start them like this when the host is back. An interruption by hand is for good.
  const auto start_both = [&] {
    start_host(1);
    start_host(0);
    ASSERT_TRUE(at(0)->until_said("run: "));
    const std::int64_t before = newest_metric(runs_, "commits");
    ASSERT_TRUE(at(0)->until([&] { return newest_metric(runs_, "commits") > before + 3; }));
  };
  start_both();
  at(0)->signal(SIGINT);
  const Ended by_hand = at(0)->wait();
  EXPECT_EQ(by_hand.status, 128 + SIGINT);
  expect_said(by_hand.errors, "which was cut short; --new begins another run");
  expect_said(end_of_stopped(1).errors,
              "stopped: host 0 was interrupted; to go on, start the same command again");
  EXPECT_FALSE(fs::exists(run_folder() / "shut_down"));
}

TEST_F(Node, AHostThatWaitsForTheFirstOneSaysSoAndEndsAtOnceWhereItIsStopped) {
  job_ = job("", "[[device]]\ncount = 3\n");
  hosts_.resize(2);
  const auto expect_ends_at_once = [this] {
    at(1)->signal(SIGINT);
    const Ended ended = at(1)->wait();
    EXPECT_EQ(ended.status, 128 + SIGINT);
    expect_said(ended.errors, "stopped before anything was trained\n");
  };
  at(1) = host(job_, 1, 2);
  EXPECT_TRUE(at(1)->until_said(
      fmt::format("the first host does not answer at 127.0.0.1:{} yet; waiting at most 600 s", port_)));
  expect_ends_at_once();
  // Now the first one is there, waits for a third one, and dies.
  at(1) = host(job_, 1, 3);
  at(0) = host(job_, 0, 3);
  EXPECT_TRUE(at(1)->until_said("starting: "));
  kill_host(0);
  EXPECT_TRUE(at(1)->until_said("any more; waiting at most "));
  expect_ends_at_once();
}

TEST_F(Node, WhatCannotWorkIsSaidAtOnce) {
  const fs::path file = job("", "[[device]]\ncount = 3\n");
  const Ended few = host(file, 0, 4)->wait();
  EXPECT_EQ(few.status, 2);
  expect_said(few.errors, "cluster.hosts=4: host 3 has no device");
  const Ended other = host(file, 0, 2, {"--set", "cluster.hosts=3"})->wait();
  EXPECT_EQ(other.status, 2);
  expect_said(other.errors, "the job has 3 hosts, and `paceline node` runs on 2");
  for (const auto& [address, why] : {std::pair("192.0.2.1", "no network interface of this host has it"),
                                     std::pair("here", "is no address")}) {
    const Ended elsewhere = host(file, 1, 2, {"--address", address})->wait();
    EXPECT_EQ(elsewhere.status, 2);
    expect_said(elsewhere.errors, why);
  }
  // The number of 127.0.0.1, in the place of a name that leads there.
  const Ended unreached = run({"node", file.string(), "--rank", "0", "--hosts", "2", "--coordinator",
                               "192.0.2.1:7461", "--set", "network.listen=2130706433:7461"});
  EXPECT_EQ(unreached.status, 2);
  expect_said(unreached.errors,
              "'2130706433:7461' cannot be reached from other hosts; write listen = \"0.0.0.0:7461\"");
  const Ended rank = host(file, 3, 3)->wait();
  expect_said(rank.errors, "ranks begin at 0");
  const Ended nobody = run({"node", file.string()});
  EXPECT_EQ(nobody.status, 2);
  expect_said(nobody.errors, "nothing says which host this is: write --rank and --hosts");
  write_text(folder_ / "plain.toml", "[[device]]\ncount = 2\n");
  const Ended plain = host(folder_ / "plain.toml", 1, 2)->wait();
  EXPECT_EQ(plain.status, 2);
  expect_said(plain.errors, "paceline certs");
}

}  // namespace
}  // namespace paceline::tests
