// The messages between a worker and a program, as docs/program.md has them: one JSON object a line. What a
// program sends is not trusted. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/config/program_config.h"
#include "paceline/engine/engine.h"
#include "paceline/ps/layout.h"

namespace paceline::program {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kLongestLine = 16 << 20;  // bytes

enum class Role { kProbe, kWorker, kEvaluator, kVirtual };

// `tensor` and those that follow it lie at byte `offset` of a mapped memory, as far apart as in the layout.
struct PlacedRun {
  std::int64_t tensor;
  std::int64_t memory;
  std::int64_t offset;
  friend bool operator==(const PlacedRun&, const PlacedRun&) = default;
};

// ---- to the program ----

struct StartMessage {
  Role role = Role::kWorker;
  std::string name;
  std::int64_t on_host = 0;  // its number among the devices of its host
  std::int64_t devices = 1;
  std::uint64_t seed = 1;
  int threads = 1;
  std::string weights = "view";
  // The job's settings that a program may also set: `batch`, the mean over the devices, and `epochs`.
  std::vector<std::pair<std::string, double>> settings;
};

std::string line_of(const StartMessage& message);
std::string layout_line(const ps::Layout& layout);
std::string map_line(std::int64_t memory, const engine::Memory& mapped);
std::string unmap_line(std::int64_t memory);
std::string initial_line(std::span<const PlacedRun> to);
std::string expect_line(std::span<const engine::Batch> batches);
// engine::Weights says what these two are.
struct Ahead {
  float reach = 0;
  std::int64_t direction = 0;  // floats
};
// `micro_batch`: engine::kWholeBatch is written as null.
std::string step_line(const engine::Batch& batch, std::span<const PlacedRun> weights,
                      std::span<const PlacedRun> gradients, std::int64_t micro_batch, const Ahead& ahead = {});
std::string evaluate_line(std::span<const PlacedRun> weights);
std::string end_line(const std::string& why, bool failed);

// ---- from the program ----

// A program's description of itself. Keys of a job file that it sets: "KEY=VALUE" in TOML each, for
// config::parse_job.
struct Model {
  ps::Layout layout;
  std::int32_t samples = 0;
  std::string digest;
  std::string device;  // what it computes on, in words; empty: it did not say
  std::int64_t prefetch = 0;
  std::string card;  // engine::Engine::card() says what these two are
  std::int32_t cards = 0;
  std::vector<std::string> sets;
  std::vector<std::pair<std::string, std::string>> aliases;  // other name, tensor
  std::string text;                                          // the message itself
};

struct Done {};
struct Stepped {
  engine::StepResult result;
};
struct Evaluated {
  engine::Evaluation result;
};
struct Failed {
  std::string text;   // one line
  std::string where;  // FILE:LINE; may be empty
  std::string traceback;
};

using Answer = std::variant<Model, Done, Stepped, Evaluated, Failed>;

// Errors: DataLoss, in words that fit after "the program ".
absl::StatusOr<Answer> parse_answer(const std::string& line);

}  // namespace paceline::program
