// How long an attempt waits for missing processes. Pure: the caller gives the time.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <vector>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/actions.h"

namespace paceline::coordinator {

// Allows a condition for this long, without a break.
class Patience {
 public:
  explicit Patience(double seconds) : length_(seconds) {}

  // `so`: whether the condition holds now; `listened`: from Hearing. True once it has held for long enough.
  bool is_over(bool so, SteadyTime::duration listened) {
    if (!so) since_.reset();
    if (!so) return false;
    if (!since_) since_ = listened;
    return std::chrono::duration<double>(listened - *since_) >= length_;
  }

 private:
  std::chrono::duration<double> length_;
  std::optional<SteadyTime::duration> since_;
};

// A later attempt waits for the workers of all devices, but not for ever: a device may be broken.
class MissingDevices {
 public:
  explicit MissingDevices(double patience_s) : patience_(patience_s) {}

  // The missing devices to give up now: all of them after a wait that was long enough, and none before.
  // `waits`: the attempt has everything else that it needs.
  std::vector<DevicePlace> overdue(std::vector<DevicePlace> missing, bool waits,
                                   SteadyTime::duration listened) {
    std::erase_if(missing, [this](DevicePlace device) { return given_up_.contains(device); });
    return patience_.is_over(waits && !missing.empty(), listened) ? missing : std::vector<DevicePlace>();
  }
  void give_up(const std::vector<DevicePlace>& devices) { given_up_.insert(devices.begin(), devices.end()); }
  // The device is waited for again when it leaves.
  void came(DevicePlace device) { given_up_.erase(device); }

 private:
  Patience patience_;
  std::set<DevicePlace> given_up_;
};

// Whether a silence means something: when this process itself stood still, it heard nothing.
class Hearing {
 public:
  // A process that does not stand still is asked to do something at least this often.
  static constexpr std::chrono::milliseconds kOwnPause{500};

  explicit Hearing(SteadyTime start) : start_(start), last_passed_(start), since_(start) {}

  // Time has passed. Returns whether this process has listened for a while.
  bool is_good(SteadyTime now) {
    if (now - last_passed_ > kOwnPause) {
      since_ = now;
      stood_still_ += now - last_passed_;
    }
    last_passed_ = now;
    return now - since_ >= kOwnPause;
  }
  // The time since which this process has not stood still. A silence that began before says nothing about the other one.
  SteadyTime running_since(SteadyTime now) const { return now - last_passed_ > kOwnPause ? now : since_; }
  // How long this process has listened since the start: the time in which another one could have come.
  SteadyTime::duration listened() const { return last_passed_ - start_ - stood_still_; }

 private:
  const SteadyTime start_;
  SteadyTime last_passed_;
  SteadyTime since_;
  SteadyTime::duration stood_still_{};
};

}  // namespace paceline::coordinator
