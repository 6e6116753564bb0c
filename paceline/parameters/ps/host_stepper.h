// Steps a shard in the host's memory, on threads of its own.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/kept_state.h"
#include "paceline/parameters/ps/stepper.h"
#include "paceline/parameters/ps/thread_pool.h"

namespace paceline::ps {

class HostStepper final : public Stepper {
 public:
  // The plan outlives this. `kept`: has the state, in the shape of the plan's layout and so many threads, if the
  // optimizer is not is_tensorwise(); nothing: the memory of this process has it.
  HostStepper(const StepPlan& plan, int threads, std::optional<KeptState> kept = std::nullopt);

  absl::Status set_state(StateStreams state) override;
  absl::StatusOr<StateStreams> state(bool before) const override;
  void start_at(Version version, double fractions) override;
  absl::StatusOr<KeptState::Left> take_up(Version version) override;
  absl::StatusOr<bool> begin(std::span<const float> weights, std::span<const StepNumbers> numbers,
                             std::span<float> buffer) override;
  absl::Status copy_constants(std::span<const float> from, std::span<float> to) override;
  absl::StatusOr<bool> step(const Step& step) override;
  absl::Status read(std::span<const float> from, std::span<float> to) const override;
  int threads() const override { return pool_.threads(); }

 private:
  struct Members;
  class Ascending;

  // The squared norm's root of the members' averaged gradient over all parameters; waits for all of it.
  // Errors: those of Update::arrival.
  absl::StatusOr<double> gradient_norm(const Update& update);
  absl::StatusOr<bool> make(const Step& step, std::span<const StepNumbers> numbers);
  // Makes the pieces of a kept state that do not have the version yet.
  bool make_pieces(const Step& step, std::span<const StepNumbers> numbers, const UpdateStreams& streams);
  // Makes the pieces of one chain.
  void make_chain(std::size_t chain, const Members& members, const Step& step,
                  std::span<const StepNumbers> numbers, const UpdateStreams& streams);
  // Steps each tensor as a whole, by one thread, in the memory of the next version. Threads do not share a
  // tensor, so that its sums do not depend on their number.
  absl::StatusOr<bool> make_tensors(const Step& step, std::span<const StepNumbers> numbers,
                                    const UpdateStreams& streams);
  // Returns whether what it wrote is finite.
  bool apply_range(const Members& members, const Update& update, std::span<const StepNumbers> numbers,
                   const UpdateStreams& streams, std::int64_t begin, std::int64_t end) const;
  // The streams with a place of a kept state.
  static UpdateStreams at(const KeptState::Place& place, UpdateStreams streams);
  UpdateStreams streams_of(std::span<const float> latest, std::span<float> next);
  // The state as it is, in all its places. Requires: no update is begun and not made.
  std::vector<KeptState::Place> places();
  // Called for each range before it changes, by any thread.
  void remember(const Step& step, std::int64_t begin, std::int64_t end);
  void undo();

  const StepPlan& plan_;
  std::optional<KeptState> kept_;
  StateStreams own_;  // empty if the state is kept
  // The state of the version before the one that was made undoable; empty if none ever was. And what of it is
  // there.
  StateStreams before_;
  std::mutex remembering_;
  std::vector<std::pair<std::int64_t, std::int64_t>> remembered_;
  std::vector<double> squares_;  // one for each block of the plan
  ThreadPool pool_;
};

}  // namespace paceline::ps
