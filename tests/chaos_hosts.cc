#include "tests/chaos_hosts.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline::tests {

namespace {

namespace fs = std::filesystem;

void pause(std::uint64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// The arguments of a process, from the role's name on.
std::vector<std::string> arguments_of(pid_t process) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : read_text(fmt::format("/proc/{}/cmdline", process))) {
    if (c != '\0') {
      word += c;
      continue;
    }
    words.push_back(std::exchange(word, {}));
  }
  if (!words.empty()) words.erase(words.begin());
  return words;
}

}  // namespace

const char* name_of(Fault fault) {
  constexpr const char* kNames[kFaults] = {"worker", "server", "coordinator", "evaluator",
                                           "host",   "hang",   "link",        "host for good"};
  return kNames[static_cast<std::size_t>(fault)];
}

ChaosHosts::ChaosHosts(fs::path job, fs::path certs, fs::path runs, int hosts, int port, bool own_disks,
                       std::int64_t copies)
    : job_(std::move(job)),
      certs_(std::move(certs)),
      runs_(std::move(runs)),
      port_(port),
      own_disks_(own_disks),
      copies_(copies),
      hosts_(hosts) {
  auto apart = paceline::testing::Namespaces::create(hosts);
  if (apart.ok()) apart_.emplace(*std::move(apart));
}

fs::path ChaosHosts::disk(int host) const {
  return host > 0 && own_disks_ ? runs_.parent_path() / fmt::format("disk{}", host) : runs_;
}

std::unique_ptr<Program> ChaosHosts::program(int host, std::vector<std::string> words) const {
  if (!apart_) return std::make_unique<Program>(words);
  return std::make_unique<Program>(words, [this, host] { return apart_->enter(host); });
}

void ChaosHosts::start() {
  for (int host = count(); host-- > 0;) start_host(host, false);
}

void ChaosHosts::start_host(int host, bool again) {
  const std::string first = apart_ ? apart_->address(0) : "127.0.0.1";
  std::vector<std::string> words = {"node"};
  if (again && host == 0) {
    words.insert(words.end(), {"--resume", only_run(runs_).string()});
  } else {
    words.push_back(job_.string());
  }
  words.insert(words.end(), {"--rank", std::to_string(host), "--hosts", std::to_string(count()),
                             "--coordinator", fmt::format("{}:{}", first, port_), "--set",
                             fmt::format("cluster.shared_folder={}", !own_disks_)});
  if (own_disks_ && host > 0) words.insert(words.end(), {"--set", "runs_dir=" + disk(host).string()});
  hosts_[static_cast<std::size_t>(host)] = program(host, words);
}

std::optional<ChaosHosts::Victim> ChaosHosts::victim(const std::string& word, Rng& rng) const {
  std::vector<Victim> all;
  for (int host = 0; host < count(); ++host) {
    for (const pid_t process : children(hosts_[static_cast<std::size_t>(host)]->pid(), word))
      all.push_back({host, process});
  }
  for (const auto& [name, worker] : workers_) {
    if (word == "worker" && worker.again && worker.again->running())
      all.push_back({worker.host, worker.again->pid()});
  }
  if (all.empty()) return std::nullopt;
  return all[rng.below(all.size())];
}

// How each is started, as long as it can be seen.
void ChaosHosts::remember_workers() {
  for (int host = 0; host < count(); ++host) {
    for (const pid_t process : children(hosts_[static_cast<std::size_t>(host)]->pid(), "worker")) {
      const std::vector<std::string> words = arguments_of(process);
      if (words.size() < 3 || words[1] != "--name") continue;
      Worker& worker = workers_[words[2]];
      worker.host = host;
      worker.words = words;
    }
  }
}

void ChaosHosts::bring_back_workers() {
  for (auto& [name, worker] : workers_) {
    if (worker.again && worker.again->running()) continue;
    if (!children(hosts_[static_cast<std::size_t>(worker.host)]->pid(), name).empty()) continue;
    if (running()) worker.again = program(worker.host, worker.words);
  }
}

bool ChaosHosts::strike(Fault fault, Rng& rng) {
  remember_workers();
  switch (fault) {
    case Fault::kWorker:
    case Fault::kServer:
    case Fault::kCoordinator:
    case Fault::kEvaluator: {
      const auto found = victim(name_of(fault), rng);
      return found && kill(found->process, SIGKILL) == 0;
    }
    case Fault::kHang: {
      const auto found = victim(rng.below(2) == 0 ? "worker" : "server", rng);
      if (!found || kill(found->process, SIGSTOP) != 0) return false;
      pause(rng.below(2000));
      kill(found->process, SIGCONT);
      return true;
    }
    case Fault::kHost: {
      const int host = static_cast<int>(rng.below(static_cast<std::uint64_t>(count())));
      Program& node = *hosts_[static_cast<std::size_t>(host)];
      if (!node.running()) return false;
      node.signal(SIGKILL);
      node.wait();
      pause(rng.below(1000));
      start_host(host, true);
      return true;
    }
    case Fault::kLink: {
      if (!apart_) return false;
      const int host = static_cast<int>(rng.below(static_cast<std::uint64_t>(count())));
      EXPECT_TRUE(apart_->set_link(host, false));
      pause(rng.below(2000));
      EXPECT_TRUE(apart_->set_link(host, true));
      return true;
    }
    case Fault::kGone:
      break;
  }
  return false;
}

void ChaosHosts::lose_host(Rng& rng) {
  // If only the first host has the run, no other host can lead it.
  const int least = own_disks_ && copies_ == 1 ? 1 : 0;
  lost_ = least + static_cast<int>(rng.below(static_cast<std::uint64_t>(count() - least)));
  Program& node = *hosts_[static_cast<std::size_t>(*lost_)];
  node.signal(SIGKILL);
  node.wait();
  if (own_disks_) fs::remove_all(disk(*lost_));
  std::erase_if(workers_, [&](const auto& one) { return one.second.host == *lost_; });
}

void ChaosHosts::expect_peace() {
  for (int host = 0; host < count(); ++host) {
    if (host == lost_) continue;
    const Ended ended = hosts_[static_cast<std::size_t>(host)]->wait(180);
    // A host that came back after the end hears nothing of it.
    if (host > 0 && ended.errors.find("no coordinator answers") != std::string::npos) continue;
    EXPECT_EQ(ended.status, 0) << "host " << host << "\n" << ended.errors;
  }
  // A worker that comes after the end keeps asking for minutes.
  const auto none_is_left = [&] {
    return std::none_of(workers_.begin(), workers_.end(),
                        [](const auto& one) { return one.second.again && one.second.again->running(); });
  };
  if (!eventually(none_is_left, 3)) workers_.clear();
}

}  // namespace paceline::tests
