// One shard: a part of the model's weights and optimizer state, brought from version to version by the commit
// log.
//
// Invariant: version v is the start plus commits 1..v, each applied once and in order. A commit that
// was applied before changes nothing, so sending one again is harmless. The published weights of a version
// never change while a process reads them. Constants are the bytes that start() was given, in every version:
// they are copied into a buffer of the board when it is used first, and no commit spends time on them. Where
// replicas look ahead, a version's direction (where its update went, UpdateStreams::direction) is published
// behind its weights. A prepared version is not visible, and the previous one stays whole, until it is
// published. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/memory/weight_board.h"
#include "paceline/ps/fused_update.h"
#include "paceline/ps/group_sum.h"
#include "paceline/ps/layout.h"
#include "paceline/ps/parameter_groups.h"
#include "paceline/ps/passes.h"
#include "paceline/ps/thread_pool.h"
#include "paceline/ps/update_rule.h"

namespace paceline::ps {

// One commit, as one shard sees it.
struct Update {
  struct Member {
    const float* gradient;  // layout().size() floats; those of constants are not looked at
    double weight;          // of its gradient in the sum
    double share;           // of its statistics
  };
  Version version;
  std::vector<Member> members;
  double learning_rate = 0;  // η
  double fraction = 1;       // f
  // A version that is not finite must not be visible: it is not published, and this shard ends.
  bool only_finite = false;
  // Members give how far they moved the weights by steps of their own: the weights go by the mean of that,
  // and the optimizer has no part in it.
  bool of_differences = false;
  std::optional<GroupSum> group = {};  // where the members sum among themselves
  // Where gradients come while they are applied: waits until elements [begin, end) of all of them are there.
  // Called by any thread, for parts of blocks of so many elements. An error is the end of this shard.
  std::function<absl::Status(std::int64_t begin, std::int64_t end)> arrival = {};
  std::int64_t arrival_block = 0;
  // Where gradients are clipped and members' gradients are of this shard's part alone: the squared norm of
  // the averaged gradient over all parts, where this part's is `own`. An error is the end of this shard.
  std::function<absl::StatusOr<double>(double own)> squares_of_all = {};
  // Floats [begin, end) of the board's buffer for this version are as they will be: each that moves once, by
  // any thread, before the version is published.
  std::function<void(std::span<const float> buffer, std::int64_t begin, std::int64_t end)> made = {};
};

// Where members' gradients are of the whole model, beside the shard's part of it.
struct WholeModel {
  Layout layout;
  std::int64_t offset = 0;  // of the shard's part, in floats
};

// The state of a shard for a restart, except the weights.
struct OptimizerState {
  std::vector<std::vector<float>> streams;  // state_streams() of layout().size() floats each
  double fractions = 0;                     // Σ f over the updates so far
};

class Shard {
 public:
  // Of a buffer of the board.
  static std::int64_t board_floats(const Layout& layout, bool look_ahead) {
    return layout.size() * (look_ahead ? 2 : 1);
  }
  // `board` holds board_floats() a buffer; by their number the shard knows whether replicas look ahead.
  // `groups`: of the whole model, which they fit (check_groups). Where the optimizer clips gradients the
  // shard is the whole model, or it is given `whole`, or each update has squares_of_all. Where it steps
  // tensors as a whole (is_tensorwise) the layout has no pieces.
  Shard(Layout layout, OptimizerConfig optimizer, memory::WeightWriter board, int threads,
        std::span<const ParameterGroup> groups = {}, const std::optional<WholeModel>& whole = {});

  // Publishes `weights` as `version`. Requires: before the first apply, and after restore_optimizer() if that
  // is called; sizes as the layout says.
  void start(Version version, std::span<const float> weights);
  // Requires: before start(). Errors: InvalidArgument when the sizes are not this model's.
  absl::Status restore_optimizer(OptimizerState state);

  // Makes version v of v − 1 and publishes it. Errors: FailedPrecondition when a commit before it is missing;
  // InvalidArgument for differences where the optimizer is not SGD; OutOfRange where only_finite and it is
  // not; those of Update::arrival.
  absl::Status apply(const Update& update);
  // The same in two steps, where it is not certain yet that there will be this version. An error leaves the
  // shard as it was. Requires: no other version is prepared.
  absl::Status prepare(const Update& update);
  // Requires: a version is prepared.
  void publish();

  Version version() const { return board_.version(); }
  // Of the latest version, and of one that the board keeps.
  std::span<const float> weights() const { return weights_of(board_.latest()); }
  std::span<const float> kept_weights(Version version) const { return weights_of(board_.kept(version)); }
  // Of the latest version; empty when nobody looks ahead.
  std::span<const float> direction() const { return board_.latest().subspan(weights().size()); }
  const Layout& layout() const { return layout_; }
  int threads() const { return pool_.threads(); }
  // Whether its weights, statistics and optimizer state are finite numbers: of the version that is prepared
  // if one is, else of version(). Constants are not looked at, nor is the state that a restart brought.
  // Padding is: it stays 0 as long as that of the gradients is.
  bool finite() const { return finite_; }
  // Of the latest version.
  const OptimizerState& optimizer_state() const { return prepared_ ? before_ : state_; }
  memory::WeightWriter& board() { return board_; }
  const memory::WeightWriter& board() const { return board_; }

 private:
  template <class Float>
  std::span<Float> weights_of(std::span<Float> buffer) const {
    return buffer.first(static_cast<std::size_t>(layout_.size()));
  }
  // A part of what commits change, and how much of that lies before it.
  struct Moving {
    std::int64_t begin;  // floats [begin, end) of the layout
    std::int64_t end;
    std::int64_t before;
  };
  static std::vector<Moving> moving_of(const Layout& layout);

  absl::Status check(const Update& update) const;
  // Of the members' averaged gradient over all parameters; waits for all of it. Errors: those of
  // Update::arrival.
  absl::StatusOr<double> gradient_norm(const Update& update);
  // By optimizer.
  std::vector<StepNumbers> numbers_of(double learning_rate, double fraction) const;
  // A buffer for the next version, with the constants in it.
  std::span<float> take_buffer();
  template <class BeforeStep>
  absl::Status make(const Update& update, BeforeStep before_step);
  UpdateStreams streams_into(std::span<float> buffer);
  void remember(std::int64_t begin, std::int64_t end);
  void take_back();
  // Where the optimizer steps whole tensors: each by one thread, in the memory of the next version. Threads
  // do not share a tensor, so that its sums do not depend on their number.
  template <class BeforeStep, class TellMade>
  absl::Status make_tensors(const Update& update, std::span<const StepNumbers> numbers,
                            const UpdateStreams& streams, BeforeStep before_step, TellMade tell_made);
  // Whether what it wrote is finite.
  bool apply_range(const Update& update, std::span<const StepNumbers> numbers, const UpdateStreams& streams,
                   std::int64_t begin, std::int64_t end);
  void write_direction(std::span<float> buffer);

  const Layout layout_;
  const OptimizerConfig optimizer_;
  const std::vector<Layout::Run> runs_;
  std::vector<OptimizerConfig> optimizers_;  // of all tensors without a group, then of each group
  const std::vector<Pass> passes_;           // they cover the layout
  // What a commit changes, tensor by tensor, and the place in optimizers_ of each.
  struct Whole {
    const TensorSpec* tensor;
    std::int64_t end;  // of its padding
    std::size_t optimizer;
  };
  std::vector<Whole> wholes_;  // empty where the optimizer does not need it
  // Where gradients are clipped: all parameters whose gradients are seen here, in blocks that do not depend
  // on how work is shared, and the sum of squares in each. Their positions count from this shard's begin.
  std::vector<Layout::Range> blocks_;
  std::vector<double> squares_;
  const std::vector<Moving> moving_;
  const std::int64_t moving_floats_;
  std::vector<const float*> with_constants_;  // buffers of the board
  memory::WeightWriter board_;
  OptimizerState state_;
  std::optional<Version> prepared_;
  bool finite_ = true;
  // Of the version before the one that is being prepared; empty where none ever was. And what of it is there.
  OptimizerState before_;
  std::mutex remembering_;
  std::vector<std::pair<std::int64_t, std::int64_t>> remembered_;
  ThreadPool pool_;
};

}  // namespace paceline::ps
