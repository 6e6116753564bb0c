// Engines compute gradients, for those who do everything else: a worker, the evaluator, virtual time. Two
// kinds: the built-in models (train/), in this process, and a program of the user's (program/), in another.
//
// An engine keeps no weights. Every call says where they lie, and its gradient goes straight to memory that
// the caller names. One thread at a time, but for share() and forget().
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/data_order.h"
#include "paceline/base/metrics.h"
#include "paceline/computing/engine/micro_batches.h"
#include "paceline/computing/engine/stage.h"
#include "paceline/parameters/ps/bfloat16.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::engine {

// The batch of one gradient.
struct Batch {
  std::vector<std::int32_t> samples;  // indices into the training set
  std::int32_t epoch = 0;
  std::uint64_t augment_seed = 0;  // fixes, with its index, how a sample is augmented
  std::uint64_t step_seed = 0;     // fixes what the model draws while it computes

  friend bool operator==(const Batch&, const Batch&) = default;
};

struct StepResult {
  double loss = 0;              // mean over the batch; of the built-in models in nats
  bool skipped = false;         // there is no gradient
  bool retry = false;           // the same step may have a gradient when it is taken again
  Metrics metrics = {};         // the user's own
  bool finite = false;          // all numbers of the gradient are known to be
  std::string not_finite = {};  // the name of a tensor whose gradient is not; empty: nobody has looked
  // How much this gradient counts beside those of other batches; nullopt: as much as its samples.
  std::optional<double> weight = {};
  // The number of samples of the run, as control::ReplicaReady has it. A batch of samples from there on is skipped.
  std::optional<std::int64_t> data_end = {};
};

struct Evaluation {
  double loss = 0;      // not a number where the evaluation has none; so is the accuracy
  double accuracy = 0;  // share of right answers, 0..1
  Metrics metrics = {};
};

// Memory that an engine in another process has to map before it can use pointers into it.
struct Memory {
  std::string path;         // path of the file; for a card's memory, its name at `socket`
  const std::byte* base;    // address in this process, or the first of addresses that stand for it
  std::size_t bytes;        // size from `base` on
  std::size_t file_offset;  // offset of `base` in the file
  bool writable;
  std::string card = {};    // the card that has it; empty: the host's memory
  std::string socket = {};  // gives descriptors of a card's memory (memory/descriptor_service.h)
};

// The weights of a step.
struct Weights {
  // A span of pointers, or what becomes one: all that weights in the host's memory have.
  template <class Pointers>
  requires std::convertible_to<const Pointers&, std::span<const float* const>> Weights(const Pointers& where)
      : tensors(where) {}
  std::span<const float* const> tensors;  // one pointer a tensor of layout(), in its order
  // Weights and gradients, or parts of them, are in a card's memory, and the pointers of these are places there. A step
  // that is skipped then leaves a gradient of zeros and the weights' statistics; in the host's memory its caller does that.
  bool on_card = false;
  // If this is not 0, the step is at weights − reach · direction. The direction of each float lies `direction` floats
  // behind it. Only weights in a card's memory have one.
  float reach = 0;
  std::int64_t direction = 0;
};

// A tensor that nobody trains. It is no part of the layout: every process has it from the model itself.
struct FrozenTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  ps::Dtype dtype = ps::Dtype::kFloat32;
  std::string digest = {};  // the same wherever the values are; empty: not known
};

// A step failed because its batch had too few samples.
struct TooFew {
  std::int64_t enough = 0;    // samples with which a new engine may not fail
  std::int64_t computed = 0;  // samples of the smallest batch that did not fail; 0: there is none
};

// A shard of the training set whose length showed only while it was read.
struct ShardLength {
  std::int32_t shard = 0;  // its number
  std::int64_t records = 0;
  std::string name = {};  // the same on all hosts
};

class Engine {
 public:
  virtual ~Engine() = default;

  // To be called by the thread that uses it from now on, where another one made it.
  virtual void enter_thread() {}

  virtual const ps::Layout& layout() const = 0;
  virtual std::span<const FrozenTensor> frozen() const { return {}; }
  // The number of samples in the training set.
  virtual std::int32_t samples() const = 0;
  // The training set has an order of its own: samples of an epoch are leased as 0, 1, 2, …, and not permuted.
  virtual bool in_order() const { return false; }
  // A text that is the same wherever the training set is; empty: nobody knows.
  virtual std::string digest() const { return ""; }
  // Which sample stands at each position; empty: nobody knows.
  virtual DataOrder data_order() const {
    const std::string all = digest();
    return all.empty() ? DataOrder{} : DataOrder{{0, all}};
  }
  // Lengths that showed so far and are no part of `digest()`, in the order in which they did. The list only grows. Valid
  // until the next step.
  virtual std::span<const ShardLength> lengths() const { return {}; }
  // One line that people should know of its data; empty: nothing.
  virtual std::string note() const { return ""; }
  // The number of units of the model, between which it can be cut into stages; 1 for one that cannot be cut.
  virtual std::int64_t units() const { return 1; }
  // The places where the model can be cut, which have to be the same in all processes of a job with stages.
  struct Cuts {
    std::uint32_t digest = 0;  // equal for equal units
    std::string
        libraries;  // the libraries that found them, with their versions, for people; empty: not known
  };
  // Nothing if nobody could have found others.
  virtual std::optional<Cuts> cuts() const { return std::nullopt; }
  // The values that the model begins with, to layout().size() floats; padding is zero.
  virtual absl::Status initial_weights(std::span<float> out) = 0;
  // How many updates the program's optimizer had made before the job; 0: it has no state.
  virtual double first_steps() const { return 0; }
  // Writes the state of the program's optimizer to `out`: the streams of ps::OptimizerState, one behind the other, each
  // of layout().size() floats; padding is zero. Requires: first_steps() > 0.
  virtual absl::Status first_state(std::span<float> /*out*/) {
    return absl::UnimplementedError("this model brings no state of an optimizer");
  }

  // Pointers into this memory may come from now on, until it is forgotten. From any thread.
  virtual void share(const Memory&) {}
  virtual void forget(const std::byte*) {}
  // Batches that will probably come, in this order, the very next one first; they replace those said before.
  virtual void expect(std::span<const Batch>) {}
  // How many of them are of use.
  virtual std::int64_t prefetch() const { return 0; }
  // The card whose memory the engine can take weights from and write gradients to, and how many cards this process
  // sees; empty if it computes on none, or cannot share its memory.
  struct Card {
    std::string uuid;
    std::int32_t of = 0;
  };
  virtual Card card() const { return {}; }
  // The card that the engine computes on, and what it had free before this engine used any, in bytes.
  struct CardMemory {
    std::string card;
    std::int64_t free_bytes = 0;
  };
  virtual std::optional<CardMemory> card_memory() const { return std::nullopt; }

  // All of a step that needs no weights.
  virtual absl::Status prepare(const Batch& batch) = 0;
  // The mean gradient over the batch that was prepared last, at `weights`; `gradients` has one pointer a tensor of
  // layout(), in its order. Statistics: read from weights, and what they became in this step
  // written to gradients; constants are left alone. `weights` is only read, and may be mapped read-only. The
  // batch is computed `micro_batch` samples at a time, as the stages of a pipeline do it. Errors: the
  // engine's own; what is in `gradients` is then worth nothing. Cancelled if `keep_going` says no during
  // a wait. ResourceExhausted if the device has no memory for the step, and the job can give it a stage instead.
  virtual absl::StatusOr<StepResult> step(const Weights& weights, std::span<float* const> gradients,
                                          std::int64_t micro_batch, const KeepGoing& keep_going) = 0;

  // Over the whole test set, in chunks of about `chunk` samples. Cancelled when `keep_going` says no.
  virtual absl::StatusOr<Evaluation> evaluate(std::span<const float* const> weights, std::int64_t chunk,
                                              const KeepGoing& keep_going) = 0;

  // The job is done, and these are its last weights: a program that goes on after the job has them in its model.
  virtual absl::Status take_last(std::span<const float* const>, const KeepGoing&) { return absl::OkStatus(); }

  // For a caller that waits for others. Errors: the process that computes has ended, so the next step would fail.
  virtual absl::Status check_alive() { return absl::OkStatus(); }

  // The job is over, and nothing else is called any more. Returns once what a program does after it has
  // ended. `first`: one engine of a job hears this, whose program may write what one process writes. Errors:
  // FailedPrecondition, when that ended badly.
  virtual absl::Status end(bool /*first*/) { return absl::OkStatus(); }

  // Set after a step failed because its batch was so small.
  virtual std::optional<TooFew> too_few() const { return std::nullopt; }

  // The run of units [begin, end) of the model. The whole model is then not needed in this process.
  virtual absl::StatusOr<std::unique_ptr<Stage>> make_stage(std::int64_t, std::int64_t) {
    return absl::UnimplementedError("this model cannot be cut into stages");
  }
};

// One pointer for each tensor of a gradient at `base`, in the host's memory or on a card (ps::GradientPlace); those of
// narrow tensors are places of bfloat16.
inline std::vector<float*> gradient_pointers(const ps::Layout& layout, float* base, bool on_card) {
  float* const wide = on_card ? base - layout.narrow() / 2 : base;
  std::vector<float*> pointers;
  for (const ps::TensorSpec& tensor : layout.tensors()) {
    const bool narrow = tensor.offset < layout.narrow();
    pointers.push_back(narrow ? reinterpret_cast<float*>(ps::narrow_part(base) + tensor.offset)
                              : wide + tensor.offset);
  }
  return pointers;
}

// One pointer for each tensor of `layout`, which lies at `base` as float32.
template <class Float>
std::vector<Float*> tensor_pointers(const ps::Layout& layout, Float* base) {
  std::vector<Float*> pointers;
  for (const ps::TensorSpec& tensor : layout.tensors()) pointers.push_back(base + tensor.offset);
  return pointers;
}

}  // namespace paceline::engine
