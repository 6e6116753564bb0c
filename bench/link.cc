// The rate of a link, one way, compared with the alternatives over the same network in the same run (in the
// clear, sealed, and over UCX): UCX itself (ucx_perftest's active messages, sleeping while it waits as a link
// does, and spinning), bare TCP (iperf3) and Gloo's point-to-point messages. Over loopback, and between two
// hosts that are network namespaces, where those are permitted. Rounds of all of them alternate, and ratios
// are medians of rounds, so that whatever else the machine does meets all alike. The memory of links and of
// ucx_perftest is in large pages and has been written (see written_memory.cc); once more, what is sent has
// never been written, which is how ucx_perftest comes.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "bench/gloo_pair.h"
#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/base/testing/namespaces.h"
#include "paceline/transport/links/network.h"

namespace paceline::bench {
namespace {

using links::Fabric;
using links::Link;
using links::LinkOptions;
using std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr std::size_t kBytesPerRound = std::size_t{1} << 30;
constexpr int kMostMessages = 20'000;

// Two hosts of namespaces, or both ends here.
struct Network {
  std::string name;
  const paceline::testing::Namespaces* hosts = nullptr;
  std::string address(int host) const {
    return hosts ? paceline::testing::Namespaces::address(host) : "127.0.0.1";
  }
  std::string device() const { return hosts ? "eth0" : "lo"; }
  void enter(int host) const { PACELINE_CHECK(!hosts || hosts->enter(host), "cannot enter host {}", host); }
};

struct Load {
  std::size_t bytes;
  int messages;
};

// A child that runs `body` on a host, and what it writes.
class Child {
 public:
  Child(const Network& network, int host, const std::function<void(int out)>& body) {
    std::array<int, 2> up{};
    PACELINE_CHECK(pipe(up.data()) == 0, "no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(up[0]);
      network.enter(host);
      body(up[1]);
      _exit(0);
    }
    close(up[1]);
    in_ = up[0];
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string line() {
    std::string text;
    for (char c = 0; read(in_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  std::string all() {
    std::string text;
    std::array<char, 4096> part;
    for (ssize_t got = 0; (got = read(in_, part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
};

void say(int out, const std::string& text) {
  const std::string line = text + "\n";
  PACELINE_CHECK(write(out, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "nobody listens");
}

double gb_per_second(const Load& load, steady_clock::time_point began) {
  const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  return static_cast<double>(load.bytes) * load.messages / seconds / 1e9;
}

// ---- A link

// Until the process ends.
enum class Memory { kWritten, kFresh };
std::span<std::byte> memory(std::size_t bytes, Memory kind) {
  constexpr std::size_t kLargePage = 2 << 20;
  std::size_t room = bytes + kLargePage;
  void* begin = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PACELINE_CHECK(begin != MAP_FAILED && std::align(kLargePage, bytes, begin, room), "no memory");
  madvise(begin, bytes, MADV_HUGEPAGE);
  if (kind == Memory::kWritten) std::memset(begin, 1, bytes);
  return {static_cast<std::byte*>(begin), bytes};
}

LinkOptions options(Fabric fabric, bool other) {
  LinkOptions options;
  links::LinkKeys keys{};
  keys.send.fill(std::byte{other});
  keys.receive.fill(std::byte{!other});
  if (fabric == Fabric::kSealed) options.keys = keys;
  return options;
}

void must(const absl::Status& status) { PACELINE_CHECK(status.ok(), "{}", std::string(status.message())); }

// Takes everything, and says so when the last message is there.
void take_all(const Network& network, const Load& load, Fabric fabric, int out) {
  std::vector<std::span<std::byte>> taken_into;
  // Large messages come one after the other; of small ones several at once.
  const std::size_t buffers = load.bytes > (8 << 20) ? 1 : 4;
  for (std::size_t i = 0; i < buffers; ++i) {
    taken_into.push_back(memory(load.bytes, Memory::kWritten));
  }
  const auto over = links::Network::open(network.address(0), fabric).value();
  std::unique_ptr<Link> link;
  const auto listener = over.listen(0, {.accept = [&](const auto&) { return options(fabric, true); },
                                        .on_link = [&](auto made) { link = std::move(made); }})
                            .value();
  say(out, listener->address());
  while (!link) {
    listener->progress();
    if (!link) listener->wait(std::chrono::milliseconds(1000));
  }
  int taken = 0;
  link->on_message([&](const Link::Message& message) {
    link->receive(message.id, taken_into[message.id % buffers], [&](const absl::Status& status) {
      must(status);
      // The first one is for warming up, as ucx_perftest's.
      if (++taken == 1 || taken == 1 + load.messages) link->send({}, {}, [](const auto&) {});
    });
  });
  while (link->progress().ok()) link->wait(std::chrono::milliseconds(1000));
}

double link_rate(const Network& network, const Load& load, Fabric fabric, Memory kind = Memory::kWritten) {
  Child receiver(network, 0, [&](int out) { take_all(network, load, fabric, out); });
  const std::string address = receiver.line();
  Child sender(network, 1, [&](int out) {
    const std::span<const std::byte> payload = memory(load.bytes, kind);
    const auto over = links::Network::open(network.address(1), fabric).value();
    const auto link = over.connect(address, "bench", options(fabric, false)).value();
    int answers = 0;
    link->on_message([&](const Link::Message&) { ++answers; });
    const auto send = [&](int messages, int answered) {
      for (int i = 0; i < messages; ++i) link->send({}, payload, must);
      while (answers < answered) {
        must(link->progress());
        if (answers < answered) link->wait(std::chrono::milliseconds(1000));
      }
    };
    send(1, 1);
    const auto began = steady_clock::now();
    send(load.messages, 2);
    say(out, std::to_string(gb_per_second(load, began)));
  });
  return std::atof(sender.line().c_str());
}

// ---- Programs

// Runs a program in place of the child, with what it prints going to `out`.
[[noreturn]] void become(int out, const std::vector<std::string>& words) {
  dup2(out, STDOUT_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDERR_FILENO);
  std::vector<char*> raw;
  for (const std::string& word : words) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  execvp(raw[0], raw.data());
  _exit(127);
}

int next_port() {
  static int port = 20000 + getpid() % 20000;
  return port++;
}

// The n-th number of the last line, or NaN: the program is not there.
double number_of(const std::string& text, int n) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return std::nan("");
  const std::size_t begin = text.find_last_of('\n', end);
  const char* at = text.c_str() + (begin == std::string::npos ? 0 : begin + 1);
  double value = std::nan("");
  for (int i = 0; i < n; ++i) {
    char* stop = nullptr;
    value = std::strtod(at, &stop);
    if (stop == at) return std::nan("");
    at = stop;
  }
  return value;
}

double ucx_rate(const Network& network, const Load& load, const std::string& wait,
                Memory kind = Memory::kWritten) {
  const std::string port = std::to_string(next_port());
  std::vector<std::string> words{"ucx_perftest",
                                 "-p",
                                 port,
                                 "-t",
                                 "ucp_am_bw",
                                 "-s",
                                 std::to_string(load.bytes),
                                 "-n",
                                 std::to_string(load.messages),
                                 "-w",
                                 "1",
                                 "-E",
                                 wait,
                                 "-f"};
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto start = [&](int out) {
    if (kind == Memory::kWritten) setenv("LD_PRELOAD", (here / "bench_written_memory.so").c_str(), 1);
    setenv("UCX_TLS", "tcp", 1);
    setenv("UCX_NET_DEVICES", network.device().c_str(), 1);
    become(out, words);
  };
  Child receiver(network, 0, start);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  words.insert(words.begin() + 1, network.address(0));
  Child sender(network, 1, start);
  constexpr int kOverallBandwidth = 6;  // in MiB/s
  return number_of(sender.all(), kOverallBandwidth) * (1 << 20) / 1e9;
}

double iperf_rate(const Network& network, const Load& load) {
  const std::string port = std::to_string(next_port());
  const std::string bytes = std::to_string(load.bytes * static_cast<std::size_t>(load.messages));
  const std::string block = std::to_string(std::min<std::size_t>(load.bytes, 1 << 20));
  Child receiver(network, 0, [&](int out) {
    become(out, {"iperf3", "-s", "-1", "-B", network.address(0), "-p", port, "-J"});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  Child sender(network, 1, [&](int out) {
    become(out, {"iperf3", "-c", network.address(0), "-p", port, "-n", bytes, "-l", block, "-J"});
  });
  const std::string text = sender.all();
  const std::size_t sum = text.find("\"sum_received\"");
  const std::string key = "\"bits_per_second\":";
  const std::size_t at = sum == std::string::npos ? sum : text.find(key, sum);
  return at == std::string::npos ? std::nan("") : std::atof(text.c_str() + at + key.size()) / 8e9;
}

double gloo_rate(const Network& network, const Load& load) {
  const std::string store = fmt::format("/tmp/paceline-bench-{}-{}", getpid(), next_port());
  Child receiver(network, 0, [&](int out) {
    gloo_pair(store, network.address(0), 0, load.bytes, load.messages);
    say(out, "");
  });
  Child sender(network, 1, [&](int out) {
    say(out, std::to_string(gloo_pair(store, network.address(1), 1, load.bytes, load.messages)));
  });
  const double seconds = std::atof(sender.line().c_str());
  receiver.line();
  return static_cast<double>(load.bytes) * load.messages / seconds / 1e9;
}

// ---- The table

void measure_size(Table& table, const Network& network, std::size_t bytes) {
  const auto wanted = static_cast<int>(kBytesPerRound / bytes);
  const Load load{bytes, std::clamp(wanted, 2, kMostMessages)};
  const std::pair<const char*, std::function<double()>> sides[] = {
      {"clear", [&] { return link_rate(network, load, Fabric::kTcp); }},
      {"ucx", [&] { return ucx_rate(network, load, "sleep"); }},
      {"sealed", [&] { return link_rate(network, load, Fabric::kSealed); }},
      {"over_ucx", [&] { return link_rate(network, load, Fabric::kUcx); }},
      {"ucx_spin", [&] { return ucx_rate(network, load, "poll"); }},
      {"iperf3", [&] { return iperf_rate(network, load); }},
      {"gloo", [&] { return gloo_rate(network, load); }},
      {"clear_fresh", [&] { return link_rate(network, load, Fabric::kTcp, Memory::kFresh); }},
      {"ucx_fresh", [&] { return ucx_rate(network, load, "sleep", Memory::kFresh); }}};
  std::map<std::string, std::vector<double>> rates;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [name, rate] : sides) rates[name].push_back(rate());
  }
  const auto ratio = [&](const char* ours, const char* other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < rates[ours].size(); ++i) ratios.push_back(rates[ours][i] / rates[other][i]);
    return median(std::move(ratios));
  };
  Table::Row row{{"kb", static_cast<double>(bytes) / 1024}};
  for (const auto& [name, rate] : sides) row.emplace_back(name, median(rates[name]));
  row.emplace_back("clear/ucx", ratio("clear", "ucx"));
  row.emplace_back("sealed/ucx", ratio("sealed", "ucx"));
  row.emplace_back("clear/iperf3", ratio("clear", "iperf3"));
  row.emplace_back("clear/gloo", ratio("clear", "gloo"));
  row.emplace_back("clear/ucx_fresh", ratio("clear_fresh", "ucx_fresh"));
  table.add(network.name, std::move(row));
}

void measure(Table& table) {
  const auto hosts = paceline::testing::Namespaces::create(2);
  std::vector<Network> networks{{.name = "loopback"}};
  if (hosts.ok()) networks.push_back({.name = "namespaces", .hosts = &*hosts});
  if (!hosts.ok()) fmt::print(stderr, "bench: {}\n", std::string(hosts.status().message()));
  for (const Network& network : networks) {
    for (const std::size_t kb : {4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10}) {
      measure_size(table, network, kb << 10);
    }
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
