// A worker's flat gradient, in memory that the shards map: the shard reads the gradient where backpropagation
// writes it.
//
// The worker owns it. It writes while it computes, and stamps the clock when the gradient is whole; the
// shards read only between then and the publication of the commit that names (replica, clock), and the worker
// does not write in that time because it waits for that version of all weights before. So one buffer is
// enough. Where it is released because no commit will name it, what was read of it
// (exchange/commit_exchange.h: early) is not used.
//
// Where a replica is a pipeline of processes, its gradient is one such buffer: the first stage owns it, the
// others open it and each writes its own tensors.
//
// The gradient may lie in a card's memory that the server owns. This buffer then has only the stamp, and gradient()
// is a range of addresses that name places in that memory (weight_board.h says the same of weights).
//
// The worker also says here that a gradient is ready, once it has said so to the coordinator. A server that knows the next
// commit looks for this, and does not wait for the coordinator's order (server/server.h).
//
// Beside the gradient lies room for sums: where a commit's members sum among themselves, the worker's part of
// it. It is apart, so that the gradient stays whole until the commit is complete, and takes no memory before
// it is used.
//
// Until the servers have started, the buffer holds the model's first weights in the place of a gradient. If its program
// brings an optimizer that has a state, that lies behind the sums.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::memory {

class GradientWriter {
 public:
  // With room for so many streams of an optimizer's state, which `steps` updates have made.
  static absl::StatusOr<GradientWriter> create(std::int64_t floats, int streams = 0, double steps = 0);
  // Another process's, to write a part of. Errors: as GradientReader::open.
  static absl::StatusOr<GradientWriter> open(const std::string& path, std::int64_t floats);

  // Zero at first. The padding of the layout must stay zero.
  std::span<float> gradient();
  // From now on gradient() names places in a card's memory. Errors: there are no addresses for it.
  absl::Status move_to_device();
  bool on_device() const { return device_.has_value(); }
  // The gradient in the host's memory, for the parts of it that no card has.
  std::span<float> on_host();
  // The gradient of iteration `clock` is whole.
  void stamp(Clock clock);
  // The worker has told the coordinator that this replica's gradient of this iteration is ready, and has said
  // nothing that changes the commit (control::Controller::next_commit()).
  void say_ready(ReplicaId replica, Clock clock);
  // The member's sums, as long as the gradient. Write them before publishing the word that speaks of them.
  std::span<float> sums();
  void publish_sums(std::uint64_t progress);
  // One stream behind the other, each as long as the gradient.
  std::span<float> first_state();
  std::string path() const { return memory_.path(); }
  // All of the file at path(), as it lies here; on a device, the addresses of the gradient.
  const ipc::Mapping& mapping() const { return device_ ? *device_ : mapping_; }

 private:
  GradientWriter(ipc::SharedMemory memory, ipc::Mapping mapping, std::int64_t floats);
  ipc::SharedMemory memory_;
  ipc::Mapping mapping_;
  std::optional<ipc::Mapping> device_;
  std::int64_t floats_;
};

class GradientReader {
 public:
  // Errors: NotFound (the worker is gone), InvalidArgument (not a gradient of this many floats).
  static absl::StatusOr<GradientReader> open(const std::string& path, std::int64_t floats);

  // Whether the gradient is of exactly this iteration. Errors: FailedPrecondition: the buffer holds another.
  absl::Status check(Clock clock) const;
  // Whether the writer said last that this replica's gradient of this iteration is ready.
  bool is_ready(ReplicaId replica, Clock clock) const;
  // The gradient of exactly this iteration, if it is in the host's memory. Errors: the same.
  absl::StatusOr<std::span<const float>> gradient(Clock clock) const;
  // The word that the worker published last about its sums; 0 before. A reader of the word sees the sums it
  // speaks of.
  std::uint64_t sums_progress() const;
  std::span<const float> sums() const;
  // GradientWriter::first_state(), and the updates that have made it; empty and 0 if there is none.
  std::span<const float> first_state() const;
  double first_steps() const;

 private:
  GradientReader(ipc::Mapping mapping, std::int64_t floats);
  ipc::Mapping mapping_;
  std::int64_t floats_;
};

}  // namespace paceline::memory
