#include "paceline/tools/cli/examine_hosts.h"

#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/formats/config/job_difference.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/mark_file.h"
#include "paceline/records/store/shared_folder.h"
#include "paceline/tools/cli/doctor_messages.h"
#include "paceline/tools/doctor/clock_difference.h"
#include "paceline/transport/links/fabric.h"
#include "paceline/transport/links/seal.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kClockRounds = 16;
constexpr auto kAnswerLimit = 10s;
constexpr auto kMarkLimit = store::kMarkPatience + kAnswerLimit;
constexpr auto kMeasureLimit = kProbeLimit + kAnswerLimit;

// Folders that were missing, for as long as the object lives.
class MadeFolders {
 public:
  explicit MadeFolders(const fs::path& path) {
    std::error_code error;
    for (fs::path one = path; !one.empty() && !fs::exists(one, error); one = one.parent_path())
      made_.push_back(one);
    fs::create_directories(path, error);
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  ~MadeFolders() {
    std::error_code ignored;  // a folder with other files in it stays
    for (const fs::path& one : made_) fs::remove(one, ignored);
  }

 private:
  std::vector<fs::path> made_;  // the deepest first
};

class Examination {
 public:
  Examination(rpc::DoctorServer& server, const ExamineOptions& options) : server_(server), options_(options) {
    // If the working directory is gone, the folder cannot be made either, and that is reported.
    const auto folder = store::absolute_path(options.job.runs_dir);
    facts_.runs_dir = folder.ok() ? folder->string() : options.job.runs_dir;
    facts_.waited_s = options.wait.count();
    facts_.hosts.resize(static_cast<std::size_t>(options.hosts));
  }

  doctor::ClusterFacts examine() {
    server_.wait_for_all(options_.wait);
    for (int host = 0; host < options_.hosts; ++host) take_hello(host);
    for (int host = 1; host < options_.hosts; ++host) compare_clock(host);
    look_at_folder();
    measure_all();
    return std::move(facts_);
  }

 private:
  doctor::HostFacts& of(int host) { return facts_.hosts[static_cast<std::size_t>(host)]; }
  bool here(int host) { return of(host).came && of(host).left.empty(); }

  // The answer; nothing when the host has gone, which is noted.
  std::optional<wire::DoctorAnswer> ask(int host, wire::DoctorOrder order, std::chrono::milliseconds limit) {
    auto answer = server_.ask(host, std::move(order), limit);
    if (answer.ok()) return *std::move(answer);
    of(host).left = std::string(answer.status().message());
    return std::nullopt;
  }

  void take_hello(int host) {
    const auto hello = server_.hello(host);
    if (!hello) return;
    doctor::HostFacts& facts = of(host);
    facts.came = true;
    facts.address = hello->address();
    facts.version = hello->version();
    facts.fabric = hello->fabric();
    facts.build = hello->build();
    facts.data = hello->data();
    facts.other_keys = config::job_differences(hello->job_toml(), options_.job_toml);
    for (const wire::DoctorFinding& one : hello->findings()) facts.own.push_back(from_wire(one));
  }

  void compare_clock(int host) {
    std::vector<doctor::ClockRound> rounds;
    for (int i = 0; i < kClockRounds && here(host); ++i) {
      wire::DoctorOrder order;
      order.mutable_clock();
      const std::int64_t asked_ns = wall_ns();
      const auto answer = ask(host, std::move(order), kAnswerLimit);
      if (answer) rounds.push_back({asked_ns, answer->clock_read().wall_ns(), wall_ns()});
    }
    if (!rounds.empty()) of(host).clock = doctor::clock_difference(rounds);
  }

  void look_at_folder() {
    facts_.shared_folder = options_.job.shared_folder;
    const MadeFolders made(facts_.runs_dir);
    const auto mark = store::MarkFile::leave(fs::path(facts_.runs_dir) / fmt::format("doctor-{}", getpid()));
    if (!mark.ok()) {
      of(0).folder = std::string(mark.status().message());
      return;
    }
    const int looking = facts_.shared_folder ? options_.hosts : 1;
    for (int host = 0; host < looking; ++host) {
      if (here(host)) of(host).folder = trouble_with_folder(host, *mark);
    }
  }

  // Nothing when the host has gone.
  std::optional<std::string> trouble_with_folder(int host, const store::MarkFile& mark) {
    wire::DoctorOrder order;
    order.mutable_mark()->set_file(mark.file().string());
    order.mutable_mark()->set_text(mark.text());
    const auto answer = ask(host, std::move(order), kMarkLimit);
    if (!answer) return std::nullopt;
    if (!answer->mark().error().empty()) return answer->mark().error();
    const absl::Status back =
        store::find_mark(mark_of_host(mark.file(), host), answer->mark().text(), store::kMarkPatience);
    wire::DoctorOrder forget;
    forget.mutable_mark();
    ask(host, std::move(forget), kAnswerLimit);
    if (back.ok()) return "";
    return fmt::format("host 0 does not see what host {} writes there: {}", host,
                       std::string(back.message()));
  }

  void measure_all() {
    for (int a = 0; a < options_.hosts; ++a) {
      for (int b = a + 1; b < options_.hosts; ++b) {
        if (here(a) && here(b)) measure(a, b);
      }
    }
  }

  // The host with the higher number connects, as in a run.
  void measure(int a, int b) {
    options_.tell(fmt::format("measuring the link between host {} and host {}", a, b));
    doctor::LinkFacts facts{a, b};
    const std::string one = new_key();
    const std::string other = new_key();
    const auto listening = ask(a, link_order("", one, other), kAnswerLimit);
    if (!listening) return;
    facts.error = listening->listening().error();
    if (facts.error.empty()) {
      const auto answer = ask(b, link_order(listening->listening().address(), other, one), kMeasureLimit);
      if (!answer) return;
      const wire::DoctorMeasured& measured = answer->measured();
      facts.error = measured.error();
      facts.round_trip_us = measured.round_trip_us();
      facts.to_a_mb_s = measured.there_mb_s();
      facts.to_b_mb_s = measured.back_mb_s();
    }
    facts_.links.push_back(facts);
  }

  wire::DoctorOrder link_order(const std::string& address, const std::string& send_key,
                               const std::string& receive_key) {
    wire::DoctorOrder order;
    order.mutable_link()->set_fabric(of(0).fabric);
    order.mutable_link()->set_address(address);
    order.mutable_link()->set_send_key(send_key);
    order.mutable_link()->set_receive_key(receive_key);
    return order;
  }

  // A key for one direction of one link; empty if links are not sealed.
  std::string new_key() {
    if (of(0).fabric != links::name_of(links::Fabric::kSealed)) return {};
    links::SealKey key{};
    links::random_bytes(key);
    return {reinterpret_cast<const char*>(key.data()), key.size()};
  }

  rpc::DoctorServer& server_;
  const ExamineOptions& options_;
  doctor::ClusterFacts facts_;
};

}  // namespace

doctor::ClusterFacts examine_hosts(rpc::DoctorServer& server, const ExamineOptions& options) {
  return Examination(server, options).examine();
}

}  // namespace paceline::cli
