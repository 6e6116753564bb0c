#include "paceline/base/testing/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/file_descriptor.h"

namespace paceline::testing {

namespace {

// A process in namespaces of its own; -1 when that is not permitted. /sys shows the interfaces of the
// namespace that it was mounted in, so each host has one of its own.
pid_t keep_namespace() {
  std::array<int, 2> ready{};
  PACELINE_CHECK(pipe2(ready.data(), O_CLOEXEC) == 0, "no pipe");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  PACELINE_CHECK(pid >= 0, "no child");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool made = getppid() == parent && unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
    const char answer = made ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1 || !made) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char answer = 'n';
  const bool made = read(ready[0], &answer, 1) == 1 && answer == 'y';
  close(ready[0]);
  if (made) return pid;
  waitpid(pid, nullptr, 0);
  return -1;
}

// A command of iproute2 in the namespace of `keeper`.
bool run_in(pid_t keeper, const std::string& command) {
  const std::string line = fmt::format("nsenter -t {} -n {} >/dev/null 2>&1", keeper, command);
  return std::system(line.c_str()) == 0;
}

bool shape(pid_t keeper, const std::string& interface, int mbit) {
  if (mbit == 0) return true;
  return run_in(keeper, fmt::format("tc qdisc add dev {} root tbf rate {}mbit burst 256kb latency 50ms",
                                    interface, mbit));
}

bool join(pid_t host, int number, pid_t bridge, int mbit) {
  const std::string port = fmt::format("port{}", number);
  const auto at_bridge = [&](const std::string& command) { return run_in(bridge, command); };
  const auto at_host = [&](const std::string& command) { return run_in(host, command); };
  return at_bridge(fmt::format("ip link add {} type veth peer name eth0 netns {}", port, host)) &&
         at_bridge(fmt::format("ip link set {} master bridge up", port)) && at_host("ip link set lo up") &&
         at_host(fmt::format("ip address add {}/24 dev eth0", Namespaces::address(number))) &&
         // Without nodad the address waits a second for another link that may have it.
         at_host(fmt::format("ip address add {}/64 dev eth0 nodad", Namespaces::ipv6_address(number))) &&
         at_host("ip link set eth0 up") && shape(bridge, port, mbit) && shape(host, "eth0", mbit);
}

bool enter_one(pid_t keeper, const char* what, int kind) {
  const FileDescriptor space(open(fmt::format("/proc/{}/ns/{}", keeper, what).c_str(), O_RDONLY | O_CLOEXEC));
  return space.valid() && setns(space.get(), kind) == 0;
}

}  // namespace

std::string Namespaces::address(int host) { return fmt::format("10.77.0.{}", host + 1); }

std::string Namespaces::ipv6_address(int host) { return fmt::format("fd77::{}", host + 1); }

absl::StatusOr<Namespaces> Namespaces::create(int hosts, int mbit) {
  Namespaces made;
  for (int i = 0; i <= hosts; ++i) {
    const pid_t keeper = keep_namespace();
    if (keeper < 0) return absl::PermissionDeniedError("network namespaces are not permitted here; be root");
    made.keepers_.push_back(keeper);
  }
  const pid_t bridge = made.keepers_.back();
  bool all = run_in(bridge, "ip link add bridge type bridge") && run_in(bridge, "ip link set bridge up");
  for (int i = 0; i < hosts && all; ++i) {
    all = join(made.keepers_[static_cast<std::size_t>(i)], i, bridge, mbit);
  }
  if (!all)
    return absl::PermissionDeniedError(
        "bridges between network namespaces cannot be made here; they "
        "need iproute2, and a kernel with veth, bridge and tbf");
  return made;
}

Namespaces::~Namespaces() {
  for (const pid_t keeper : keepers_) {
    kill(keeper, SIGKILL);
    waitpid(keeper, nullptr, 0);
  }
}

bool Namespaces::enter(int host) const {
  const pid_t keeper = keepers_.at(static_cast<std::size_t>(host));
  // Mounts last: /proc/PID is of the present ones.
  return enter_one(keeper, "net", CLONE_NEWNET) && enter_one(keeper, "mnt", CLONE_NEWNS);
}

std::string Namespaces::enter_command(int host) const {
  return fmt::format("nsenter -t {} -n -m", keepers_.at(static_cast<std::size_t>(host)));
}

bool Namespaces::set_bandwidth(int host, int mbit) const {
  return shape(keepers_.back(), fmt::format("port{}", host), mbit) &&
         shape(keepers_.at(static_cast<std::size_t>(host)), "eth0", mbit);
}

bool Namespaces::set_unreachable(int from, int to) const {
  return run_in(keepers_.at(static_cast<std::size_t>(from)),
                fmt::format("ip route add unreachable {}/32", address(to)));
}

bool Namespaces::set_link(int host, bool up) const {
  return run_in(keepers_.back(), fmt::format("ip link set port{} {}", host, up ? "up" : "down"));
}

}  // namespace paceline::testing
