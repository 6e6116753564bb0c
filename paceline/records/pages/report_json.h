// A run as one JSON document: the only input of the HTML report, and the output of `--json` for a whole run.
// Keys are only ever added; `format` counts up when one changes its meaning. Unknown is null, times are
// seconds of the job's clock. Pure.
//
//   format 1, title, policy, world ("simulated" | "virtual" | "live")
//   target      null or {metric: "accuracy" | "loss", value, text, reached: null or {time_s, samples}}
//   summary     finished, finished_why, start_s, end_s, elapsed_s, samples, total_samples, samples_per_s,
//               iterations, commits, wait_share, gap_max, staleness_mean, staleness_max, staleness_bound (S,
//               null if the policy promises none), commits_per_epoch, gradients_per_epoch (what ASP would
//               commit), group_size_mean (gradients a commit), group_size_max, deviation, training_loss,
//               best_accuracy, last_evaluation (null or as in evaluations), replicas, replicas_live,
//               data_note (null, or what people should know of the data; of a run folder's run only),
//               missed_paces (null, or a text: which devices took longer than they were to take)
//                 deviation  null or {learning_rate, fraction, bound, measured, used_weights}: largest η,
//                            largest q (the part of the bulk in one update), η·q·S or null, η·q·τ_max; null
//                            or {gradient, mean, most, mean_bound, most_bound} (report/summary.h)
//   evaluations [{time_s, samples, loss, accuracy}]
//   training    [[time_s, samples, loss]]: means of the latest commits; the user's own metrics are a fourth
//   throughput  [[time_s, samples_per_s]]: means over equal spans, each named by its middle
//   staleness   {bin_width, counts}: bin i counts contributions with i·w ≤ τ < (i + 1)·w
//   groups      {causes: [text], sizes: [{from, to, commits}], formed: [[time_s, version, size, ids, why]],
//               left_out, left_out_after}: commits of so many gradients by cause; those of several gradients
//               one by one, ids being the replicas that have a lane and why an index into `reasons`. If any
//               of them are left out, then after the first left_out_after
//   replicas    [{id, name, doing, why, iterations, discarded, samples, mean_compute_s, wait_share,
//               mean_staleness, lane, gap}], the first 1,000; replicas_left_out
//                 lane  null or {intervals: [[start_s, end_s, doing, iteration, why]], left_out,
//                       left_out_after, activity}: doing "c"omputing, "w"aiting, "p"arked; why is an index
//                       into `reasons`, or −1. If any intervals are left out, after the first
//                       left_out_after, then activity is [[time_s, computing_s, waiting_s]], sums until that
//                       time, else empty
//                 gap   null or [[time_s, gap]]
//   reasons     [text]
//   events      [{time_s, replica, text}]; events_left_out
//   plan        null or {devices: [name], layers, re_plans, predicted_ms, measured_ms, error, plans,
//               plans_left_out, batches, links}: means of whole batches without a change of plans, error
//               being the mean of |predicted − measured| / measured
//                 plans    [{from_s, replicas: [{devices, cuts, samples}], micro_batch, predicted_ms,
//                          measured_ms, batches, why}]: from_s: when it was adopted; predicted_ms: at that
//                          time; measured_ms: its mean
//                 batches  [[time_s, batches, predicted_ms, measured_ms, elapsed_ms, [share]]]: consecutive
//                          batches until time_s; the means are of `batches` regular ones; the share of each
//                          device is the part of elapsed_ms in which it computed
//                 links    [{from, to, points: [[time_s, Mb/s]]}]: hosts, and the traffic from a stage on
//                          the first to a stage on the second
//   time, about of a run folder's run only: time_json; and [[name, text]]: the job's settings, and the place
//   folder      of a run in a comparison only: the name of its own folder, beside the comparison's report
//   ranking     of a run in a comparison only: {fastest, verdict: [text]}; the verdict is that of all runs.
//               With several seeds the first run's also has means: {head: [text], rows: [[text]]}
//   group, seed if policies were trained with several seeds each: the policy without the seed, and the seed
#pragma once

#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/history.h"
#include "paceline/records/stats/summary.h"

namespace paceline::report {

inline constexpr std::size_t kReplicasInReport = 1000;

// Requires: both describe the same run at the same time.
Json report_json(const Summary& summary, const History& history);

}  // namespace paceline::report
