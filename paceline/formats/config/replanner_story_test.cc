// The stories in testdata/replanner/: what the Replanner of a job does when times change, and devices come and go.
// Events of a story, beside the time:
//   run a pipeline                   the job: one of jobs() below. All replicas of its plan are here
//   batch w0 96 w1 97                a batch is over; each device worked for so many ms. A search waits for "found"
//   40 batches w0 96 w1 384          the same so often, one behind the other, until the plan changes. A search is
//                                    answered at once, and the answers say after which batch
//   w1 leaves; w1 comes              a device; its replica ends with it
//   all replicas end                 no replica is left to end the batch
//   found                            the search that was ordered first is over
// Once a plan is adopted, its replicas are here.
#include "paceline/decisions/control/replanner.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/golden_text.h"
#include "paceline/decisions/planner/planner.h"
#include "paceline/formats/config/planning.h"

namespace paceline::config {
namespace {

// Six layers of 2 ms a sample. A device takes 96 ms for 8 samples.
const std::map<std::string, std::string>& jobs() {
  static const std::string layers =
      "[[layer]]\ncount = 6\nwork_ms = 2\noutput_kb = 0.1\nparameter_kb = 100\n";
  static const std::string pipeline =
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [3]\nsamples = 16\n" + layers;
  static const std::string head = "batch = 8\nmicro_batch = 2\n";
  static const std::map<std::string, std::string> all{
      {"a pipeline", "parallel = \"joint\"\n" + head + "[[device]]\ncount = 2\npace_ms = 96\n" + pipeline},
      {"a pipeline of devices that hold five layers",
       "parallel = \"joint\"\n" + head + "[[device]]\ncount = 2\npace_ms = 96\nmemory_mb = 1.1\n" + pipeline},
      {"a pipeline that stays",
       "parallel = \"pipeline\"\n" + head + "[[device]]\ncount = 2\npace_ms = 96\n" + pipeline},
      {"two replicas and a device without work",
       "parallel = \"joint\"\n" + head +
           "[[device]]\ncount = 3\npace_ms = 96\n[[pipeline]]\ndevices = [\"w0\"]\nsamples = 12\n"
           "[[pipeline]]\ndevices = [\"w1\"]\nsamples = 12\n[[layer]]\ncount = 6\nwork_ms = 2\n"
           "output_kb = 0.1\nparameter_kb = 0.1\n"},
  };
  return all;
}

class Story {
 public:
  std::optional<golden::Answers> take(const golden::Event& event) {
    at_ = Time(from_seconds(event.seconds()));
    if (const auto values = event.like("run *")) return run(values->front());
    if (const auto values = event.like("batch *")) return batch(values->front());
    if (const auto values = event.like("* batches *"))
      return batches(std::stoi(values->at(0)), values->at(1));
    if (const auto values = event.like("* leaves")) return leaves(device_of(values->front()));
    if (const auto values = event.like("* comes")) return comes(device_of(values->front()));
    if (event.like("all replicas end")) return all_end();
    if (event.like("found")) return found();
    return std::nullopt;
  }

 private:
  static std::int32_t device_of(const std::string& name) { return std::stoi(name.substr(1)); }

  golden::Answers run(const std::string& name) {
    job_ = parse_job(jobs().at(name), "job.toml").value();
    problem_ = replanner_options(job_, RunTime::kWall)->problem;
    replanner_ = control::Replanner::create(*replanner_options(job_, RunTime::kWall)).value();
    const control::PlanAdopted first = replanner_->first(at_);
    join_all(first.plan);
    return {in_words(first)};
  }

  std::string in_words(const control::PlanAdopted& adopted) const {
    return fmt::format("plan: {} ({})", planner::in_words(problem_, adopted.plan, adopted.predicted_ms),
                       adopted.why);
  }

  void join_all(const planner::Plan& plan) {
    for (const ReplicaId id : here_) replanner_->left(id);
    here_.clear();
    for (std::size_t place = 0; place < plan.replicas.size(); ++place) {
      here_.push_back(ReplicaId(next_++));
      EXPECT_TRUE(replanner_->joined({here_.back(), "", 1, static_cast<std::int32_t>(place)}).ok());
    }
    plan_ = plan;
  }

  // "w0 96 w1 97": the ms of each device.
  void finish_all(const std::string& words) {
    std::map<std::int32_t, double> worked_ms;
    std::istringstream in(words);
    std::string device;
    for (double ms = 0; in >> device >> ms;) worked_ms[device_of(device)] = ms;
    for (std::size_t i = 0; i < here_.size(); ++i) {
      const planner::PlannedReplica& replica = plan_.replicas[i];
      control::ReplicaReady fact{here_[i], Clock(1), Version(0), Duration(0)};
      for (const std::int32_t one : replica.devices) {
        fact.worked.push_back(from_seconds(worked_ms.at(one) / 1e3));
        fact.compute += fact.worked.back();
      }
      EXPECT_TRUE(replanner_->check(fact).ok());
      replanner_->finished(fact, replica.samples);
      longest_ = std::max(longest_, fact.compute);
    }
  }

  golden::Answers batch(const std::string& words) {
    finish_all(words);
    EXPECT_TRUE(replanner_->batch_is_over());
    std::vector<control::Order> orders;
    replanner_->end_batch(at_, orders);
    return answers(orders);
  }

  // A batch takes as long as its slowest replica, and 4 ms.
  golden::Answers batches(int count, const std::string& words) {
    golden::Answers all;
    for (int i = 1; i <= count; ++i) {
      longest_ = Duration(0);
      finish_all(words);
      at_ += longest_ + from_seconds(0.004);
      std::vector<control::Order> orders;
      replanner_->end_batch(at_, orders);
      bool adopted = false;
      for (std::size_t order = 0; order < orders.size(); ++order) {
        if (const auto* search = std::get_if<control::SearchPlan>(&orders[order])) {
          EXPECT_TRUE(replanner_->searched(at_, control::searched(*search), orders).ok());
          continue;
        }
        if (std::holds_alternative<control::BatchDone>(orders[order])) continue;
        adopted = adopted || std::holds_alternative<control::PlanAdopted>(orders[order]);
        for (const std::string& line : answers({orders[order]}))
          all.push_back(fmt::format("batch {}: {}", i, line));
      }
      if (adopted) break;
    }
    return all;
  }

  golden::Answers answers(const std::vector<control::Order>& orders) {
    golden::Answers all;
    for (const control::Order& order : orders) {
      if (const auto* batch = std::get_if<control::BatchDone>(&order)) {
        all.push_back(fmt::format("the batch took {:.1f} ms, {:.1f} were predicted{}", batch->measured_ms,
                                  batch->predicted_ms, batch->regular ? "" : "; it is not regular"));
      } else if (const auto* search = std::get_if<control::SearchPlan>(&order)) {
        searches_.push_back(*search);
        all.emplace_back("search");
      } else if (const auto* adopted = std::get_if<control::PlanAdopted>(&order)) {
        all.push_back(in_words(*adopted));
        join_all(adopted->plan);
      } else if (const auto* none = std::get_if<control::NoPlan>(&order)) {
        all.push_back("no plan: " + none->why);
      }
    }
    return all;
  }

  golden::Answers leaves(std::int32_t device) {
    EXPECT_TRUE(replanner_->left(control::DeviceLeft{device}).ok());
    for (std::size_t i = 0; i < here_.size(); ++i) {
      const std::vector<std::int32_t>& devices = plan_.replicas[i].devices;
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) continue;
      replanner_->left(here_[i]);
      here_.erase(here_.begin() + static_cast<std::ptrdiff_t>(i));
      plan_.replicas.erase(plan_.replicas.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    return {};
  }

  golden::Answers comes(std::int32_t device) {
    EXPECT_TRUE(replanner_->joined(control::DeviceJoined{device}).ok());
    return {};
  }

  golden::Answers all_end() {
    for (const ReplicaId id : here_) replanner_->left(id);
    here_.clear();
    std::vector<control::Order> orders;
    replanner_->give_up_batch(at_, orders);
    return answers(orders);
  }

  golden::Answers found() {
    if (searches_.empty()) {
      std::vector<control::Order> orders;
      const absl::Status status = replanner_->searched(at_, {}, orders);
      return {std::string(status.message())};
    }
    const control::SearchPlan search = searches_.front();
    searches_.erase(searches_.begin());
    std::vector<control::Order> orders;
    EXPECT_TRUE(replanner_->searched(at_, control::searched(search), orders).ok());
    return answers(orders);
  }

  JobConfig job_;
  planner::Problem problem_;
  std::unique_ptr<control::Replanner> replanner_;
  planner::Plan plan_;  // the replicas that are here
  std::vector<ReplicaId> here_;
  int next_ = 0;
  std::vector<control::SearchPlan> searches_;
  Time at_;
  Duration longest_{0};
};

constexpr char kFolder[] = "paceline/formats/config/testdata/replanner";

class ReplannerStory : public testing::TestWithParam<std::string> {};

TEST_P(ReplannerStory, GoesAsTheTextSays) {
  Story story;
  golden::expect_story(std::filesystem::path(kFolder) / (GetParam() + ".txt"), "build/release/config_test",
                       [&](const golden::Event& event) { return story.take(event); });
}

INSTANTIATE_TEST_SUITE_P(Replanner, ReplannerStory, testing::ValuesIn(golden::texts_in(kFolder)));

}  // namespace
}  // namespace paceline::config
