// A process: it can be killed and started again, and stand still for a while. What was to happen to it before it
// died does not happen after.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "paceline/cluster_sim/world.h"

namespace paceline::cluster_sim {

// How often a process says that it lives, and looks for a coordinator that is not there.
inline constexpr Milliseconds kBeat{400};
inline constexpr Milliseconds kAgain{200};
inline constexpr std::chrono::seconds kPatience{60};

class Process {
 public:
  Process(World& world, std::string name) : world_(world), name_(std::move(name)) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  // It ended by itself: there is nothing left to do for it.
  bool ended() const { return ended_; }

  void start() {
    alive_ = true;
    ended_ = still_ = false;
    nobody_since_.reset();
    world_.trace("{} starts", name_);
    begin();
  }
  void kill() {
    if (!alive_) return;
    world_.trace("{} is killed", name_);
    die();
  }
  // For so long nothing of it runs. Its connections stay.
  void stand_still(Milliseconds time) {
    if (!alive_ || still_) return;
    world_.trace("{} stands still for {:.0f} ms", name_, time.count());
    still_ = true;
    world_.after(time, guarded([this] {
                   world_.trace("{} goes on", name_);
                   still_ = false;
                   while (!still_ && !delayed_.empty()) {
                     const auto what = std::move(delayed_.front());
                     delayed_.pop_front();
                     what();
                   }
                 }));
  }

  // Happens to it after that time, if it lives then; later if it stands still.
  void after(Milliseconds delay, std::function<void()> what) { world_.after(delay, happening(std::move(what))); }
  std::function<void()> happening(std::function<void()> what) {
    return guarded([this, what = std::move(what)]() mutable {
      if (still_) {
        delayed_.push_back(guarded(std::move(what)));
      } else {
        what();
      }
    });
  }

 protected:
  // It has been started.
  virtual void begin() = 0;
  // It is gone: whatever others see of that.
  virtual void gone() = 0;
  // Nobody listens: `connect` is tried again, unless that was for too long.
  void try_again(std::function<void()> connect) {
    if (!nobody_since_) nobody_since_ = world_.now();
    if (world_.now() > *nobody_since_ + kPatience) return end("the coordinator did not come back");
    after(kAgain, std::move(connect));
  }
  void connected() { nobody_since_.reset(); }
  // By itself.
  void end(const std::string& why) {
    world_.trace("{} ends: {}", name_, why);
    ended_ = true;
    die();
  }

  World& world_;

 private:
  void die() {
    alive_ = false;
    ++life_;
    delayed_.clear();
    gone();
  }
  std::function<void()> guarded(std::function<void()> what) {
    return [this, life = life_, what = std::move(what)] {
      if (life == life_ && alive_) what();
    };
  }

  const std::string name_;
  bool alive_ = false;
  bool ended_ = false;
  bool still_ = false;
  std::uint64_t life_ = 0;
  std::deque<std::function<void()>> delayed_;
  std::optional<SteadyTime> nobody_since_;
};

}  // namespace paceline::cluster_sim
