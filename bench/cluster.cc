// The cost of a bulk-synchronous round over four hosts, with 64 MB of gradients each and a server beside
// every worker: ours on the live path, sealed and in the clear, and sealed with every shard on two hosts,
// against all-reduce and a step on every host, with Gloo and with Open MPI. Hosts are network namespaces on
// this machine, joined by a bridge: as fast as its processors, which all of them share, and over links of 1
// Gb/s. Turns of all of them alternate, and ratios are medians over turns, so that whatever else the machine
// does meets all alike.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "bench/gloo_ring.h"
#include "bench/live.h"
#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/base/testing/namespaces.h"

namespace paceline::bench {
namespace {

using paceline::testing::Namespaces;
namespace fs = std::filesystem;

constexpr int kHosts = 4;
constexpr std::int64_t kFloats = 64 * kFloatsPerMb;
constexpr std::size_t kTurns = 3;

// A folder of the benchmark's own.
class Scratch {
 public:
  Scratch() {
    std::string name = fs::temp_directory_path() / "paceline-bench-XXXXXX";
    PACELINE_CHECK(mkdtemp(name.data()) != nullptr, "no folder for files");
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void enter(const Namespaces& hosts, int host) {
  PACELINE_CHECK(hosts.enter(host), "cannot enter host {}", host);
}

std::vector<double> ours(const Namespaces& hosts, const std::string& fabric, int replicas, int rounds) {
  return live_rounds_ms({.floats = kFloats,
                         .workers = kHosts,
                         .hosts = kHosts,
                         .cluster = fmt::format("copies = {}\n", replicas),
                         .fabric = fabric,
                         .address = Namespaces::address,
                         .enter = [&](int host) { enter(hosts, host); }},
                        rounds);
}

std::vector<double> gloo(const Namespaces& hosts, int rounds) {
  const Scratch scratch;
  std::array<int, 2> times{};
  PACELINE_CHECK(pipe(times.data()) == 0, "no pipe");
  std::vector<pid_t> children;
  for (int rank = 0; rank < kHosts; ++rank) {
    children.push_back(in_child([&] {
      enter(hosts, rank);
      gloo_ring(scratch.path(), Namespaces::address(rank), rank, kHosts, kFloats, rounds + kWarmRounds,
                [&](double ms) {
                  if (rank == 0) PACELINE_CHECK(write(times[1], &ms, sizeof ms) == sizeof ms, "nobody reads");
                });
    }));
  }
  close(times[1]);
  std::vector<double> all = read_doubles(times[0], rounds + kWarmRounds);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  close(times[0]);
  return {all.begin() + kWarmRounds, all.end()};
}

// Writes the script with which mpirun starts its processes on other hosts, like ssh: it gets a host's address
// and a command. Ranks of one machine must not know that they are on one.
fs::path write_shell(const Namespaces& hosts, const fs::path& folder) {
  const fs::path script = folder / "on-host";
  std::ofstream out(script);
  out << "#!/bin/sh\nhost=$1\nshift\ncase $host in\n";
  for (int host = 0; host < kHosts; ++host)
    out << fmt::format("{}) enter='{}' ;;\n", Namespaces::address(host), hosts.enter_command(host));
  out << "esac\nmkdir -p " << folder.string()
      << "/$host\nexec $enter unshare --uts sh -c \"hostname $host; TMPDIR=" << folder.string()
      << "/$host $*\"\n";
  out.close();
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

std::vector<double> mpi(const Namespaces& hosts, int rounds) {
  const Scratch scratch;
  std::string addresses;
  for (int host = 0; host < kHosts; ++host) addresses += (host == 0 ? "" : ",") + Namespaces::address(host);
  // Polling ranks give way to others, as here there are more of them than processors; the ring is the fastest
  // of its algorithms here.
  const std::string command = fmt::format(
      "mpirun --allow-run-as-root --bind-to none -np {} --host {} --mca "
      "plm_rsh_agent {} "
      "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl self,tcp "
      "--mca btl_tcp_if_include eth0 --mca mpi_yield_when_idle 1 --mca coll_tuned_use_dynamic_rules 1 "
      "--mca coll_tuned_allreduce_algorithm 4 {} {} {} >{} 2>/dev/null",
      kHosts, addresses, write_shell(hosts, scratch.path()).string(),
      (fs::read_symlink("/proc/self/exe").parent_path() / "bench_mpi_all_reduce").string(), kFloats,
      rounds + kWarmRounds, (scratch.path() / "times").string());
  const pid_t child = in_child([&] {
    enter(hosts, 0);
    [[maybe_unused]] const int status = std::system(command.c_str());
  });
  waitpid(child, nullptr, 0);
  std::ifstream in(scratch.path() / "times");
  std::vector<double> all;
  for (double ms = 0; in >> ms;) all.push_back(ms);
  if (static_cast<int>(all.size()) != rounds + kWarmRounds) return {std::nan("")};
  return {all.begin() + kWarmRounds, all.end()};
}

// Processor time of all children that have ended, and of theirs.
double children_cpu_ms() {
  rusage used{};
  PACELINE_CHECK(getrusage(RUSAGE_CHILDREN, &used) == 0, "no usage");
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

void measure_links(Table& table, int mbit, int rounds) {
  const Namespaces hosts = must(Namespaces::create(kHosts, mbit));
  const std::pair<const char*, std::function<std::vector<double>()>> sides[] = {
      {"sealed", [&] { return ours(hosts, "sealed", 1, rounds); }},
      {"gloo", [&] { return gloo(hosts, rounds); }},
      {"clear", [&] { return ours(hosts, "tcp", 1, rounds); }},
      {"mpi", [&] { return mpi(hosts, rounds); }},
      {"ucx", [&] { return ours(hosts, "ucx", 1, rounds); }},
      {"twice", [&] { return ours(hosts, "sealed", 2, rounds); }}};
  std::map<std::string, std::vector<double>> rounds_ms;  // medians of turns
  std::map<std::string, std::vector<double>> cpu_ms;     // a round
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    for (const auto& [name, side] : sides) {
      const double before = children_cpu_ms();
      rounds_ms[name].push_back(median(side()));
      cpu_ms[name].push_back((children_cpu_ms() - before) / (rounds + kWarmRounds));
    }
  }
  Table::Row row;
  for (const auto& [name, side] : sides) row.emplace_back(std::string(name) + "_ms", median(rounds_ms[name]));
  for (const char* our : {"sealed", "clear"}) {
    for (const char* other : {"gloo", "mpi"}) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < kTurns; ++i) ratios.push_back(rounds_ms[other][i] / rounds_ms[our][i]);
      row.emplace_back(fmt::format("{}/{}", other, our), median(ratios));
    }
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < kTurns; ++i) ratios.push_back(rounds_ms["twice"][i] / rounds_ms["sealed"][i]);
  row.emplace_back("twice/sealed", median(ratios));
  // The processes of mpirun's daemons are not this one's to count.
  for (const char* name : {"sealed", "clear", "ucx", "twice", "gloo"})
    row.emplace_back(std::string(name) + "_cpu_ms", median(cpu_ms[name]));
  table.add(mbit == 0 ? "unshaped" : "1 Gb/s", std::move(row));
}

void measure(Table& table) {
  measure_links(table, 0, 12);
  measure_links(table, 1000, 6);
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
