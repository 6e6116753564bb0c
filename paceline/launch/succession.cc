#include "paceline/launch/succession.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "paceline/store/lock_file.h"

namespace paceline::launch {

namespace {

// A coordinator that is started again is not gone; and how often the folder is looked at.
constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::seconds kPause{1};
// Between one host's turn and the next one's.
constexpr std::chrono::seconds kTurn{2};

bool nobody_leads(const store::RunPaths& run) {
  const auto lock = store::lock_file(run.lock());
  return lock.ok() && lock->has_value();
}

}  // namespace

Succession::Succession(int host, double patience_s, std::string run, SteadyTime now)
    : host_(host),
      patience_(std::chrono::duration<double>(patience_s) + host * kTurn),
      run_(std::move(run)),
      heard_(now) {}

void Succession::heard(const std::string& run, SteadyTime now) {
  run_ = run;
  heard_ = now;
}

Succession::Step Succession::look(SteadyTime now) {
  if (run_.empty() || now < heard_ + kSilence || now < looked_ + kPause) return {};
  looked_ = now;
  const store::RunPaths run{run_};
  const auto leader = runs::read_leader(run);
  if (!leader.ok()) return {};
  if (leader->host != led_by_ && leader->host != host_) {
    led_by_ = leader->host;
    heard_ = now;
    return Follow{*leader};
  }
  if (!nobody_leads(run)) return {};
  // Whoever ends a run takes the mark away before the lock goes.
  std::error_code error;
  const bool over = !std::filesystem::exists(run.mark(), error);
  if (error) return {};
  if (over) return Over{};
  if (now < heard_ + patience_) return {};
  heard_ = now;  // if it cannot, it tries again after as long
  if (leader->host == host_) return Lead{};
  return Lead{leader->host};
}

}  // namespace paceline::launch
