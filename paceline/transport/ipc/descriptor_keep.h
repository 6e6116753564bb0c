// Descriptors that stay open while the process that put them here is gone, so that the memory behind them stays too: a
// launcher opens a keep, and every server that it starts in the same place inherits the keep. Descriptors wait in the
// queue of a socket pair, so the launcher does nothing for them, and a kill at any moment loses none.
//
// One process at a time, and one thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::ipc {

class DescriptorKeep {
 public:
  static constexpr int kMost = static_cast<int>(kMostPassed);  // descriptors
  static constexpr std::size_t kLongest = 32 * 1024;           // bytes of text

  // Errors: ResourceExhausted; Unimplemented if this system has no such sockets.
  static absl::StatusOr<DescriptorKeep> open();
  // The keep that a process inherited, by the ends that the launcher has.
  DescriptorKeep(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}

  // For the command line of a process that inherits both.
  std::array<int, 2> ends() const { return {in_.get(), out_.get()}; }

  // Keeps these in the place of what was kept, with a text about them; the caller's stay open too. A process that is
  // killed meanwhile leaves what was kept before, or these. Errors: ResourceExhausted; what was kept before stays then.
  absl::Status keep(std::string_view text, std::span<const int> descriptors);
  // The text, and copies of the kept descriptors, which stay; nothing if nothing is kept.
  std::optional<PassedMessage> look() const { return last_of_all().last; }
  // Keeps nothing any more.
  void clear();

 private:
  struct All {
    int count = 0;
    std::optional<PassedMessage> last{};
  };
  // The messages in the queue, which stay there.
  All last_of_all() const;
  // Whether last_of_all() can be believed here. Requires: nothing is kept.
  bool sees_all();

  FileDescriptor in_, out_;
};

}  // namespace paceline::ipc
