// A stage of a pipeline: a run of a model's units that computes on the output of the previous stage. It holds
// one message: the last one that it received or computed. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/metrics.h"
#include "paceline/parameters/ps/float_range.h"
#include "paceline/parameters/ps/layout.h"

namespace paceline::engine {

// Asked now and then while something takes long.
using KeepGoing = std::function<bool()>;

struct Batch;

struct StageResult {
  Metrics metrics = {};  // the stage's own
  // In the last stage, if the program weighs its micro-batches: how much the gradient counts beside those of other
  // batches, and the mean loss by these weights.
  std::optional<double> weight = {};
  double loss = 0;
};

enum class Pass { kForward, kBackward, kForwardBackward };

class Stage {
 public:
  virtual ~Stage() = default;

  // The layout of the whole model.
  virtual const ps::Layout& layout() const = 0;
  // The ranges of this stage's own tensors in that layout: it writes no other part of a gradient.
  virtual std::vector<ps::FloatRange> floats() const = 0;
  // The most bytes of a message to or from the previous stage, and to or from the next one, about a
  // micro-batch of so many samples. Both stages say the same. A message may be shorter.
  virtual std::int64_t input_bytes(std::int64_t samples) const = 0;
  virtual std::int64_t output_bytes(std::int64_t samples) const = 0;

  // Loads what the first and the last stage need of a batch.
  virtual absl::Status prepare(const Batch& batch) = 0;
  // An iteration begins, on the batch that was prepared last where this stage needs one: one pointer a tensor
  // of layout() each, valid until the next one begins. What is left of an iteration before is forgotten, so
  // one may be given up at any point. Errors, here and below: Cancelled if `keep_going` says no while the stage
  // waits for another process; ResourceExhausted if the device has no memory for it, and then the iteration is given up.
  virtual absl::Status start(std::span<const float* const> weights, std::span<float* const> gradients,
                             std::int64_t samples, std::int64_t micro_batch, std::uint64_t seed,
                             const KeepGoing& keep_going) = 0;

  // Takes a message in hand: outputs of the stage before it for micro-batch `micro`, or gradients of the one
  // behind it. Errors: DataLoss when it has another size.
  virtual absl::Status receive_input(std::int64_t micro, std::span<const std::byte> message) = 0;
  virtual absl::Status receive_gradient(std::int64_t micro, std::span<const std::byte> message) = 0;
  // Writes what is in hand: its size. Errors: InvalidArgument when there is too little room.
  virtual absl::StatusOr<std::size_t> send(std::span<std::byte> room) = 0;

  // A stage's passes over micro-batch `micro`. Forward gives the mean loss in the last stage, and 0 in
  // others.
  virtual absl::StatusOr<double> forward(std::int64_t micro, const KeepGoing& keep_going) = 0;
  virtual absl::Status backward(std::int64_t micro, const KeepGoing& keep_going) = 0;
  // Both passes in the last stage: the loss, and the gradient in hand.
  virtual absl::StatusOr<double> forward_backward(std::int64_t micro, const KeepGoing& keep_going) {
    const absl::StatusOr<double> loss = forward(micro, keep_going);
    const absl::Status done = loss.ok() ? backward(micro, keep_going) : loss.status();
    if (!done.ok()) return done;
    return loss;
  }
  // The stage hears what comes right after the next pass, with no message between the two, and may begin it early.
  virtual void expect_pass(Pass, std::int64_t /*micro*/) {}
  virtual void expect_finish() {}
  // All passes of the iteration are over: completes this stage's part of the gradient.
  virtual absl::StatusOr<StageResult> finish(const KeepGoing&) { return StageResult{}; }
};

}  // namespace paceline::engine
