// The messages between a worker and a program, as docs/program.md has them: one JSON object a line. What a
// program sends is not trusted. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/data_order.h"
#include "paceline/computing/engine/engine.h"
#include "paceline/formats/config/program_config.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::program {

inline constexpr int kProtocol = 1;
inline constexpr std::size_t kLongestLine = 16 << 20;  // bytes
inline constexpr std::size_t kMostLengths = 4096;      // the limit of shards in a message
inline constexpr int kStepValues = 32;                 // on the page of a step (step_page.h)

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
  bool stages = false;  // the job has stages: the model is to say where it can be cut
  bool recuts = false;  // other stages may come later: a device without memory is to say so, and not to fail
  bool card_memory = false;          // the program is to say what its card has free
  std::string initial_weights = {};  // the file of model.weights; frozen tensors have its values
  std::string run_folder = {};       // empty: this process does not know it
  std::string run = {};              // the run's name; empty: not known
  // The processes of this host share it, and so may those of the job's next run here; empty: not known.
  std::string host_folder = {};
  bool keep_frozen = true;
  std::int64_t profile = 0;  // a probe is to measure micro-batches of up to so many samples; 0: none
  bool beside = false;       // a probe computes until its end, while another one measures
  // The job's settings that a program may also set: `batch`, the mean over the devices, and `epochs`.
  // `round`: the samples of one batch of each replica, if the job file says how devices are stages. `computed`:
  // engine::TooFew::computed of the program before this one.
  std::vector<std::pair<std::string, double>> settings;
};

std::string line_of(const StartMessage& message);
std::string layout_line(const ps::Layout& layout);
std::string map_line(std::int64_t memory, const engine::Memory& mapped);
std::string unmap_line(std::int64_t memory);
std::string initial_line(std::span<const PlacedRun> to);
// One list of places for each stream of the optimizer's state.
std::string optimizer_state_line(std::span<const std::vector<PlacedRun>> to);
// `dropped`: these batches come behind those of the last line without its first ones, so many; -1: they replace all.
std::string expect_line(std::span<const engine::Batch> batches, std::int64_t dropped = -1);
// How many of these batches, from the first one on, such a line has room for.
std::size_t expected_in_a_line(std::span<const engine::Batch> batches);
// engine::Weights says what these two are.
struct Ahead {
  float reach = 0;
  std::int64_t direction = 0;  // floats
};
// The words of a step that the program's GPU waits for and writes by itself (step_page.h).
struct Words {
  std::int64_t page = 0;  // the number of its memory
  std::uint32_t number = 0;
  // The step may not begin before the page says so, and its weights are at the start of one of these memories. Empty:
  // it may begin at once, and its weights are known.
  std::vector<std::int64_t> rows = {};
};
// `micro_batch`: engine::kWholeBatch is written as null.
std::string step_line(const engine::Batch& batch, std::span<const PlacedRun> weights,
                      std::span<const PlacedRun> gradients, std::int64_t micro_batch, const Ahead& ahead = {},
                      const std::optional<Words>& words = {});
// An iteration of a stage of units [begin, end) begins. Messages to it are written to memory `in`, and it
// writes its own to memory `out`.
struct StageMessage {
  std::int64_t stage = 0;  // its number in this program
  std::int64_t begin = 0;
  std::int64_t end = 0;
  engine::Batch batch = {};
  std::int64_t micro_batch = 1;
  std::int64_t in = 0;
  std::int64_t out = 0;
};
std::string stage_line(const StageMessage& message, std::span<const PlacedRun> weights,
                       std::span<const PlacedRun> gradients);
// A pass over a micro-batch. `bytes`: of the message that lies in the stage's memory `in`; -1: there is none.
std::string pass_line(engine::Pass pass, std::int64_t stage, std::int64_t micro, std::int64_t bytes);
std::string finish_line(std::int64_t stage);
std::string leave_line(std::int64_t stage);
std::string evaluate_line(std::span<const PlacedRun> weights);
std::string last_line(std::span<const PlacedRun> weights);
// `first`: the program may write what one process of the job writes.
std::string end_line(const std::string& why, bool failed, bool first = false);

// ---- from the program ----

// The weights that a unit computes with, in bytes of their own types.
struct UnitWeights {
  std::int64_t parameter_bytes = 0;  // weights that no earlier unit computes with
  std::int64_t frozen_bytes = 0;     // the part of them that nobody trains
  std::int64_t tied_bytes = 0;       // weights that an earlier unit computes with, too
  std::int32_t tied_to = 0;          // the number of that unit
};

// A part of the model between two places where it can be cut.
struct Unit {
  std::string name;
  std::vector<std::int64_t> tensors;  // whose gradient or new value it writes, in ascending order
  // To the next unit, of one sample; beside the activations or their gradient, a message has up to `extra`.
  std::int64_t message_bytes = 0;
  std::int64_t extra_bytes = 0;
  std::int64_t kept_bytes = 0;         // for one sample, from the forward pass to the backward pass
  double flops = 0;                    // for one sample, both passes
  std::optional<UnitWeights> weights;  // none: the program does not say
};

// A program's description of itself. Keys of a job file that it sets: "KEY=VALUE" in TOML each, for
// config::parse_job.
struct Model {
  ps::Layout layout;
  std::vector<engine::FrozenTensor> frozen;
  std::int32_t samples = 0;
  bool in_order = false;  // engine::Engine::in_order() says what this is
  std::string digest;
  DataOrder data_order;  // engine::Engine::data_order() says what this is
  std::string note;      // one line that people should know; empty: nothing
  std::string where;     // FILE:LINE that asks for the settings; empty: it did not say
  std::string device;    // the device it computes on, in words; empty: it did not say
  std::int64_t prefetch = 0;
  std::string card;  // engine::Engine::card() says what these two are
  std::int32_t cards = 0;
  // Free bytes of the cards, in the order in which the devices of this host take them; empty: it computes on none.
  std::vector<std::int64_t> free_memory;
  std::optional<engine::Engine::CardMemory> card_memory;  // the free memory of its card, if it was asked
  bool words = false;                                     // its steps can have Words
  bool bfloat16 = false;   // the leading parameters of bfloat16 may be narrow tensors
  bool last = false;       // the program wants the job's last weights
  double first_steps = 0;  // engine::Engine::first_steps() says what this is
  std::vector<std::string> sets;
  std::vector<Unit> units;                                   // none: the program computes whole models
  std::string uncut;                                         // why it does
  std::string libraries;                                     // engine::Engine::Cuts says what this is
  std::vector<std::pair<std::string, std::string>> aliases;  // other name, tensor
  // How another tool names what was trained (PEFT, say): its name, tensor; and a JSON object that it wants beside them.
  std::vector<std::pair<std::string, std::string>> trained_names;
  std::string adapter_config;
  std::string text;  // the message itself
};

struct Done {};
struct Stepped {
  engine::StepResult result;
  // The places, on the step's page, of numbers that are there once the step is done. Without a step that ends later the
  // result is whole.
  struct Later {
    std::optional<int> loss = {};
    std::map<std::string, int> metrics = {};
  };
  std::optional<Later> later = {};
  std::vector<engine::ShardLength> lengths = {};  // learnt since the last message with lengths
};
struct Passed {
  std::int64_t bytes = 0;  // size of the message in the stage's memory `out`
  double loss = 0;         // result of the last stage's forward pass
};
// The device has no memory for the step or the stage.
struct OutOfMemory {
  std::string text;   // one line
  std::string where;  // FILE:LINE; may be empty
};
struct Finished {
  engine::StageResult result;
  std::vector<engine::ShardLength> lengths = {};
};
struct Evaluated {
  engine::Evaluation result;
};
struct Failed {
  std::string text;   // one line
  std::string where;  // FILE:LINE; may be empty
  std::string traceback;
  std::optional<engine::TooFew> too_few{};
};

using Answer = std::variant<Model, Done, Stepped, Passed, OutOfMemory, Finished, Evaluated, Failed>;

// Errors: DataLoss, in words that fit after "the program ".
absl::StatusOr<Answer> parse_answer(const std::string& line);

}  // namespace paceline::program
