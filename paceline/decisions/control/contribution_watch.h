// Decides about bad contributions: those with numbers that are not finite, or, if the job asks for it, with a
// norm far from the others'. Pure: it takes what workers report about their contributions, and gives
// verdicts.
//
// A bad contribution is discarded, and its samples are issued again. Three more things may be wrong:
//  - the training: since the last good contribution every worker that is here has had a bad one (and there
//    were three of them). The run ends.
//  - the samples: three times, with two workers at least, while others were good. The run ends. It never
//    leaves samples out.
//  - the worker: three of its last 100, no other worker had one lately, and one had a good one on the weights
//    of the first of the three or on newer ones. The run goes on without it.
// A norm far from the others never ends a run.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/ids.h"
#include "paceline/base/lease.h"

namespace paceline::control {

struct Contribution {
  std::string worker;
  Lease lease;
  Version version;  // version of the weights that it was made at
  std::optional<double> loss;
  std::string not_finite;  // the name of a tensor with such a number; empty: all is finite
  double norm = 0;         // 0: not known
};

class ContributionWatch {
 public:
  enum class Verdict { kGood, kDiscard, kGiveUpWorker, kEndRun };
  struct Judgement {
    Verdict verdict = Verdict::kGood;
    std::string why;  // for a person; a good one has none
  };

  // `outlier_factor`: a norm above this many times the median of the latest good ones is far from them; 0:
  // none is.
  explicit ContributionWatch(double outlier_factor) : outlier_factor_(outlier_factor) {}

  // `workers`: how many are here, this one among them.
  Judgement judge(const Contribution& contribution, std::size_t workers);

 private:
  struct Bad {
    std::int64_t at;  // number among its worker's contributions
    Version version;
  };
  struct Worker {
    std::int64_t contributions = 0;
    std::deque<Bad> bad;            // bad ones among the last kWindow
    std::optional<Version> good{};  // the newest weights for which it had a good one
  };
  struct Tries {
    Lease lease;
    Version since;  // version of the first try
    std::set<std::string> workers;
    int times = 0;
    bool others_good = false;  // at that version or a later one
  };

  Judgement judge_bad(const Contribution& contribution, std::size_t workers, bool far);
  Tries& tries_of(const Contribution& contribution);
  bool far_from_the_others(double norm);
  bool alone_with_it(const std::string& worker) const;
  double median() const;

  const double outlier_factor_;
  std::map<std::string, Worker> workers_;
  std::vector<Tries> tries_;         // samples whose latest contribution was not finite
  std::set<std::string> bad_since_;  // workers, since the last good contribution
  int bad_in_a_row_ = 0;
  std::deque<double> norms_;  // the latest
};

}  // namespace paceline::control
