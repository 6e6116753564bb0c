// Everything a job consists of is killed, stopped and cut off at random while it trains, under each policy in
// turn, and comes back; now and then a host does not. In the end every sample of every epoch was committed
// exactly once in what counts, every bound held, the loss is where an undisturbed run's is, and nothing is
// left behind. Under every second policy hosts keep the weights twice: then strikes come one at a time, and
// none takes a commit with it that anybody had seen. Under every fourth policy three devices, one a host, are
// one replica: a pipeline whose first stage two of them share.
//
//   chaos [--kills N] [--seed N] [--copies 1|2] [--placement beside|central] [--parallel data|static]
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/decisions/policy/testing/every_policy.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/sqlite.h"
#include "tests/chaos_hosts.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using SteadyTime = std::chrono::steady_clock::time_point;

std::int64_t kills_asked_for = 8;
std::uint64_t seed = 1;
std::int64_t copies_asked_for = 0;  // 0: it depends on the policy
std::string placement_asked_for;    // empty: the same
std::string parallel_asked_for;     // empty: the same
// Whether this process has its own /dev/shm. In the common one, files of other processes come and go.
bool own_shared_memory = false;

constexpr int kHosts = 3;
constexpr double kEpochs = 12;
constexpr int kPatienceS = 45;  // longest time until a run that was struck has gone on
const std::vector<std::string> kPolicies = policy::testing::with_every_policy(
    {"bsp", "cgp", "asp", "ssp:3", "dssp:3-15", "elastic-bsp:5", "backup:1"});
// Device i is on host i mod 3.
constexpr char kPipelines[] =
    "[[pipeline]]\ndevices = [[\"w0\", \"w1\"], \"w2\"]\ncuts = [2]\nsamples = 8\n"
    "[[pipeline]]\ndevices = [\"w3\"]\nsamples = 8\n[[pipeline]]\ndevices = [\"w4\"]\nsamples = 8\n"
    "[[pipeline]]\ndevices = [\"w5\"]\nsamples = 8\n";
constexpr double kLossOff = 0.15;        // share of the undisturbed run's loss
constexpr std::uint64_t kLoseOneIn = 6;  // one of this many jobs loses a host in the end, for good
// strikes for each policy; if there are few, the first policies have them
constexpr std::int64_t kLeastForAPolicy = 4;

// The times at which commits were seen in a run's journal, which is written a few times a second.
class CommitClock {
 public:
  explicit CommitClock(fs::path runs)
      : runs_(std::move(runs)), thread_([this](std::stop_token s) { look(s); }) {}

  // How often there were new ones.
  std::size_t times() {
    const std::scoped_lock lock(mutex_);
    return seen_.size();
  }

  // The longest time without a commit that began or went on between these two.
  double longest_s(SteadyTime from, SteadyTime until) {
    const std::scoped_lock lock(mutex_);
    double longest = 0;
    for (std::size_t i = 1; i < seen_.size(); ++i) {
      if (seen_[i] <= from || seen_[i - 1] >= until) continue;
      longest = std::max(longest, std::chrono::duration<double>(seen_[i] - seen_[i - 1]).count());
    }
    return longest;
  }

 private:
  void look(const std::stop_token& stop) {
    std::int64_t newest = 0;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::int64_t now = newest_commit();
      if (now <= newest) continue;
      newest = now;
      const std::scoped_lock lock(mutex_);
      seen_.push_back(std::chrono::steady_clock::now());
    }
  }
  std::int64_t newest_commit() const {
    std::error_code ignored;
    for (const auto& run : fs::directory_iterator(runs_, ignored)) {
      const auto journal = store::Database::open(run.path() / "journal.sqlite", store::Database::Mode::kRead);
      if (!journal.ok()) continue;
      auto rows = journal->prepare("SELECT max(seq) FROM commits");
      if (!rows.ok() || !rows->start().ok()) continue;
      const auto row = rows->next();
      if (row.ok() && *row) return rows->integer(0);
    }
    return 0;
  }

  const fs::path runs_;
  std::mutex mutex_;
  std::vector<SteadyTime> seen_;
  std::jthread thread_;
};

// Time without commits around each fault, by kind.
std::array<std::vector<double>, kFaults> stalls_s;

// How many processes have this folder in their command line.
int processes_of(const fs::path& folder) {
  int count = 0;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const std::string line = read_text(process.path() / "cmdline");
    if (line.find(folder.string()) != std::string::npos) ++count;
  }
  return count;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) names.insert(entry.path().filename());
  return names;
}

std::string newest_checkpoint(const fs::path& runs) {
  std::string newest;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(runs, ignored)) {
    for (const auto& one : fs::directory_iterator(run.path() / "checkpoints", ignored)) {
      if (one.path().extension() != ".partial") newest = std::max(newest, one.path().filename().string());
    }
  }
  return newest;
}

class Chaos : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path write_chaos_job(const fs::path& folder, int port) const {
    const fs::path job =
        small_job(folder, fmt::format("epochs = {}\nthreads = 1\n{}", kEpochs,
                                      pipelined() ? "parallel = \"static\"\nmicro_batch = 2\n" : ""));
    write_text(job, read_text(job) +
                        fmt::format(
                            "[sync]\npolicy = \"{}\"\n[network]\nlisten = \"0.0.0.0:{}\"\n"
                            "certs = \"{}\"\n[cluster]\ncopies = {}\nplacement = \"{}\"\n[schedule]\nshape = "
                            "\"cosine\"\n[checkpoint]\nevery_epochs = 0.2\n"
                            "[[device]]\ncount = 5\npace_ms = 15\n[[device]]\npace_ms = 45\n{}",
                            GetParam(), port, (folder / "certs" / "small").string(), copies(), placement(),
                            pipelined() ? kPipelines : ""));
    return job;
  }

  static bool pipelined() {
    if (GetParam().starts_with("local-sgd")) return false;
    return parallel_asked_for.empty() ? number() % 4 == 1 : parallel_asked_for == "static";
  }

  static std::ptrdiff_t number() {
    return std::find(kPolicies.begin(), kPolicies.end(), GetParam()) - kPolicies.begin();
  }
  // Two policies share one disk, two have hosts with disks of their own, and so on.
  static bool own_disks() { return number() / 2 % 2 == 1; }
  static std::int64_t copies() { return copies_asked_for > 0 ? copies_asked_for : 1 + number() % 2; }

  static std::string placement() {
    if (!placement_asked_for.empty()) return placement_asked_for;
    return number() % 3 == 2 ? "central" : "beside";
  }

  // A run that went back says that it lost nothing, and so does the report of the whole run.
  static void expect_no_commit_lost(const fs::path& run_folder) {
    const auto journal = store::JournalReader::open(store::RunPaths{run_folder}.journal());
    ASSERT_TRUE(journal.ok()) << journal.status();
    const auto about = journal->run();
    ASSERT_TRUE(about.ok()) << about.status();
    for (const auto& [key, value] : *about) {
      const bool counted = key.starts_with("lost_commits_");
      EXPECT_TRUE(!counted || value == "0") << key << ": " << value;
    }
    EXPECT_NE(read_text(run_folder / "summary.json").find("\"lost_commits\": 0,"), std::string::npos);
  }

  // The loss over the whole test set, at the end.
  static double last_loss(const fs::path& run) {
    const auto evaluations = RecordedRun::read(run).evaluations;
    EXPECT_FALSE(evaluations.empty());
    return evaluations.empty() ? 0 : evaluations.back().loss;
  }

  double undisturbed_loss() const {
    const TempFolder folder;
    EXPECT_EQ(run({"certs", (folder / "certs").string(), "--job", "small"}).status, 0);
    const fs::path job = write_chaos_job(folder.path(), free_port());
    const Ended ended =
        run({"train", job.string(), "--set", "network.listen=127.0.0.1:0", "--set", "cluster.copies=1"});
    EXPECT_EQ(ended.status, 0) << ended.errors;
    return last_loss(only_run(folder / "runs"));
  }

  struct Strike {
    Fault fault;
    SteadyTime at;
  };

  // Plays one job from its start to its end. Returns how often it was struck, at most `most` times.
  std::int64_t play(std::int64_t most, Rng& rng, double undisturbed) {
    const auto memory_before = shared_memory();
    const TempFolder folder;
    EXPECT_EQ(run({"certs", (folder / "certs").string(), "--job", "small"}).status, 0);
    const int port = free_port();
    const fs::path runs = folder / "runs", job = write_chaos_job(folder.path(), port);
    std::vector<Strike> strikes;
    fs::path runs_in_the_end;
    {
      ChaosHosts hosts(job, folder / "certs", runs, kHosts, port, own_disks(), copies());
      CommitClock clock(runs);
      hosts.start();
      EXPECT_TRUE(eventually([&] { return has_checkpoint(runs) || !hosts.running(); }));
      while (hosts.running() && std::ssize(strikes) < most && !HasFailure())
        strike(hosts, runs, clock, rng, strikes);
      if (hosts.running() && !HasFailure() && rng.below(kLoseOneIn) == 0) {
        note({Fault::kGone, std::chrono::steady_clock::now()}, strikes);
        hosts.lose_host(rng);
      }
      if (!HasFailure()) hosts.expect_peace();
      measure_stalls(strikes, clock);
      runs_in_the_end = hosts.runs();
    }
    if (!HasFailure()) {
      const bool fewer_in_the_end = !strikes.empty() && strikes.back().fault == Fault::kGone;
      expect_all_is_trained(only_run(runs_in_the_end), undisturbed, fewer_in_the_end);
      EXPECT_TRUE(eventually([&] { return processes_of(folder.path()) == 0; }, 20));
      if (own_shared_memory) {
        EXPECT_EQ(shared_memory(), memory_before);
      }
    }
    if (HasFailure()) fmt::print("logs are in {}\n", kept_logs(folder));
    return std::ssize(strikes);
  }

  static void note(const Strike& strike, std::vector<Strike>& strikes) {
    fmt::print("{:>12} {:4} {}\n", GetParam(), strikes.size(), name_of(strike.fault));
    std::fflush(stdout);
    strikes.push_back(strike);
  }

  static void strike(ChaosHosts& hosts, const fs::path& runs, CommitClock& clock, Rng& rng,
                     std::vector<Strike>& strikes) {
    const auto fault = static_cast<Fault>(rng.below(hosts.can_cut_links() ? kStrikes : kStrikes - 1));
    const std::string before = newest_checkpoint(runs);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!hosts.strike(fault, rng)) return;
    note({fault, now}, strikes);
    hosts.bring_back_workers();
    // Mostly when it has gone on, now and then before.
    const bool at_once = rng.below(8) == 0 && copies() == 1;
    if (!at_once) {
      EXPECT_TRUE(eventually(
          [&] {
            hosts.bring_back_workers();
            return !hosts.running() || newest_checkpoint(runs) > before;
          },
          kPatienceS))
          << "stands still after: " << name_of(fault);
    }
    if (copies() > 1 && !HasFailure()) expect_commits(hosts, clock);
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(300)));
  }

  static void measure_stalls(const std::vector<Strike>& strikes, CommitClock& clock) {
    for (std::size_t i = 0; i < strikes.size(); ++i) {
      const SteadyTime until = i + 1 < strikes.size() ? strikes[i + 1].at : std::chrono::steady_clock::now();
      stalls_s[static_cast<std::size_t>(strikes[i].fault)].push_back(clock.longest_s(strikes[i].at, until));
    }
  }

  static void expect_all_is_trained(const fs::path& run_folder, double undisturbed, bool fewer_in_the_end) {
    expect_kept_samples_once(run_folder, kEpochs);
    if (copies() > 1) expect_no_commit_lost(run_folder);
    const Ended replayed = run({"replay", run_folder.string()});
    EXPECT_EQ(replayed.status, 0) << replayed.errors;
    // If there are fewer hosts in the end, batches are smaller, and the loss may be smaller.
    const double loss = last_loss(run_folder);
    EXPECT_LT(loss, (1 + kLossOff) * undisturbed);
    EXPECT_GT(loss, fewer_in_the_end ? 0 : (1 - kLossOff) * undisturbed);
    for (const auto& entry : fs::recursive_directory_iterator(run_folder))
      EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
  }

  // The last strike is over: what it lost was noticed, and there are commits again.
  static void expect_commits(ChaosHosts& hosts, CommitClock& clock) {
    constexpr std::chrono::seconds kLook{1};
    std::this_thread::sleep_for(kLook);
    EXPECT_TRUE(eventually(
        [&] {
          hosts.bring_back_workers();
          const std::size_t before = clock.times();
          std::this_thread::sleep_for(kLook);
          return !hosts.running() || clock.times() > before;
        },
        kPatienceS))
        << "commits nothing any more";
  }

  static std::string kept_logs(const TempFolder& folder) {
    const fs::path kept = fs::temp_directory_path() / fmt::format("paceline-chaos-{}", getpid());
    std::error_code ignored;
    fs::remove_all(kept, ignored);
    fs::copy(folder.path(), kept, fs::copy_options::recursive, ignored);
    return kept.string();
  }
};

TEST_P(Chaos, LosesNothing) {
  const std::int64_t policies =
      std::clamp<std::int64_t>(kills_asked_for / kLeastForAPolicy, 1, std::size(kPolicies));
  if (number() >= policies) GTEST_SKIP() << "--kills is too few for it";
  std::int64_t left = (kills_asked_for + policies - 1) / policies;
  Rng rng(mix_seed({seed, static_cast<std::uint64_t>(number())}));
  const double undisturbed = undisturbed_loss();
  while (left > 0 && !HasFailure()) left -= play(left, rng, undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Policies, Chaos, ::testing::ValuesIn(kPolicies), policy::testing::policy_test_name);

// Makes a /dev/shm of our own; false if that is not permitted.
bool take_own_shared_memory() {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

void print_stalls() {
  fmt::print("\nseconds without a commit around a fault\n{:>12} {:>6} {:>8} {:>8} {:>8}\n", "", "faults",
             "median", "90 %", "most");
  for (int i = 0; i < kFaults; ++i) {
    std::vector<double>& all = stalls_s[static_cast<std::size_t>(i)];
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    const auto at = [&](double share) {
      return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
    };
    fmt::print("{:>12} {:>6} {:>8.2f} {:>8.2f} {:>8.2f}\n", name_of(static_cast<Fault>(i)), all.size(),
               at(0.5), at(0.9), all.back());
  }
}

}  // namespace
}  // namespace paceline::tests

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--kills") paceline::tests::kills_asked_for = std::atoll(argv[i + 1]);
    if (key == "--copies") paceline::tests::copies_asked_for = std::atoll(argv[i + 1]);
    if (key == "--placement") paceline::tests::placement_asked_for = argv[i + 1];
    if (key == "--parallel") paceline::tests::parallel_asked_for = argv[i + 1];
    if (key == "--seed") paceline::tests::seed = static_cast<std::uint64_t>(std::atoll(argv[i + 1]));
  }
  paceline::tests::own_shared_memory = paceline::tests::take_own_shared_memory();
  const int result = RUN_ALL_TESTS();
  paceline::tests::print_stalls();
  return result;
}
