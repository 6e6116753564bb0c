#include "paceline/tools/cli/host_findings.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <sqlite3.h>

#include "paceline/base/control_groups.h"
#include "paceline/base/memory_file.h"
#include "paceline/base/shell_word.h"
#include "paceline/processes/launch/child_process.h"
#include "paceline/processes/launch/host_memory.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/transport/links/ucx_transports.h"
#include "paceline/transport/security/certificates.h"
#include "paceline/transport/security/token.h"

namespace paceline::cli {

namespace {

constexpr std::size_t kProbe_bytes = 64 << 20;
constexpr rlim_t kFewFiles = 1024;
constexpr rlim_t kLittleLocked_bytes = 64 << 20;
constexpr double kLeastFree_bytes = 512.0 * (1 << 20);
constexpr double kLittleShared_bytes = 1e9;
constexpr std::time_t kBuilt = 1'700'000'000;  // a clock before this one's year is wrong

std::string size_of(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

Finding processors() {
  double load = 0;
  const bool known = getloadavg(&load, 1) == 1;
  return processors_finding(usable_processors(), static_cast<int>(std::thread::hardware_concurrency()),
                            known ? std::optional(load) : std::nullopt);
}

// A missing paceline-torch is no fault: this program may do without it.
Finding programs() {
  if (launch::has_torch_program()) return {"programs", Health::kOk, "paceline, paceline-torch", ""};
  return {"programs", Health::kOk, "paceline; no paceline-torch, so no built-in models", ""};
}

Finding ucx() {
  const std::vector<std::string> names = links::ucx_transports();
  if (names.empty())
    return {"UCX", Health::kWarn, "finds no network",
            "see `ucx_info -d`; only cluster.seal = false needs it"};
  return {"UCX", Health::kOk, fmt::format("{}", fmt::join(names, ", ")), ""};
}

Finding libraries() {
  return {"libraries", Health::kOk,
          fmt::format("gRPC {}, protobuf {}, {}, SQLite {}", grpc::Version(),
                      google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION),
                      OpenSSL_version(OPENSSL_VERSION), sqlite3_libversion()),
          ""};
}

// The memory that programs can have, including the files that the kernel keeps in memory.
Finding memory() {
  std::ifstream meminfo("/proc/meminfo");
  double total = -1;
  double free = -1;
  double kb = 0;
  for (std::string key, rest; meminfo >> key >> kb && std::getline(meminfo, rest);) {
    if (key == "MemTotal:") total = 1024 * kb;
    if (key == "MemAvailable:") free = 1024 * kb;
  }
  if (total < 0 || free < 0)
    return {"memory", Health::kWarn, "/proc/meminfo says nothing", "mount /proc for this user"};
  std::string says = fmt::format("{} of {} free", size_of(free), size_of(total));
  const auto allowed = static_cast<double>(launch::host_memory().bytes);
  if (allowed > 0 && allowed < total) {
    const double left = std::min(allowed, static_cast<double>(launch::memory_left().value_or(INT64_MAX)));
    says += fmt::format("; the control group of this process allows {}, with {} left", size_of(allowed),
                        size_of(left));
    free = std::min(free, left);
  }
  if (free < kLeastFree_bytes) return {"memory", Health::kWarn, says, "close other programs before training"};
  return {"memory", Health::kOk, says, ""};
}

// Shared memory is tested in the way that shards and gradient buffers use it.
Finding shared_memory() {
  const int file = new_memory_file("paceline-doctor").release();
  void* mapped = MAP_FAILED;
  if (file >= 0 && ftruncate(file, kProbe_bytes) == 0)
    mapped = mmap(nullptr, kProbe_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  const std::string own = fmt::format("/proc/{}/fd/{}", getpid(), file);
  const bool opens = access(own.c_str(), R_OK | W_OK) == 0;
  if (mapped != MAP_FAILED) munmap(mapped, kProbe_bytes);
  if (file >= 0) close(file);
  if (mapped == MAP_FAILED) {
    return {"shared memory", Health::kFail, fmt::format("cannot get 64 MB: {}", std::strerror(error)),
            "give this process more memory (the container's or the cgroup's limit)"};
  }
  if (!opens) return {"shared memory", Health::kFail, own + " cannot be opened", "mount /proc for this user"};
  return {"shared memory", Health::kOk, "memfd of 64 MB, opened through /proc", ""};
}

// Paceline does not use it; the processes of a program's loaders do.
Finding loaders_memory() {
  struct statvfs disk {};
  if (statvfs("/dev/shm", &disk) != 0)
    return {"/dev/shm", Health::kWarn, std::strerror(errno),
            "mount it if your program loads data in processes"};
  const double bytes = static_cast<double>(disk.f_blocks) * static_cast<double>(disk.f_frsize);
  const std::string says = size_of(bytes);
  if (bytes < kLittleShared_bytes)
    return {"/dev/shm", Health::kWarn, says + ": little for loaders with num_workers > 0",
            "docker run --shm-size=8g, or num_workers=0"};
  return {"/dev/shm", Health::kOk, says, ""};
}

std::string limit_of(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? size_of(static_cast<double>(limit)) : std::to_string(limit);
}

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string says =
      fmt::format("{} (at most {})", limit_of(limit.rlim_cur, false), limit_of(limit.rlim_max, false));
  if (limit.rlim_cur < kFewFiles)
    return {"open files", Health::kWarn, says, "ulimit -n 4096, or LimitNOFILE=4096 in the systemd unit"};
  return {"open files", Health::kOk, says, ""};
}

Finding locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  std::string says = limit_of(limit.rlim_cur, true);
  // Which only links that are not sealed use.
  if (limit.rlim_cur < kLittleLocked_bytes) says += "; RDMA needs more: ulimit -l unlimited";
  return {"locked memory", Health::kOk, says, ""};
}

Finding clock() {
  timex about{};
  const int state = adjtimex(&about);
  return clock_finding(std::time(nullptr), state < 0 ? std::nullopt : std::optional(state != TIME_ERROR));
}

Finding certificate(const std::string& dir, security::Role role) {
  const std::string what = fmt::format("{}.crt", to_string(role));
  const auto read = security::read_credentials(dir, role);
  if (absl::IsNotFound(read.status())) {
    return {what, Health::kWarn, "not on this host",
            fmt::format("copy it here if this host is to run a {}", to_string(role))};
  }
  if (!read.ok()) return {what, Health::kFail, std::string(read.status().message()), "paceline certs"};
  const std::string says =
      fmt::format("{}, good until {}", uri_of(read->own), security::day_of(read->expire));
  if (security::end_soon(*read, std::time(nullptr)))
    return {what, Health::kWarn, says, "make new ones soon: paceline certs"};
  struct stat about {};
  const std::string key = fmt::format("{}/{}.key", dir, to_string(role));
  if (stat(key.c_str(), &about) == 0 && (about.st_mode & 077) != 0)
    return {what, Health::kWarn, says + "; others can read its key", "chmod 600 " + shell_word(key)};
  return {what, Health::kOk, says, ""};
}

Finding token(const std::string& file) {
  const auto read = security::read_token(file);
  if (!read.ok())
    return {"token", Health::kFail, std::string(read.status().message()), "copy the job's token here"};
  if (security::is_exposed(file))
    return {"token", Health::kWarn, file + ": others on this host can read it",
            "chmod 600 " + shell_word(file)};
  return {"token", Health::kOk, file, ""};
}

}  // namespace

Finding processors_finding(int usable, int of_host, std::optional<double> load) {
  const std::string some =
      usable < of_host ? fmt::format("{} of {}", usable, of_host) : std::to_string(usable);
  if (!load) return {"processors", Health::kOk, some, ""};
  const std::string says = fmt::format("{}, load {:.1f}", some, *load);
  if (*load > 1.5 * std::max(usable, of_host))
    return {"processors", Health::kWarn, says, "others use this host: expect slow and uneven workers"};
  return {"processors", Health::kOk, says, ""};
}

Finding clock_finding(std::time_t now, std::optional<bool> synchronized) {
  const std::string says = fmt::format("{} UTC", security::day_of(now));
  if (now < kBuilt)
    return {"clock", Health::kFail, says + " is long ago: no certificate is valid yet",
            "set the clock: timedatectl set-ntp true"};
  if (!synchronized) return {"clock", Health::kOk, says, ""};
  if (*synchronized) return {"clock", Health::kOk, says + ", synchronized", ""};
  return {
      "clock", Health::kWarn, says + ", not synchronized",
      "timedatectl set-ntp true; certificates allow an hour, and times of several hosts are hard to compare"};
}

std::vector<Finding> host_findings() {
  return {programs(),   processors(),    memory(), shared_memory(), loaders_memory(),
          open_files(), locked_memory(), clock(),  libraries(),     ucx()};
}

Finding port_finding(const std::string& listen) {
  std::int64_t number = 0;
  if (!absl::SimpleAtoi(listen.substr(listen.rfind(':') + 1), &number) || number == 0)
    return {"port", Health::kOk,
            listen + ": any free one; the file coordinator in the folder of a running job names it", ""};
  // The run listens in the same way.
  const absl::Status opened = rpc::listen_for_job(listen).status();
  if (opened.ok()) return {"port", Health::kOk, listen + " is free", ""};
  return {"port", Health::kFail, std::string(opened.message()), "ss -ltnp says who has it"};
}

std::vector<Finding> job_findings(const config::JobConfig& job) {
  std::vector<Finding> findings;
  if (job.reach.certs.empty()) {
    findings.push_back({"certificates", Health::kOk, "none: this job stays on one host", ""});
    if (!config::is_loopback(job.reach.listen))
      findings.back() = {"certificates", Health::kWarn,
                         "none: anybody on the network can read and change the traffic",
                         "paceline certs DIR, and network.certs"};
  } else {
    for (const security::Role role : security::kRoles) findings.push_back(certificate(job.reach.certs, role));
  }
  if (!job.reach.token_file.empty()) findings.push_back(token(job.reach.token_file));
  return findings;
}

}  // namespace paceline::cli
