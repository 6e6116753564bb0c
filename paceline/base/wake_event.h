// Wakes a thread that sleeps in poll(), from any other.
#pragma once

#include <sys/eventfd.h>

#include <cstdint>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"

namespace paceline {

class WakeEvent {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<WakeEvent> create() {
    FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid()) return absl::ResourceExhaustedError("no file descriptor is left");
    return WakeEvent(std::move(event));
  }
  // An event that cannot be used yet.
  WakeEvent() = default;

  // fd() is readable from now on, until clear().
  void wake() const {
    const std::uint64_t one = 1;
    // The write can only fail if the event is set already.
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = read(event_.get(), &count, sizeof count);
  }
  int fd() const { return event_.get(); }

 private:
  explicit WakeEvent(FileDescriptor event) : event_(std::move(event)) {}

  FileDescriptor event_;
};

}  // namespace paceline
