#include "paceline/cli/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <absl/strings/match.h>
#include <absl/strings/strip.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/peer.h"

namespace paceline::cli {

namespace {

constexpr char kErrorPrefix[] = "paceline: ";

// Why a process ended: what it said last, if that was an error of its own.
std::string reason_of(const ChildProcess& child, int wait_status) {
  const std::string line = last_line(child.log_file());
  const bool said = WIFEXITED(wait_status) && absl::StartsWith(line, kErrorPrefix);
  if (said) return line.substr(sizeof(kErrorPrefix) - 1);
  const std::string end = fmt::format("{}: {}", child.name(), describe_end(wait_status));
  return line.empty() ? end : fmt::format("{}; its log is {}", end, child.log_file());
}

constexpr int kAnyWidth = 80;

// It ended because the coordinator had: no error of its own.
bool lost_coordinator(const ChildProcess& child) {
  return absl::EndsWith(last_line(child.log_file()), coordinator_lost().message());
}

bool worker(const ChildProcess& child) { return absl::StartsWith(child.name(), "w"); }

// The line that the coordinator writes once it listens; empty when it ends before.
std::string read_line(int fd) {
  std::string line;
  char byte = 0;
  while (true) {
    const ssize_t count = read(fd, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || byte == '\n') return line;
    line.push_back(byte);
  }
}

absl::StatusOr<int> wait_for_end(ChildProcess& child) {
  for (int i = 0; i < 500; ++i) {
    if (const auto ended = child.ended()) return *ended;
    usleep(10'000);
  }
  return absl::DeadlineExceededError(
      fmt::format("{} neither listens nor ends; its log is {}", child.name(), child.log_file()));
}

}  // namespace

absl::StatusOr<LocalCluster> LocalCluster::start(const std::string& run, const config::JobConfig& job,
                                                 bool resume) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::vector<std::string> arguments = {"coordinator", run, "--address-fd", std::to_string(ends[1])};
  if (resume) arguments.push_back("--resume");
  auto coordinator = ChildProcess::start("coordinator", arguments, run + "/logs/coordinator.log", ends[1]);
  close(ends[1]);
  const std::string address = coordinator.ok() ? read_line(ends[0]) : "";
  close(ends[0]);
  PACELINE_RETURN_IF_ERROR(coordinator.status());
  LocalCluster cluster(*std::move(coordinator));
  if (address.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const int ended, wait_for_end(cluster.coordinator_));
    return absl::UnavailableError(reason_of(cluster.coordinator_, ended));
  }
  PACELINE_RETURN_IF_ERROR(cluster.start_peers(run, job, address));
  return cluster;
}

absl::Status LocalCluster::start_peers(const std::string& run, const config::JobConfig& job,
                                       const std::string& address) {
  stub_ = coordinator_stub(address);
  const auto start_one = [&](const std::string& name, std::vector<std::string> arguments) -> absl::Status {
    arguments.insert(arguments.end(), {"--coordinator", address});
    PACELINE_ASSIGN_OR_RETURN(ChildProcess child,
                              ChildProcess::start(name, arguments, fmt::format("{}/logs/{}.log", run, name)));
    peers_.push_back(std::move(child));
    return absl::OkStatus();
  };
  for (std::int64_t i = 0; i < job.servers; ++i) {
    std::vector<std::string> arguments = {"server", "--shard", std::to_string(i)};
    // Each as if on a host of its own.
    if (job.hosts > 1) arguments.insert(arguments.end(), {"--exchange", "127.0.0.1"});
    if (job.hosts > 1 && !job.seal) arguments.push_back("--clear");
    PACELINE_RETURN_IF_ERROR(start_one(fmt::format("server{}", i), std::move(arguments)));
  }
  for (const config::ReplicaConfig& replica : job.replicas) {
    PACELINE_RETURN_IF_ERROR(start_one(replica.name, {"worker", "--name", replica.name}));
  }
  // Who plans anew can make do with any worker.
  planned_anew_ = job.parallel.mode == config::Parallel::kJoint;
  if (planned_anew_) {
    for (const config::ReplicaConfig& device : job.replicas) replicas_.push_back({device.name});
    return start_one("evaluator", {"evaluator"});
  }
  for (const planner::PlannedReplica& planned : job.parallel.plan.replicas) {
    std::vector<std::string>& names = replicas_.emplace_back();
    for (const std::int32_t device : planned.devices)
      names.push_back(job.replicas[static_cast<std::size_t>(device)].name);
  }
  return start_one("evaluator", {"evaluator"});
}

std::optional<rpc::wire::StatusReply> LocalCluster::status(int width) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  rpc::wire::StatusRequest request;
  request.set_width(width);
  request.set_notes_seen(notes_seen_);
  rpc::wire::StatusReply reply;
  const grpc::Status asked = stub_->Status(&context, request, &reply);
  if (!asked.ok()) {
    coordinator_gone_ = asked.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
    return std::nullopt;
  }
  training_ = training_ || !reply.line().empty();
  notes_seen_ += reply.notes_size();
  notes_.insert(notes_.end(), reply.notes().begin(), reply.notes().end());
  return reply;
}

std::vector<std::string> LocalCluster::tend() {
  std::vector<std::string> news;
  const bool any_before = any_replica_whole();
  for (auto child = peers_.begin(); child != peers_.end();) {
    const auto ended = child->ended();
    if (!ended) {
      ++child;
      continue;
    }
    const bool failed = *ended != 0;
    // Training may have begun since somebody asked last. One that could not start says so itself; one that
    // was killed is asked about. A coordinator that has ended of it by now says why.
    if (failed && !training_ && WIFSIGNALED(*ended)) {
      status(kAnyWidth);
      training_ = training_ || coordinator_gone_;
    }
    if (failed && !training_ && !first_error_ && !lost_coordinator(*child)) {
      first_error_ = reason_of(*child, *ended);
      stop("a process could not start");
    } else if (failed && training_ && worker(*child)) {
      news.push_back(fmt::format("{} was lost ({}){}", child->name(), describe_end(*ended),
                                 planned_anew_ ? "" : "; the others train on its samples"));
    }
    child = peers_.erase(child);
  }
  if (const auto ended = coordinator_.ended(); ended && !outcome_) outcome_ = end_of_coordinator(*ended);
  // At a job's end the workers leave in peace; a coordinator that is ending ignores this.
  if (!outcome_ && any_before && !any_replica_whole() && training_) {
    lost_all_ = lost_all_ || !news.empty();
    stop("no replica is left");
  }
  for (std::string& note : std::exchange(notes_, {})) news.push_back(std::move(note));
  return news;
}

bool LocalCluster::any_replica_whole() const {
  const auto here = [&](const std::string& name) {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const ChildProcess& child) { return child.name() == name; });
  };
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), here);
  });
}

absl::Status LocalCluster::end_of_coordinator(int wait_status) const {
  if (first_error_) return absl::InvalidArgumentError(*first_error_);
  if (wait_status == 0 && lost_all_) return absl::UnavailableError("every replica lost a worker");
  if (wait_status == 0) return absl::OkStatus();
  return absl::UnavailableError(reason_of(coordinator_, wait_status));
}

void LocalCluster::stop(const std::string& why) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  rpc::wire::StopRequest request;
  request.set_why(why);
  rpc::wire::StopReply reply;
  stub_->Stop(&context, request, &reply);
}

}  // namespace paceline::cli
