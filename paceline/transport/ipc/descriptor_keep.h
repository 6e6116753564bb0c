// Descriptors that stay open while the process that put them here is gone, so that the memory behind them stays too: a
// launcher opens a keep, and every server that it starts in the same place inherits the keep. Descriptors wait in the
// queue of a socket pair, so the launcher does nothing for them, and a kill at any moment loses none.
//
// One process at a time, and one thread.
#pragma once

#include <array>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::ipc {

class DescriptorKeep {
 public:
  static constexpr int kMost = static_cast<int>(kMostPassed);  // descriptors

  // Errors: ResourceExhausted.
  static absl::StatusOr<DescriptorKeep> open();
  // The keep that a process inherited, by the ends that the launcher has.
  DescriptorKeep(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}

  // For the command line of a process that inherits both.
  std::array<int, 2> ends() const { return {in_.get(), out_.get()}; }

  // Keeps these in the place of what was kept; the caller's stay open too. Requires: at most kMost. Errors:
  // ResourceExhausted; nothing is kept then.
  absl::Status keep(const std::vector<int>& descriptors);
  // Copies of the kept descriptors, which stay; empty if nothing is kept.
  std::vector<FileDescriptor> look() const { return receive(true); }
  // Keeps nothing any more.
  void clear();

 private:
  std::vector<FileDescriptor> receive(bool stay) const;

  FileDescriptor in_, out_;
};

}  // namespace paceline::ipc
