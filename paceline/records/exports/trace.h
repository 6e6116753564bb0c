// A run as a Chrome trace (the JSON that ui.perfetto.dev and chrome://tracing open), streamed while a journal
// is replayed: a track a device with a slice for each of its spans (report::TimeSpans), arrows from a wait to
// the device that was waited for, tracks for the servers' work, and counters.
//
//   devices   "load", "pull" (until the weights are there), "compute", "wait for w3" (args: rule, why);
//             "release" and "push" (its release and its report on their way; of both together the journal has
//             the sum, so each is half of it); "starting", "recovering", "lost iteration", "no work", "gone";
//             "joined" and "left" as instants
//   servers   "commits" as instants; "evaluations", "checkpoints" and "updates of server 0" and so on as
//             slices if the journal says how long they took; else instants, each at its version's commit
//   counters  "staleness" (mean and largest) and "samples/s", about one point for each bulk update
//
// Invariant: slices of a track never overlap, and each arrow has both its ends, in slices. Times are in
// microseconds with three decimals, so nanoseconds are exact. Memory is bounded by the number of devices,
// however long the run is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/exports/text_out.h"
#include "paceline/records/stats/summary.h"
#include "paceline/records/stats/time_spans.h"

namespace paceline::exports {

class Trace final : public control::RunListener {
 public:
  Trace(const report::RunInfo& info, Write write);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // Ends the slices that are under way at `now`, the time of the latest event, and ends the file. Returns the
  // first error of writing.
  absl::Status finish(Time now);

 private:
  struct Track {
    report::TimeSpan last;  // the latest span that was written
    bool any = false;
  };

  void event(std::string_view text);
  void slice(const report::TimeSpan& span);
  std::string title(const report::TimeSpan& span);
  std::string arguments(const report::TimeSpan& span);
  void arrow(const report::TimeSpan& waiting);
  void instant(int process, std::size_t track, Time at, const std::string& name,
               const std::string& arguments);
  void name_track(int process, std::size_t track, const std::string& name);
  Track& track(std::size_t device);
  void instant_of(ReplicaId replica, Time at, const std::string& name, const std::string& why);
  void commit(Time at, const control::CommitRecord& record);
  void work(std::size_t track, const control::SideWork& work, const std::string& name,
            const std::string& arguments);
  void checkpoint_as_instant();
  void count(Time at, const control::CommitRecord& record);

  TextOut out_;
  report::TimeSpans spans_;
  std::vector<Track> tracks_;  // indexed by device
  policy::Reason why_;         // the reason of the order that ends a span
  std::uint64_t arrows_ = 0;
  std::map<std::size_t, Time> worked_until_;     // indexed by the servers' tracks
  std::optional<control::SideWork> evaluation_;  // an evaluation whose result comes next
  // an ordered checkpoint; nobody has said yet how long it took
  std::optional<std::pair<Version, Time>> checkpoint_;
  struct {
    Time since;
    std::int64_t samples = 0, gradients = 0, staleness = 0, staleness_max = 0;
  } bulk_;  // since the latest point of the counters
  bool first_ = true;
};

}  // namespace paceline::exports
