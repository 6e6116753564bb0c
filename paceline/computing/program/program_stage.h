// A stage of a model that a program computes: the program gets and sends messages in memory that this process
// gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/engine/stage.h"
#include "paceline/computing/program/program_engine.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::program {

class ProgramStage final : public engine::Stage {
 public:
  // A stage of units [begin, end), with a number of its own in this program. The engine outlives it.
  ProgramStage(ProgramEngine& engine, std::int64_t number, std::int64_t begin, std::int64_t end)
      : engine_(engine), number_(number), begin_(begin), end_(end) {}
  ~ProgramStage() override;

  const ps::Layout& layout() const override { return engine_.layout(); }
  std::vector<ps::FloatRange> floats() const override;
  std::int64_t input_bytes(std::int64_t samples) const override;
  std::int64_t output_bytes(std::int64_t samples) const override;
  absl::Status prepare(const engine::Batch& batch) override;
  absl::Status start(std::span<const float* const> weights, std::span<float* const> gradients,
                     std::int64_t samples, std::int64_t micro_batch, std::uint64_t seed,
                     const engine::KeepGoing& keep_going) override;
  absl::Status receive_input(std::int64_t micro, std::span<const std::byte> message) override;
  absl::Status receive_gradient(std::int64_t micro, std::span<const std::byte> message) override;
  absl::StatusOr<std::size_t> send(std::span<std::byte> room) override;
  absl::StatusOr<double> forward(std::int64_t micro, const engine::KeepGoing& keep_going) override;
  absl::Status backward(std::int64_t micro, const engine::KeepGoing& keep_going) override;
  absl::StatusOr<double> forward_backward(std::int64_t micro, const engine::KeepGoing& keep_going) override;
  void expect_pass(engine::Pass pass, std::int64_t micro) override;
  void expect_finish() override;
  absl::StatusOr<engine::StageResult> finish(const engine::KeepGoing& keep_going) override;

 private:
  // Memory that the program maps.
  struct Buffer {
    ipc::SharedMemory memory;
    ipc::Mapping mapping;
  };
  absl::Status make_room(std::int64_t bytes);
  void forget();
  absl::StatusOr<Buffer> make_buffer(std::int64_t bytes, bool writable);
  absl::StatusOr<std::int64_t> number_of(const Buffer& buffer);
  absl::Status receive(std::span<const std::byte> message);
  absl::StatusOr<double> pass(const std::string& line, const engine::KeepGoing& keep_going);

  ProgramEngine& engine_;
  const std::int64_t number_, begin_, end_;
  std::optional<engine::Batch> batch_;
  std::optional<Buffer> in_, out_;
  // The size of the message in hand: in `in_`, or in `out_` after a pass; -1: there is none.
  std::int64_t received_ = -1;
  std::int64_t computed_ = 0;
  std::string expected_;  // the line that comes right after the next pass; empty: not known
};

}  // namespace paceline::program
