// Stories of attempts: each file in testdata/attempt tells one, event by event, with the actions and the phase.
#include "paceline/decisions/coordinator/attempt.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_message.h"
#include "paceline/base/testing/golden_text.h"
#include "paceline/decisions/coordinator/testing/variants.h"
#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/records/store/state_text.h"

namespace paceline::coordinator {
namespace {

constexpr char kStories[] = "paceline/decisions/coordinator/testdata/attempt";

// The orders' names in the protocol, with the numbers that matter to a reader.
struct InWords {
  std::string operator()(const BeginIteration& order) const {
    return fmt::format("release {}, with version {}", order.release.clock, order.release.version);
  }
  std::string operator()(const Disconnect& order) const { return "disconnect " + order.why; }
  std::string operator()(const Role& order) const { return fmt::format("role in replica {}", order.replica); }
  std::string operator()(const Dissolve& order) const {
    return fmt::format("dissolve replica {}", order.replica);
  }
  std::string operator()(const Welcome&) const { return "welcome"; }
  std::string operator()(const Boards&) const { return "boards"; }
  std::string operator()(const ServerStart& order) const {
    return fmt::format("{} version {}", order.take_up ? "take up" : "start with", order.version);
  }
  std::string operator()(const Apply& order) const { return fmt::format("make {}", order.version); }
  std::string operator()(const MapGradient& order) const {
    return fmt::format("map replica {}", order.replica);
  }
  std::string operator()(const UnmapGradient& order) const {
    return fmt::format("unmap replica {}", order.replica);
  }
  std::string operator()(const ReleaseReader&) const { return "release a reader"; }
  std::string operator()(const WriteCheckpoint& order) const {
    return fmt::format("write_checkpoint {}", order.version);
  }
  std::string operator()(const WriteCopy& order) const {
    return fmt::format("write_copy {} of shard {}", order.version, order.shard);
  }
  std::string operator()(const Want& order) const {
    return fmt::format("host {} wants {}", order.host, order.version);
  }
  std::string operator()(const Expect& order) const { return fmt::format("expect {}", order.commit.version); }
  std::string operator()(const Revoke& order) const { return fmt::format("revoke {}", order.version); }
  std::string operator()(const Publish& order) const { return fmt::format("publish {}", order.version); }
  template <class Other>
  std::string operator()(const Other&) const {
    return "another order";
  }
};

class Story {
 public:
  std::optional<golden::Answers> take(const golden::Event& event) {
    if (event.like("attempt *")) return begin(event);
    if (!attempt_) return std::nullopt;
    const Phase before = attempt_->phase();
    now_ += std::chrono::milliseconds(static_cast<int>(event.seconds() * 1000));
    const auto what = read(event);
    if (!what) return std::nullopt;
    golden::Answers lines;
    for (const Action& action : attempt_->take({now_, *what})) {
      if (auto line = in_words(action); !line.empty()) lines.push_back(std::move(line));
    }
    if (attempt_->phase() != before)
      lines.push_back(fmt::format("{} → {}", name_of(before), name_of(attempt_->phase())));
    return lines;
  }

 private:
  using What = decltype(coordinator::Event::what);

  // "attempt of two hosts": shards are kept twice. "attempt of one host that foresees": its servers know commits early.
  std::optional<golden::Answers> begin(const golden::Event& event) {
    const bool twice = event.like("attempt of two hosts").has_value();
    hosts_ = twice ? 2 : 1;
    AttemptOptions options;
    options.attempt = "1";
    options.new_key = [] { return std::string("key"); };
    options.job_toml =
        fmt::format("name = \"small\"\nbatch = 8\nepochs = 100\n[cluster]\n{}",
                    twice ? "hosts = 2\ncopies = 2\n[[device]]\nhost = 0\n[[device]]\nhost = 1\n"
                          : "[[device]]\ncount = 2\n");
    options.state_text = store::state_text();
    options.job = config::coordinator_settings(config::parse_job(options.job_toml, "job.toml").value());
    foresees_ = event.like("attempt of one host that foresees").has_value();
    options.job.foresees = foresees_;
    attempt_.emplace(std::move(options), now_);
    return golden::Answers{};
  }

  std::optional<What> read(const golden::Event& event) {
    if (const auto values = event.like("server * *")) return server(std::stoi(values->at(0)), values->at(1));
    if (event.like("w0 *")) return worker(0, event.like("w0 *")->at(0));
    if (event.like("w1 *")) return worker(1, event.like("w1 *")->at(0));
    if (event.like("a stop is asked for")) return StopWanted{"a person asked"};
    if (event.like("the folder opens")) return CheckpointOpened{"dir"};
    if (event.like("the folder does not open")) return CheckpointOpened{absl::UnavailableError("no space")};
    if (event.like("the checkpoint counts")) return CheckpointCounted{absl::OkStatus()};
    if (event.like("time passes")) return TimePassed{};
    return std::nullopt;
  }

  std::optional<What> server(int number, const std::string& words) {
    if (words == "dies") return ServerGone{ServerPeer(number)};
    ServerMessage message;
    if (words == "comes") {
      as<ServerHello>(message).shard = HostRank(number);
      as<ServerHello>(message).exchange = "somewhere";
      as<ServerHello>(message).fabric = "sealed";
    } else if (words == "comes again") {
      as<ServerHello>(message).kept.attempt = "1";
      as<ServerHello>(message).kept.shard_count = 1;
      as<ServerHello>(message).kept.version = Version(made_);
    } else if (words == "starts" || words == "starts, and its memory is kept") {
      for (int i = 0; i < hosts_; ++i) as<ServerStarted>(message).board_paths.push_back("board");
      as<ServerStarted>(message).kept = words != "starts";
    } else if (const auto made = golden::Event::like(words, "makes *")) {
      made_ = std::stoi(made->at(0));
      as<ServerApplied>(message).version = Version(made_);
    } else if (const auto replica = golden::Event::like(words, "maps *")) {
      as<ServerMapped>(message).replica = ReplicaId(std::stoi(replica->at(0)));
    } else if (const auto version = golden::Event::like(words, "prepares *")) {
      as<ServerPrepared>(message).version = Version(std::stoi(version->at(0)));
    } else if (const auto revoked = golden::Event::like(words, "has not made *")) {
      as<ServerRevoked>(message).version = Version(std::stoi(revoked->at(0)));
    } else if (const auto early = golden::Event::like(words, "has made *")) {
      as<ServerRevoked>(message).version = Version(std::stoi(early->at(0)));
      as<ServerRevoked>(message).made = true;
    } else if (const auto written = golden::Event::like(words, "writes *")) {
      as<ServerWritten>(message).version = Version(std::stoi(written->at(0)));
    } else if (const auto copy = golden::Event::like(words, "has written shard *")) {
      as<CopyWritten>(message).shard = ShardId(std::stoi(copy->at(0)));
    } else {
      return std::nullopt;
    }
    return ServerSaid{ServerPeer(number), std::move(message), "somewhere"};
  }

  std::optional<What> worker(int number, const std::string& words) {
    if (words == "leaves") return WorkerGone{WorkerPeer(number)};
    WorkerMessage message;
    if (words == "comes") {
      as<WorkerHello>(message).name = fmt::format("w{}", number);
    } else if (words == "attaches") {
      Layout layout;
      layout.add("a", TensorKind::kParameter, {8});
      layout.add("b", TensorKind::kParameter, {8});
      as<WorkerAttached>(message).dataset_size = 64;
      as<WorkerAttached>(message).layout = layout;
      as<WorkerAttached>(message).gradient_path = "gradient";
      if (foresees_) as<WorkerAttached>(message).card = "GPU";
    } else if (words == "joins") {
      as<WorkerJoined>(message);
    } else if (const auto replica = golden::Event::like(words, "takes its role in *")) {
      as<RoleTaken>(message).replica = ReplicaId(std::stoi(replica->at(0)));
    } else if (const auto ready = golden::Event::like(words, "is ready with * as *")) {
      as<WorkerReady>(message).clock = Clock(std::stoi(ready->at(0)));
      as<WorkerReady>(message).base = Version(std::stoi(ready->at(0)) - 1);
      as<WorkerReady>(message).replica = ReplicaId(std::stoi(ready->at(1)));
      as<WorkerReady>(message).compute = Duration(10);
      as<WorkerReady>(message).worked = Duration(10);
    } else {
      return std::nullopt;
    }
    return WorkerSaid{WorkerPeer(number), std::move(message), "somewhere"};
  }

  // Empty for what only the run recorder reads.
  static std::string in_words(const Action& action) {
    return std::visit(
        Overloaded{
            [](const SendWorker& one) {
              return fmt::format("w{}: {}", one.to, std::visit(InWords(), one.order));
            },
            [](const SendServer& one) {
              return fmt::format("server {}: {}", one.to, std::visit(InWords(), one.order));
            },
            [](const SendServers& one) {
              std::vector<std::string> lines;
              for (const ServerPeer to : one.to)
                lines.push_back(fmt::format("server {}: {}", to, std::visit(InWords(), one.order)));
              return fmt::format("{}", fmt::join(lines, "\n    "));
            },
            [](const Tell& one) {
              return fmt::format("tell{}: {}", one.remember ? " and remember" : "", one.line);
            },
            [](const OpenCheckpoint& one) {
              return fmt::format("open a folder for version {}", one.version);
            },
            [](const CountCheckpoint& one) { return fmt::format("count version {}", one.state.version); },
            [](const DropCheckpoint&) { return std::string("drop the checkpoint"); },
            [](const End&) { return std::string("end"); },
            [](const auto&) { return std::string(); },
        },
        action);
  }

  SteadyTime now_{std::chrono::hours(1)};
  bool foresees_ = false;
  int hosts_ = 1;
  std::int64_t made_ = 0;  // the version that a server has made
  std::optional<Attempt> attempt_;
};

class AttemptStory : public testing::TestWithParam<std::string> {};

TEST_P(AttemptStory, IsTrue) {
  Story story;
  golden::expect_story(std::filesystem::path(kStories) / (GetParam() + ".txt"), "coordinator_test",
                       [&](const golden::Event& event) { return story.take(event); });
}

INSTANTIATE_TEST_SUITE_P(Files, AttemptStory, testing::ValuesIn(golden::texts_in(kStories)),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace paceline::coordinator
