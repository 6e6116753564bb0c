// Stories of attempts: each file in testdata/attempt tells one, event by event, with the actions and the phase.
#include "paceline/processes/coordinator/attempt.h"

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
#include "paceline/formats/wire/wire.h"

namespace paceline::coordinator {
namespace {

constexpr char kStories[] = "paceline/processes/coordinator/testdata/attempt";

// The orders' names in the protocol, with the numbers that matter to a reader.
std::string order_in_words(const wire::WorkerOrder& order) {
  if (order.has_release())
    return fmt::format("release {}, with version {}", order.release().clock(), order.release().version());
  if (order.has_disconnect()) return "disconnect " + order.disconnect().why();
  if (order.has_role()) return fmt::format("role in replica {}", order.role().replica());
  if (order.has_dissolve()) return fmt::format("dissolve replica {}", order.dissolve().replica());
  return order.has_welcome() ? "welcome" : order.has_boards() ? "boards" : "another order";
}

std::string order_in_words(const wire::ServerOrder& order) {
  if (order.has_start())
    return fmt::format("{} version {}", order.start().take_up() ? "take up" : "start with",
                       order.start().version());
  if (order.has_apply()) return fmt::format("make {}", order.apply().version());
  if (order.has_map_gradient()) return fmt::format("map replica {}", order.map_gradient().replica());
  if (order.has_unmap_gradient()) return fmt::format("unmap replica {}", order.unmap_gradient().replica());
  if (order.has_release_reader()) return "release a reader";
  if (order.has_write_checkpoint())
    return fmt::format("write_checkpoint {}", order.write_checkpoint().version());
  if (order.has_write_copy())
    return fmt::format("write_copy {} of shard {}", order.write_copy().version(), order.write_copy().shard());
  if (order.has_disconnect()) return "disconnect " + order.disconnect().why();
  if (order.has_want()) return fmt::format("host {} wants {}", order.want().host(), order.want().version());
  if (order.has_publish()) return fmt::format("publish {}", order.publish().version());
  return "another order";
}

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

  // "attempt of two hosts": shards are kept twice.
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
    options.job = config::parse_job(options.job_toml, "job.toml").value();
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
    wire::ServerMessage message;
    if (words == "comes") {
      message.mutable_hello()->set_shard(number);
      message.mutable_hello()->set_exchange("somewhere");
      message.mutable_hello()->set_fabric("sealed");
    } else if (words == "comes again") {
      message.mutable_hello()->mutable_kept()->set_attempt("1");
      message.mutable_hello()->mutable_kept()->set_shard_count(1);
      message.mutable_hello()->mutable_kept()->set_version(made_);
    } else if (words == "starts" || words == "starts, and its memory is kept") {
      for (int i = 0; i < hosts_; ++i) message.mutable_started()->add_board_paths("board");
      message.mutable_started()->set_kept(words != "starts");
    } else if (const auto made = golden::Event::like(words, "makes *")) {
      made_ = std::stoi(made->at(0));
      message.mutable_applied()->set_version(made_);
    } else if (const auto replica = golden::Event::like(words, "maps *")) {
      message.mutable_mapped()->set_replica(std::stoi(replica->at(0)));
    } else if (const auto version = golden::Event::like(words, "prepares *")) {
      message.mutable_prepared()->set_version(std::stoi(version->at(0)));
    } else if (const auto written = golden::Event::like(words, "writes *")) {
      message.mutable_written()->set_version(std::stoi(written->at(0)));
    } else if (const auto copy = golden::Event::like(words, "has written shard *")) {
      message.mutable_copy_written()->set_shard(std::stoi(copy->at(0)));
    } else {
      return std::nullopt;
    }
    return ServerSaid{ServerPeer(number), std::move(message), "somewhere"};
  }

  std::optional<What> worker(int number, const std::string& words) {
    if (words == "leaves") return WorkerGone{WorkerPeer(number)};
    wire::WorkerMessage message;
    if (words == "comes") {
      message.mutable_hello()->set_name(fmt::format("w{}", number));
    } else if (words == "attaches") {
      ps::Layout layout;
      layout.add("a", ps::TensorKind::kParameter, {8});
      layout.add("b", ps::TensorKind::kParameter, {8});
      message.mutable_attached()->set_dataset_size(64);
      *message.mutable_attached()->mutable_layout() = wire::to_wire(layout);
      message.mutable_attached()->set_gradient_path("gradient");
    } else if (words == "joins") {
      message.mutable_joined();
    } else if (const auto replica = golden::Event::like(words, "takes its role in *")) {
      message.mutable_role_taken()->set_replica(std::stoi(replica->at(0)));
    } else if (const auto ready = golden::Event::like(words, "is ready with * as *")) {
      message.mutable_ready()->set_clock(std::stoi(ready->at(0)));
      message.mutable_ready()->set_base(std::stoi(ready->at(0)) - 1);
      message.mutable_ready()->set_replica(std::stoi(ready->at(1)));
      message.mutable_ready()->set_compute_ns(10);
      message.mutable_ready()->set_worked_ns(10);
    } else {
      return std::nullopt;
    }
    return WorkerSaid{WorkerPeer(number), std::move(message), "somewhere"};
  }

  // Empty for what only the run recorder reads.
  static std::string in_words(const Action& action) {
    return std::visit(
        Overloaded{
            [](const SendWorker& one) { return fmt::format("w{}: {}", one.to, order_in_words(one.order)); },
            [](const SendServer& one) {
              return fmt::format("server {}: {}", one.to, order_in_words(one.order));
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
