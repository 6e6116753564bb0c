// A process of the made-up cluster: it can be killed and started again, and stand still for a while. Events
// that were meant for it before it died do not happen to it afterwards.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "paceline/decisions/supervisor/events.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/simulation/cluster_sim/world.h"

namespace paceline::cluster_sim {

// The interval of heartbeats, and of attempts to reach a coordinator that does not answer.
inline constexpr Milliseconds kHeartbeat{400};
inline constexpr Milliseconds kAgain{200};

// The clock of one machine, which may leap ahead but never back.
struct Clock {
  SteadyTime::duration ahead{0};
};

// The host of a process, the place in the network from which it sends, and the clock that it reads.
struct Home {
  int host = 0;
  int place = 0;
  const Clock* clock = nullptr;
  std::chrono::duration<double> patience{60};  // how long it waits for a coordinator that is gone
};

class Process {
 public:
  Process(World& world, std::string name, Home home) : world_(world), name_(std::move(name)), home_(home) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  int host() const { return home_.host; }
  int place() const { return home_.place; }
  // The time on this machine's clock.
  SteadyTime now() const { return world_.now() + home_.clock->ahead; }
  bool alive() const { return alive_; }
  // True if it ended by itself.
  bool ended() const { return ended_; }
  // True if it lives and does nothing.
  bool still() const { return still_; }
  // Calls `see` at each end except by put_away().
  void on_end(std::function<void(const supervisor::ProcessEnd&)> see) { see_end_ = std::move(see); }

  void start() {
    alive_ = true;
    ended_ = still_ = false;
    nobody_since_.reset();
    nobody_comes_ = false;
    world_.trace("{} starts", name_);
    begin();
  }
  void kill() {
    if (!alive_) return;
    world_.trace("{} is killed", name_);
    die(absl::UnavailableError("killed"), ExitReason::kKilled);
  }
  // Its starter ends it.
  void put_away() {
    if (!alive_) return;
    world_.trace("{} is put away", name_);
    die();
  }
  // Runs nothing of this process for `time`. Its connections stay.
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

  // Its starter knows that no coordinator will come, so the process need not wait for one.
  void expect_nobody() { nobody_comes_ = true; }

  // Runs `what` after `delay` if the process still lives, and later if it stands still then.
  void after(Milliseconds delay, std::function<void()> what) {
    world_.after(delay, happening(std::move(what)));
  }
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
  // Called after a start.
  virtual void begin() = 0;
  // Called after an end: lets other processes notice it.
  virtual void gone() = 0;
  // Called when nobody listens: tries `connect` again until the patience is over, like peer/peer.h.
  void try_again(std::function<void()> connect) {
    if (nobody_comes_) return end(absl::FailedPreconditionError("there is no coordinator to wait for"));
    if (!nobody_since_) nobody_since_ = world_.now();
    if (world_.now() > *nobody_since_ + home_.patience)
      return end(absl::UnavailableError("no coordinator answers; waited long"));
    after(kAgain, std::move(connect));
  }
  void connected() { nobody_since_.reset(); }
  // The process ends by itself.
  void end(const absl::Status& why) {
    world_.trace("{} ends: {}", name_, why.ok() ? "the job is over" : std::string(why.message()));
    ended_ = true;
    die(why, exit_reason_of(why));
  }

  World& world_;

 private:
  void die(const absl::Status& why, ExitReason reason) {
    die();
    const bool killed = reason == ExitReason::kKilled;
    const char* const words = why.ok() ? "exit status 0"
                              : killed ? "killed by signal 9 (Killed)"
                                       : "exit status 2";
    if (see_end_) see_end_({reason, why.ok(), killed, words, why.ok() ? why : with_exit_reason(why, reason)});
  }
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
  const Home home_;
  bool alive_ = false;
  bool ended_ = false;
  bool still_ = false;
  std::uint64_t life_ = 0;
  std::deque<std::function<void()>> delayed_;
  std::function<void(const supervisor::ProcessEnd&)> see_end_;
  std::optional<SteadyTime> nobody_since_;
  bool nobody_comes_ = false;
};

}  // namespace paceline::cluster_sim
